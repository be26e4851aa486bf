"""Tokenise a data set once for each (data, tokenizer, length); all cells memory-map the result.

The tokenizer is the encoder's own, or trained on the training texts for a scratch encoder. Images need none: their
tokens are their values, from 0 to 255, channel by channel.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from contrastive import data as datasets
from contrastive.config.cell import Data, Encoder, Images
from contrastive.data import images, locate
from contrastive.data.splits import SPLITS, Split, Splits
from contrastive.errors import UserError
from contrastive.runs import fingerprint, store

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Reader: TypeAlias = "PreTrainedTokenizerFast | Images"  # what makes tokens of texts, or of images

CHUNK = 1000  # texts tokenised at a time, so that memory does not grow with the data
LONGEST_TOKEN = 100  # characters: a text is cut to max_length times this before it is tokenised
PARTS = ("ids", "offsets", "labels", "digests")  # one file each for a split
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LONGEST_TEXT = 20_000  # characters of each text that the trained tokenizer learns from
ALPHABET = 3 / 4  # largest share of a trained vocabulary that single characters take; Chinese needs most of it


@dataclass(frozen=True)
class TokenSplit:
    """The token ids of a split end to end: text i has `ids[offsets[i] : offsets[i + 1]]`. Digests identify the texts.

    `frozen_outputs` holds the output of the frozen blocks for each token, if it was computed before; `guide` the
    vectors of the texts by the guide; `mined` the number of the positive that is the hard negative of a text.
    """

    ids: npt.NDArray[np.integer]
    offsets: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint64]
    partners: tuple[TokenSplit, ...] = ()  # the positives, and the negatives, of the texts if the data has pairs
    frozen_outputs: npt.NDArray[np.floating] | None = None
    guide: npt.NDArray[np.float32] | None = None
    mined: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Tokens:
    labels: tuple[str, ...]
    pad_id: int
    mask_id: int | None  # None: the tokenizer has no mask token
    special_ids: tuple[int, ...]
    vocab_size: int
    splits: dict[str, TokenSplit]
    tokenizer: Path

    @property
    def folder(self) -> Path:
        """The folder of the prepared tokens, named by their key."""
        return self.tokenizer.parent


def prepare_tokens(data: Data, encoder: Encoder, home: Path, draw: int | None = None) -> Path:
    """Return the folder with the tokens for these settings; make it, in one process, unless it is complete."""
    folder = store.cache_folder("tokens", token_key(data, encoder, draw), home)
    return store.make_once(folder, lambda unfinished: _tokenise(data, encoder, draw, unfinished))


def token_key(data: Data, encoder: Encoder, draw: int | None = None) -> str:
    """Return the cache key of the tokens of this data for this encoder's tokenizer; `draw` is the seed that selects
    the training texts under data.resample."""
    assert data.resample == (draw is not None), "give the seed of the training texts if data.resample is set, else None"
    sizes = {name: value if isinstance(value, int | None) else "own" for name, value in data if name in SPLITS}
    return fingerprint.key(
        "tokens",
        content=datasets.data_digest(data),
        splits=sizes if draw is None else sizes | {"draw": draw},
        max_length=data.longest(),
        tokenizer=tokenizer_digest(encoder) if data.images is None else "pixels",
        **({"prompt": encoder.prompt} if encoder.prompt else {}),
        code=fingerprint.code_digest(("contrastive.data.tokens",), (datasets.registry_choice(data.source),)),
    )


def open_tokens(folder: Path) -> Tokens:
    meta = store.read_json(folder / "meta.json")
    splits = {name: open_split(folder, name, meta["partners"] if name == "train" else ()) for name in SPLITS}
    labels, special = tuple(meta["labels"]), tuple(meta["special_ids"])
    return Tokens(labels, meta["pad_id"], meta["mask_id"], special, meta["vocab_size"], splits, folder / "tokenizer")


def open_split(folder: Path, name: str, partners: Iterable[str] = ()) -> TokenSplit:
    """Memory-map a split that `write_split` wrote."""
    ids, offsets, labels, digests = (np.load(folder / f"{name}.{part}.npy", mmap_mode="r") for part in PARTS)
    others = tuple(open_split(folder, f"{name}.{partner}") for partner in partners)
    return TokenSplit(ids, offsets, labels, digests, others)


def _tokenise(data: Data, encoder: Encoder, draw: int | None, folder: Path) -> None:
    splits = datasets.load_splits(data, draw)
    reader: Reader
    if data.images is None:
        reader = fast = tokenizer_of(encoder, splits)
        if data.max_length > fast.model_max_length and fast.model_max_length < locate.UNLIMITED:
            most = fast.model_max_length
            raise UserError(f"data.max_length is {data.max_length}, but {encoder.model} takes at most {most} tokens")
        kinds = {"pad_id": fast.pad_token_id, "mask_id": fast.mask_token_id, "vocab_size": len(fast)}
        kinds |= {"prompt": encoder.prompt} if encoder.prompt else {}
    else:
        reader = data.images
        kinds = {"pad_id": 0, "mask_id": None, "vocab_size": 256, "images": data.images.model_dump()}
    wordless: dict[str, int] = {}
    for name, split in splits.named().items():
        partners = data.partners() if name == "train" else ()
        wordless[name] = write_split(folder, name, split, reader, data.max_length, partners, encoder.prompt)[name]
    if not isinstance(reader, Images):
        reader.save_pretrained(folder / "tokenizer")  # with the truncation of its last use
    meta = kinds | {
        "labels": splits.labels,
        "partners": list(data.partners()),
        "special_ids": special_ids(reader),
        "max_length": data.max_length,
        "class_counts": splits.class_counts(),
        "sifted": splits.row_counts,
        "wordless": wordless,
        "merged": splits.merged,
    }
    store.write_json(folder / "meta.json", meta)


def special_ids(fast: Reader) -> list[int]:
    if isinstance(fast, Images):
        return []
    unknown = fast.unk_token_id  # not special: it stands for a word
    return sorted(number for number in set(fast.all_special_ids) if number != unknown)


def write_split(
    folder: Path,
    name: str,
    split: Split,
    reader: Reader,
    length: int,
    partners: Iterable[str] = (),
    prompt: str = "",
) -> dict[str, int]:
    """Write the tokens of a split and of its partners, each behind the prompt; return how many texts of each have only
    special tokens. The tokens of an image are its values."""
    ids: npt.NDArray[np.integer]
    if isinstance(reader, Images):
        values = images.values_of(split.texts, reader)
        ids, offsets = values.ravel(), np.arange(len(values) + 1, dtype=np.int64) * reader.values()
    else:
        ids, offsets = _tokenised(reader, split.texts, length, prompt)
    labels, numbers = np.asarray(split.labels, np.int64), np.array([*map(text_number, split.texts)], np.uint64)
    arrays: tuple[npt.NDArray[np.generic], ...] = (ids, offsets, labels, numbers)
    for part, array in zip(PARTS, arrays, strict=True):
        np.save(folder / f"{name}.{part}.npy", array)
    with (folder / f"texts.{name}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for text, label in zip(split.texts, split.labels, strict=True):
            file.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
    words_before = np.concatenate([[0], np.cumsum(~np.isin(ids, special_ids(reader)))])
    of_prompt = 0
    if prompt and not isinstance(reader, Images):
        of_prompt = len(reader(prompt.rstrip(), add_special_tokens=False)["input_ids"])
        if (whole := len(reader(prompt)["input_ids"])) >= length:
            raise UserError(f"encoder.prompt takes {whole} of {length} tokens (data.max_length): shorten it")
    wordless = {name: int((words_before[offsets[1:]] - words_before[offsets[:-1]] <= of_prompt).sum())}
    for number, partner in enumerate(partners):
        partner_split = Split([texts[number] for texts in split.partners], split.labels)
        wordless |= write_split(folder, f"{name}.{partner}", partner_split, reader, length, prompt=prompt)
    return wordless


def text_number(text: str) -> int:
    """Return the number that identifies a text: the first 64 bits of its sha256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _tokenised(
    fast: PreTrainedTokenizerFast, texts: list[str], max_length: int, prompt: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the token ids end to end, and the offsets of the texts in them. A text without any token is one padding
    token, which is read."""
    pieces: list[npt.NDArray[np.int32]] = [np.zeros(0, np.int32)]
    lengths = [0]
    for start in range(0, len(texts), CHUNK):
        cut = [prompt + text[: max_length * LONGEST_TOKEN] for text in texts[start : start + CHUNK]]
        rows = fast(
            cut, truncation=True, max_length=max_length, return_attention_mask=False, return_token_type_ids=False
        )["input_ids"]
        rows = [row or [fast.pad_token_id] for row in rows]
        lengths += [len(row) for row in rows]
        pieces += [np.asarray(row, np.int32) for row in rows]
    return np.concatenate(pieces), np.cumsum(lengths, dtype=np.int64)


def prepare_larger_test(data: Data, count: int, prepared: Path, home: Path) -> Path:
    """Return the folder with the tokens of `count` test texts, by the tokenizer of a cell's prepared tokens."""
    folder = store.cache_folder("tokens", larger_test_key(prepared.name, count), home)
    return store.make_once(folder, lambda unfinished: _tokenise_test(data, count, prepared, unfinished))


def larger_test_key(prepared: str, count: int) -> str:
    """Return the cache key of a test set enlarged to `count` texts (evaluation.test).

    `prepared`: the key of the cell's tokens, which covers data, splits and tokenizer.
    """
    code = fingerprint.code_digest(("contrastive.data.tokens",))
    return fingerprint.key("larger test", tokens=prepared, count=count, code=code)


def prepared_tokenizer(prepared: Path) -> tuple[Reader, int, str]:
    """Return the tokenizer of prepared tokens, the most tokens of a text, and the prompt; of images their size."""
    meta = store.read_json(prepared / "meta.json")
    if "images" in meta:
        return Images(**meta["images"]), meta["max_length"], ""
    tokenizer = read_tokenizer("the prepared tokens", prepared / "tokenizer")
    return tokenizer, meta["max_length"], meta.get("prompt", "")


def _tokenise_test(data: Data, count: int, prepared: Path, folder: Path) -> None:
    splits = datasets.load_splits(data, measured=count)
    reader, max_length, prompt = prepared_tokenizer(prepared)
    write_split(folder, "test", splits.test, reader, max_length, prompt=prompt)
    store.write_json(folder / "meta.json", {"class_counts": splits.class_counts()})


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
    tokenizer.padding_side = "right"  # of what is exported, as of batches
    if tokenizer.pad_token_id is None and tokenizer.eos_token_id is not None:
        tokenizer.pad_token = tokenizer.eos_token  # masked, so any token will do
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
    if (weights := locate.quantised_file(encoder.model)) is not None:
        return store.digest_file(weights)  # which holds the tokenizer too
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
