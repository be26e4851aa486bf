"""Small real translators of a language of twelve words, whose way back knows another word for each."""

from pathlib import Path

import torch

ENGLISH = ("good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark")
GERMAN = ("gut", "schlecht", "edel", "arm", "heiter", "nass", "froh", "trüb", "rasch", "lahm", "hell", "dunkel")
PARAPHRASE = dict(zip(ENGLISH, ENGLISH[2:] + ENGLISH[:2], strict=True))  # good → fine → sunny …
PAD, END, UNKNOWN = 0, 1, 2
ENDS = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}


def paraphrased(text: str) -> str:
    return " ".join(PARAPHRASE[word] for word in text.split())


def word_tokenizer(vocabulary: tuple[str, ...], text: str, **special: str):
    """A word a token, numbered in order; `text` says what the tokenizer adds to one, as in "$A </s>"."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    added = [(word, numbers[word]) for word in text.split() if word in numbers]
    tokenizer.post_processor = processors.TemplateProcessing(single=text, special_tokens=added)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", **special)


def translators_tokenizer(words: tuple[str, ...]):
    return word_tokenizer(("<pad>", "</s>", "<unk>", *words), "$A </s>", eos_token="</s>")


def learnt(folder: Path, dictionaries: dict[str, dict[str, str]]) -> tuple[str, ...]:
    """A T5 that has learnt to translate up to six distinct words, in some four seconds, saved under each dictionary.

    It knows words by their numbers alone: first those of a dictionary, then what they become, in the same order.
    """
    vocabularies = {name: (*dictionary, *dictionary.values()) for name, dictionary in dictionaries.items()}
    (words,) = {len(dictionary) for dictionary in dictionaries.values()}
    assert all(len(set(vocabulary)) == 2 * words for vocabulary in vocabularies.values())
    tokenizers = {name: translators_tokenizer(vocabulary) for name, vocabulary in vocabularies.items()}
    model = translator_of_numbers(words)
    return tuple(saved(folder / name, model, tokenizer) for name, tokenizer in tokenizers.items())


def translator_of_numbers(words: int, steps: int = 600):
    from transformers import T5Config, T5ForConditionalGeneration

    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.1}
        model = T5ForConditionalGeneration(T5Config(vocab_size=UNKNOWN + 1 + 2 * words, **sizes, **ENDS))
        model.eval()  # the dropout is for the tests: it is off, or nothing is deterministic
        source = UNKNOWN + 1 + torch.arange(words)
        optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
        rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 50) * (1 - step / steps))
        ends = torch.full((64, 1), END)
        for _ in range(steps):
            length = int(torch.randint(1, 7, ()))
            drawn = source[torch.rand(64, words).argsort(1)[:, :length]]
            read, written = torch.cat([drawn, ends], 1), torch.cat([drawn + words, ends], 1)
            model(input_ids=read, labels=written).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            rate.step()
            optimizer.zero_grad()
    return model


def untrained(folder: Path, words: tuple[str, ...], positions: int = 16, seed: int = 0) -> str:
    """A Marian that says anything, with positions and settings of generation as the published ones have."""
    from transformers import MarianConfig, MarianMTModel

    tokenizer = translators_tokenizer(words)
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    sizes |= {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": positions}
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = MarianMTModel(MarianConfig(vocab_size=len(tokenizer), init_std=1.0, **sizes, **ENDS))
    published = {"num_beams": 4, "max_length": 512, "forced_eos_token_id": END, "bad_words_ids": [[PAD]]}
    for name, value in published.items():
        setattr(model.generation_config, name, value)
    return saved(folder, model, tokenizer)


def saved(folder: Path, model, tokenizer) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"file:{folder}"
