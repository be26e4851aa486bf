"""EDA's four operations on words: Wei and Zou, "EDA: Easy Data Augmentation Techniques for Boosting Performance on Text
Classification Tasks", 2019."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.synonym import any_synonym, replaced
from contrastive.views.tokens import Words, two_versions
from contrastive.views.tools.lexicon import Ids, Lexicon
from contrastive.views.types import Encode, View

EDA_FACTS = ViewFacts(vectors=2, changed_passes=2)


def eda(encode: Encode, batch: Batch, lexicon: Lexicon, *, rate: float = 0.1) -> View:
    """Return two versions of each text, each changed by one random operation. The head reads the unchanged text.

    For a share `rate` of its words, at least one: replace a word by a synonym, insert a synonym of some word, or
    swap two words. Or delete each word with probability `rate`, never all. Punctuation counts as words; without
    synonyms or a second word, some operations leave a text unchanged.
    """

    def change(row: Words) -> Words:
        words = lexicon.words(row)
        count = max(1, round(rate * len(words)))
        operations = (
            lambda: replaced(words, lexicon, count),
            lambda: inserted(words, lexicon, count),
            lambda: swapped(words, count),
            lambda: thinned(words, rate),
        )
        return lexicon.joined(operations[int(torch.randint(4, ()))]()).to(row.device)

    return two_versions(encode, batch, change)


def inserted(words: list[Ids], lexicon: Lexicon, count: int) -> list[Ids]:
    """Insert `count` synonyms of the text's own words at random places."""
    sources = [word for word in words if lexicon.synonyms(word)]
    words = list(words)
    for _ in range(count if sources else 0):
        new = any_synonym(sources[int(torch.randint(len(sources), ()))], lexicon)
        words.insert(int(torch.randint(len(words) + 1, ())), new)
    return words


def swapped(words: list[Ids], count: int) -> list[Ids]:
    """Swap two random words, `count` times."""
    words = list(words)
    for _ in range(count if len(words) > 1 else 0):
        first, second = torch.randperm(len(words))[:2].tolist()
        words[first], words[second] = words[second], words[first]
    return words


def thinned(words: list[Ids], rate: float) -> list[Ids]:
    """Delete each word with probability `rate`; one random word stays if all would go."""
    stays = torch.rand(len(words)) >= rate
    stays[int(torch.randint(len(words), ()))] |= not stays.any()
    return [word for word, kept in zip(words, stays.tolist(), strict=True) if kept]
