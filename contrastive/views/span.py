"""DeCLUTR's spans: long anchors and short positives of one document, overlapping, adjacent or one within the other."""

import torch

from contrastive.config.facts import ViewFacts
from contrastive.views.batches import Batch
from contrastive.views.tokens import Words, rebuilt, words_of
from contrastive.views.types import Encode, View, unmasked

SPAN_FACTS = ViewFacts(vectors=4, changed_passes=2)  # its spans have about the tokens of two texts

SHORTEST, LONGEST = 32, 512  # tokens of a span, if the document has so many
ANCHORS, POSITIVES = 2, 2  # per document, per anchor


def span(encode: Encode, batch: Batch) -> View:
    """Return two anchors per text, each followed by the mean of its two positives. The head reads the text itself."""
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
