"""Load an encoder's tokenizer, or train one on the training texts for a scratch encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive.config.cell import Encoder
from contrastive.data import locate
from contrastive.data.splits import Splits
from contrastive.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LONGEST_TEXT = 20_000  # characters of each text that the trained tokenizer learns from
ALPHABET = 3 / 4  # largest share of a trained vocabulary that single characters take; Chinese needs most of it


def tokenizer_of(encoder: Encoder, splits: Splits) -> PreTrainedTokenizerFast:
    if encoder.model.startswith("scratch:"):
        texts = chain(splits.train.texts, *splits.train.partners)
        return train_tokenizer(texts, locate.scratch_sizes(encoder)["vocabulary"])
    from transformers import PreTrainedTokenizerFast

    tokenizer = read_tokenizer(encoder.model, locate.model_folder(encoder.model))
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise UserError(
            f"{encoder.model}: {type(tokenizer).__name__} is not a fast tokenizer; its folder needs tokenizer.json"
        )
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"{encoder.model}: the tokenizer has no padding token; set `pad_token` in tokenizer_config.json"
        )
    return tokenizer


def read_tokenizer(model: str, folder: Path) -> Any:
    """Load the tokenizer in a folder, fast or slow; raise UserError if there is none."""
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in locate.VOCABULARIES):  # the loader would make an empty tokenizer
        raise UserError(f"{model}: {folder} has no tokenizer ({', '.join(locate.VOCABULARIES)})")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged or foreign file may raise anything
        raise UserError(
            f"{model}: could not load a tokenizer from {folder} ({error}); check that the folder is complete"
        ) from error


def tokenizer_digest(encoder: Encoder) -> str:
    """Return what identifies a tokenizer: encoders with the same tokenizer share prepared tokens."""
    if encoder.model.startswith("hf:"):
        return locate.parse_hub_source(encoder.model).revision
    if encoder.model.startswith("scratch:"):
        return f"trained {locate.scratch_sizes(encoder)['vocabulary']}"
    return locate.files_digest(locate.model_folder(encoder.model), ("config.json", *locate.TOKENIZER_FILES))


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a lower-case WordPiece tokenizer like BERT's; the same texts give the same tokenizer.

    The library's trainer numbers pieces in the order of a hash map and breaks ties by these numbers, so two runs give
    two vocabularies. Passing all single-character pieces in order makes it deterministic.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    texts = [text[:LONGEST_TEXT] for text in texts]
    normalizer, splitter = (normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer())
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    characters, inner = _alphabet(words, room=int(vocabulary * ALPHABET))

    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    learner.normalizer, learner.pre_tokenizer = normalizer, splitter
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL.values(), *inner],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)

    tokenizer = Tokenizer(models.WordPiece(learner.get_vocab(), unk_token=SPECIAL["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.WordPiece()
    ends = [(SPECIAL[name], tokenizer.token_to_id(SPECIAL[name])) for name in ("cls", "sep")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{ends[0][0]} $A {ends[1][0]}", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=locate.SCRATCH_POSITIONS,
        **{f"{name}_token": token for name, token in SPECIAL.items()},
    )


def _alphabet(words: Counter[str], room: int) -> tuple[list[str], list[str]]:
    """Return the most frequent characters, and `##c` for those that occur inside words; at most `room` in total."""
    counts: Counter[str] = Counter()
    within: set[str] = set()
    for word, count in words.items():
        within.update(word[1:])
        for character in word:
            counts[character] += count
    kept = []
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        room -= 1 + (character in within)
        if room < 0:
            break
        kept.append(character)
    return sorted(kept), sorted(f"##{character}" for character in kept if character in within)
