"""CLEAR's synonym substitution: two versions of a text, each with some words replaced by synonyms."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tokens import Words, two_versions
from contrastive.views.tools.lexicon import Ids, Lexicon
from contrastive.views.types import Encode, View

SYNONYM_FACTS = ViewFacts(vectors=2, changed_passes=2)


def synonym(encode: Encode, batch: Batch, lexicon: Lexicon, *, rate: float = 0.2) -> View:
    """Replace a share `rate` of the text's words, at least one, drawn among those that have synonyms.

    Punctuation counts among the words. A text without synonyms stays as it is.
    """

    def change(row: Words) -> Words:
        words = lexicon.words(row)
        return lexicon.joined(replaced(words, lexicon, max(1, round(rate * len(words))))).to(row.device)

    return two_versions(encode, batch, change)


def replaced(words: list[Ids], lexicon: Lexicon, count: int) -> list[Ids]:
    """Replace `count` words, or all that have synonyms if those are fewer, each by a random synonym."""
    words = list(words)
    places = [i for i, word in enumerate(words) if lexicon.synonyms(word)]
    for drawn in torch.randperm(len(places))[:count].tolist():
        words[places[drawn]] = any_synonym(words[places[drawn]], lexicon)
    return words


def any_synonym(word: Ids, lexicon: Lexicon) -> Ids:
    words = lexicon.synonyms(word)
    return words[int(torch.randint(len(words), ()))]
