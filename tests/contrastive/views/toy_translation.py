"""Small real translators with random weights, and their tokenizers."""

from pathlib import Path

import torch

ENGLISH = ("good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark")
PAD, END = 0, 1
ENDS = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": PAD}


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
