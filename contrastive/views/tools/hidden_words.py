"""Hidden words and the encoder's guesses of them: Devlin et al., "BERT: Pre-training of Deep Bidirectional
Transformers", 2019. What the term `mlm` and the view `contextual` share."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor, nn

from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Guesses

SHARE = 0.15  # of a text's tokens that are to be guessed
MASKED, RANDOM = 0.8, 0.1  # of these become the mask, and any token; the others stay


class Masked(nn.Module):
    """An encoder's head for hidden tokens: from the last hidden state to a score of each word of the vocabulary."""

    def __init__(self, head: nn.Module, mask_id: int, special_ids: Iterable[int], vocab_size: int):
        super().__init__()
        self.head = head
        self.mask_id = mask_id
        self.special_ids = list(special_ids)
        self.vocab_size = vocab_size

    def forward(self, encode: Encode, batch: Batch) -> Guesses:
        """Hide some tokens of each text, and say how surprising they are."""
        asked_NS = drawn_tokens(batch, SHARE)
        share_NS = torch.rand(asked_NS.shape).to(asked_NS.device)
        any_NS = torch.randint(self.vocab_size, asked_NS.shape).to(asked_NS.device)
        ids = torch.where(asked_NS & (share_NS < MASKED + RANDOM), any_NS, batch.input_ids)
        ids = torch.where(asked_NS & (share_NS < MASKED), self.mask_id, ids)
        scores_MW = self.head(encode(batch.reworded(ids)).hidden[-1][asked_NS])
        with torch.autocast(scores_MW.device.type, enabled=False):
            surprise_M = F.cross_entropy(scores_MW.float(), batch.input_ids[asked_NS], reduction="none")
        surprise_N = surprise_M.new_zeros(len(batch)).index_add(0, asked_NS.nonzero()[:, 0], surprise_M)
        return Guesses(surprise_N, asked_NS.sum(1))

    @torch.no_grad()
    def guess(self, encode: Encode, batch: Batch, asked_NS: Bool[Tensor, "n s"]) -> Batch:
        """The batch with these tokens hidden, and guessed again: drawn as likely as the encoder holds them for."""
        if not asked_NS.any():
            return batch
        hidden = batch.reworded(batch.input_ids.masked_fill(asked_NS, self.mask_id))
        scores_MW = self.head(encode(hidden).hidden[-1][asked_NS]).float()
        scores_MW[:, self.special_ids] = scores_MW[:, self.vocab_size :] = -torch.inf
        guessed_M = torch.multinomial(scores_MW.softmax(1).cpu(), 1)[:, 0].to(asked_NS.device)
        return batch.reworded(batch.input_ids.masked_scatter(asked_NS, guessed_M))


def drawn_tokens(batch: Batch, share: float) -> Bool[Tensor, "n s"]:
    """Which tokens of the texts are chosen, each with this probability; never padding or what the tokenizer adds."""
    words_NS = ~batch.special
    return (torch.rand(words_NS.shape).to(words_NS.device) < share) & words_NS
