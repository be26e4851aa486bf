"""Hidden words and the encoder's guesses of them: Devlin et al., "BERT: Pre-training of Deep Bidirectional
Transformers", 2019. Used by the term `mlm` and the view `contextual`."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor, nn

from contrastive.views.batches import Batch
from contrastive.views.types import Encode, Guesses

SHARE = 0.15  # share of a text's tokens to be guessed
MASKED, RANDOM = 0.8, 0.1  # shares of these replaced by the mask, and by a random token; the others stay


class Masked(nn.Module):
    """An encoder's masked-language-model head: scores of the vocabulary from the last hidden state."""

    def __init__(self, head: nn.Module, mask_id: int, special_ids: Iterable[int], vocab_size: int):
        super().__init__()
        self.head = head
        self.mask_id = mask_id
        self.special_ids = list(special_ids)
        self.vocab_size = vocab_size

    def forward(self, encode: Encode, batch: Batch) -> Guesses:
        """Hide some tokens of each text, and return how surprising they are."""
        hidden_NS = draw_tokens(batch, SHARE)
        share_NS = torch.rand(hidden_NS.shape).to(hidden_NS.device)
        random_NS = torch.randint(self.vocab_size, hidden_NS.shape).to(hidden_NS.device)
        ids = torch.where(hidden_NS & (share_NS < MASKED + RANDOM), random_NS, batch.input_ids)
        ids = torch.where(hidden_NS & (share_NS < MASKED), self.mask_id, ids)
        scores_MW = self.head(encode(batch.reworded(ids)).hidden[-1][hidden_NS])
        with torch.autocast(scores_MW.device.type, enabled=False):
            surprise_M = F.cross_entropy(scores_MW.float(), batch.input_ids[hidden_NS], reduction="none")
        surprise_N = surprise_M.new_zeros(len(batch)).index_add(0, hidden_NS.nonzero()[:, 0], surprise_M)
        return Guesses(surprise_N, hidden_NS.sum(1))

    @torch.no_grad()
    def guess(self, encode: Encode, batch: Batch, hidden_NS: Bool[Tensor, "n s"]) -> Batch:
        """Hide these tokens and replace them by samples from the encoder's predicted probabilities."""
        if not hidden_NS.any():
            return batch
        hidden = batch.reworded(batch.input_ids.masked_fill(hidden_NS, self.mask_id))
        scores_MW = self.head(encode(hidden).hidden[-1][hidden_NS]).float()
        scores_MW[:, self.special_ids] = scores_MW[:, self.vocab_size :] = -torch.inf
        guessed_M = torch.multinomial(scores_MW.softmax(1).cpu(), 1)[:, 0].to(hidden_NS.device)
        return batch.reworded(batch.input_ids.masked_scatter(hidden_NS, guessed_M))


def draw_tokens(batch: Batch, share: float) -> Bool[Tensor, "n s"]:
    """Choose each token of the texts with probability `share`; never padding or what the tokenizer adds."""
    words_NS = ~batch.special
    return (torch.rand(words_NS.shape).to(words_NS.device) < share) & words_NS
