"""Views by changed words: texts as token ids are cut, rearranged, and reworded.

All random numbers come from torch's generator, which the cell's seed has set.
"""

from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Tensor

from contrastive.config.facts import Unsplittable, ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.hidden_words import draw_tokens
from contrastive.views.lexicon import Ids, Lexicon
from contrastive.views.types import Encode, View, as_pairs, unmasked

Words = Int64[Tensor, " _"]  # any number of token ids


def words_of(batch: Batch) -> list[Words]:
    """Return the tokens of each text, without padding and the tokens that the tokenizer adds."""
    return [ids[~special] for ids, special in zip(batch.input_ids, batch.special, strict=True)]


def rebuilt(batch: Batch, rows: list[Words]) -> Batch:
    """Return a batch of these rows, each between the tokens that the tokenizer puts before and behind its text, if any.

    There may be several rows per text: row i belongs to text i modulo the batch size.
    """
    every, last = torch.arange(len(batch), device=batch.input_ids.device), batch.attention_mask.sum(1) - 1
    before, behind = batch.special[:, 0].tolist(), batch.special[every, last].tolist()
    ends = list(zip(before, behind, strict=True)) * (len(rows) // len(batch))
    width = max(len(row) + sum(added) for row, added in zip(rows, ends, strict=True))
    ids = batch.input_ids.new_zeros(len(rows), width)
    mask, special = torch.zeros_like(ids, dtype=torch.bool), torch.ones_like(ids, dtype=torch.bool)
    for i, (row, (begins, closes)) in enumerate(zip(rows, ends, strict=True)):
        text, stop = i % len(batch), begins + len(row)
        if begins:
            ids[i, 0] = batch.input_ids[text, 0]
        if closes:
            ids[i, stop] = batch.input_ids[text, last[text]]
        ids[i, begins:stop] = row
        mask[i, : stop + closes], special[i, begins:stop] = True, False
    return Batch(ids, mask, special, batch.labels.repeat(len(rows) // len(batch)))


def two_versions(encode: Encode, batch: Batch, change: Callable[[Words], Words]) -> View:
    """Return two versions of each text, changed independently. The head and the evaluation read the text itself."""
    rows = words_of(batch)
    changed = [change(row) if len(row) else row for row in rows + rows]
    versions = as_pairs(encode(rebuilt(batch, changed)).pooled())
    encoded = encode(batch)
    return View([unmasked(versions)], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


def share_of(count: int, rate: float) -> int:
    """Return a share `rate` of `count`, at least 1 and never all."""
    return min(count - 1, max(1, round(rate * count))) if count > 1 else 0


WORD_DELETE_FACTS = ViewFacts(vectors=2, changed_passes=2)


def word_delete(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """CLEAR's word deletion: two versions of a text, each without some of its tokens. Delete random tokens, a share
    `rate` of the text, never all. The rest stays in order."""

    def change(row: Words) -> Words:
        order = torch.randperm(len(row))[share_of(len(row), rate) :]
        return row[order.sort().values.to(row.device)]

    return two_versions(encode, batch, change)


SPAN_DELETE_FACTS = ViewFacts(vectors=2, changed_passes=2)


def span_delete(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """CLEAR's span deletion: two versions of a text, each without one run of its tokens. Delete one run of tokens, a
    share `rate` of the text, at a random place."""

    def change(row: Words) -> Words:
        gone = share_of(len(row), rate)
        begin = int(torch.randint(len(row) - gone + 1, ()))
        return torch.cat([row[:begin], row[begin + gone :]])

    return two_versions(encode, batch, change)


REORDER_FACTS = ViewFacts(vectors=2, changed_passes=2)


def reorder(encode: Encode, batch: Batch, *, rate: float = 0.2) -> View:
    """CLEAR's reordering: two versions of a text, each with two runs of tokens swapped. Swap two runs that do not
    overlap, each half a share `rate` of the text. A single token stays."""

    def change(row: Words) -> Words:
        size = max(1, share_of(len(row), rate) // 2)
        if len(row) < 2 * size:
            return row
        first, second = sorted(torch.randint(len(row) - 2 * size + 1, (2,)).tolist())
        second += size  # starts are drawn as if runs had no length, so that they never overlap
        between = row[first + size : second]
        runs = [row[:first], row[second : second + size], between, row[first : first + size], row[second + size :]]
        return torch.cat(runs)

    return two_versions(encode, batch, change)


SPAN_FACTS = ViewFacts(vectors=4, changed_passes=2)  # its spans have about the tokens of two texts

SHORTEST, LONGEST = 32, 512  # tokens of a span, if the document has so many
ANCHORS, POSITIVES = 2, 2  # per document, per anchor


def span(encode: Encode, batch: Batch) -> View:
    """DeCLUTR's spans: long anchors and short positives of one document, overlapping, adjacent or one within the other.
    Return two anchors per text, each followed by the mean of its two positives. The head reads the text itself."""
    drawn = [draw_spans(row) for row in words_of(batch)]
    spans = [row[i] for i in range(ANCHORS * (1 + POSITIVES)) for row in drawn]
    vectors = encode(rebuilt(batch, spans)).pooled().unflatten(0, (ANCHORS, 1 + POSITIVES, len(batch)))
    pairs = torch.stack([vectors[:, 0], vectors[:, 1:].mean(1)], dim=1)  # anchor, mean of its positives
    encoded = encode(batch)
    return View(
        [unmasked(pairs.flatten(0, 1).transpose(0, 1))], torch.stack([encoded.dropout(encoded.pooled())], dim=1)
    )


def draw_spans(row: Words) -> list[Words]:
    """Return an anchor, its positives, the next anchor, its positives, and so on."""
    spans = []
    for _ in range(ANCHORS):
        size = span_length(len(row), 4.0, 2.0)
        begin = int(torch.randint(len(row) - size + 1, ()))
        spans.append(row[begin : begin + size])
        for _ in range(POSITIVES):
            short = span_length(len(row), 2.0, 4.0)
            lowest, highest = max(0, begin - short), min(len(row) - short, begin + size)
            begins_at = int(torch.randint(lowest, highest + 1, ()))
            spans.append(row[begins_at : begins_at + short])
    return spans


def span_length(count: int, alpha: float, beta: float) -> int:
    """Draw the length of a span in a text of `count` tokens, from a beta distribution between the bounds.

    The shortest span of a short text is a quarter of it, so that its spans still differ.
    """
    least, most = min(SHORTEST, max(1, count // 4)), min(LONGEST, count)
    share = float(torch.distributions.Beta(alpha, beta).sample())
    return min(count, least + round(share * (most - least)))


SYNONYM_FACTS = ViewFacts(vectors=2, changed_passes=2)


def synonym(encode: Encode, batch: Batch, lexicon: Lexicon, *, rate: float = 0.2) -> View:
    """CLEAR's synonym substitution: two versions of a text, each with some words replaced by synonyms.

    Replace a share `rate` of the text's words, at least one, drawn among those that have synonyms. Punctuation counts
    among the words. A text without synonyms stays as it is.
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


EDA_FACTS = ViewFacts(vectors=2, changed_passes=2)


def eda(encode: Encode, batch: Batch, lexicon: Lexicon, *, rate: float = 0.1) -> View:
    """EDA's four operations on words: Wei and Zou, "EDA: Easy Data Augmentation Techniques for Boosting Performance on
    Text Classification Tasks", 2019.

    Return two versions of each text, each changed by one random operation. The head reads the unchanged text. For a
    share `rate` of its words, at least one: replace a word by a synonym, insert a synonym of some word, or swap two
    words. Or delete each word with probability `rate`, never all. Punctuation counts as words; without synonyms or a
    second word, some operations leave a text unchanged.
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


CONTEXTUAL_FACTS = ViewFacts(
    vectors=2,
    changed_passes=2,
    unsplittable=Unsplittable(("zero3", "fsdp"), "it encodes only where a word was drawn, each process on its own"),
)


def contextual(encode: Encode, batch: Batch, guess: Callable[[Batch, Tensor], Batch], *, rate: float = 0.15) -> View:
    """Contextual substitution: words replaced by the encoder's own guesses, as in Kobayashi, "Contextual Augmentation:
    Data Augmentation by Words with Paradigmatic Relations", 2018.

    Return two versions of each text, in which tokens, each with probability `rate`, are hidden and guessed again.
    `guess` samples from the encoder's masked language model. The classifier's head reads the text itself.
    """
    twice = batch.times(2)
    changed = encode(guess(twice, draw_tokens(twice, rate))).pooled()
    encoded = encode(batch)
    return View([unmasked(as_pairs(changed))], torch.stack([encoded.dropout(encoded.pooled())], dim=1))


BACKTRANSLATION_FACTS = ViewFacts(vectors=2, changed_passes=1)


def backtranslation(
    encode: Encode, batch: Batch, rephrase: Callable[..., Batch], *, translators: tuple[str, str]
) -> View:
    """Back-translation: the vectors of a text and of its translation into another language and back.

    Return the vectors of a text and of its back-translation by the models `translators` (there, back). The head and the
    evaluation read the text itself.
    """
    encoded = encode(batch)
    sentence = encoded.pooled()
    vectors = torch.stack([sentence, encode(rephrase(batch, translators)).pooled()], dim=1)
    return View([unmasked(vectors)], torch.stack([encoded.dropout(sentence)], dim=1))
