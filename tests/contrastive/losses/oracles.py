"""What each loss must be, by code that is not ours: a package's loss, or the formula term by term in plain Python.

An oracle is called like its loss, with the defaults of the paper or its authors' code. That of a loss with weights of
its own is given them as `module`. A new loss gets one function and one line in `ORACLES`. Where a package defines a
loss otherwise than we do, its oracle says so and mends it.
"""

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from info_nce import InfoNCE
from pytorch_metric_learning.losses import NTXentLoss, SupConLoss
from pytorch_metric_learning.reducers import MeanReducer
from torch import Tensor, nn


class Anchor(NamedTuple):
    """One kept vector's cosine/τ with each other one: the own other views, class mates, and the rest."""

    own: list[Tensor]
    mates: list[Tensor]
    rest: list[Tensor]


def ce(logits: Tensor, *, labels: Tensor) -> Tensor:
    terms = [
        log_sum(scores) - scores[label]
        for passes, label in zip(logits, labels.tolist(), strict=True)
        for scores in passes
    ]
    return mean(terms)


def rdrop(logits: Tensor) -> Tensor:
    terms = []
    for sample in logits:
        p, q = ([score - log_sum(scores) for score in scores] for scores in sample)
        terms.append(sum(torch.exp(a) * (a - b) + torch.exp(b) * (b - a) for a, b in zip(p, q, strict=True)) / 2)
    return mean(terms)


def supcon(views: Tensor, *, labels: Tensor, mask: Tensor, temperature: float = 0.1) -> Tensor:
    """Theirs is 0 for a batch of one class, where the formula is not; and its mean counts lonely anchors, as 0."""
    classes = labels[:, None].expand_as(mask)[mask]
    if len(classes.unique()) == 1:
        others = [own + mates for own, mates, _ in anchors(views, mask, temperature, labels)]
        return mean([log_sum(it) - mean(it) for it in others])
    anchored = sum(int((classes == its).sum()) > 1 for its in classes)
    return SupConLoss(temperature, reducer=MeanReducer())(views[mask], classes) * len(classes) / anchored


def supcon_in(views: Tensor, *, labels: Tensor, mask: Tensor, temperature: float = 0.1) -> Tensor:
    terms = []
    for own, mates, rest in anchors(views, mask, temperature, labels):
        if own + mates:
            terms.append(log_sum(own + mates + rest) - log_sum(own + mates) + math.log(len(own + mates)))
    return mean(terms)


def dscl(views: Tensor, *, labels: Tensor, mask: Tensor, temperature: float = 0.07, beta: float = 8.0) -> Tensor:
    alpha, terms = 1 / (1 + beta), []
    for own, mates, rest in anchors(views, mask, temperature, labels):
        count, partition = len(mates), log_sum(own + mates + rest)
        # α shared by the own views, which with two views are one
        weights = [alpha * (count + 1) / max(1, len(own))] * len(own)
        weights += [(1 - alpha) * (count + 1) / max(1, count)] * count
        if weights:
            logs = zip(weights, own + mates, strict=True)
            terms.append(sum(w * (partition - it) for w, it in logs) / sum(weights))
    return mean(terms)


def dcl(views: Tensor, *, mask: Tensor, temperature: float = 0.1) -> Tensor:
    return mean([log_sum(rest) - mean(own) for own, _, rest in anchors(views, mask, temperature) if own])


def dclw(views: Tensor, *, mask: Tensor, temperature: float = 0.1, sigma: float = 0.5) -> Tensor:
    found = [anchor for anchor in anchors(views, mask, temperature) if anchor.own]
    agreement = [math.exp(float(own[0].detach()) * temperature / sigma) for own, _, _ in found]
    weights = [2 - it / (sum(agreement) / len(agreement)) for it in agreement]
    return mean([log_sum(rest) - weight * own[0] for weight, (own, _, rest) in zip(weights, found, strict=True)])


def simcse(views: Tensor, *, mask: Tensor, temperature: float = 0.05) -> Tensor:
    return InfoNCE(temperature)(*pairs(views, mask))


def simcse_sup(views: Tensor, *, negatives: Tensor, mask: Tensor, temperature: float = 0.05) -> Tensor:
    """A pair's negatives are the other positives and every hard negative."""
    first, second = pairs(views, mask)
    hard = negatives[mask.all(1)]
    others = torch.stack([torch.cat([second[:i], second[i + 1 :], hard]) for i in range(len(second))])
    return InfoNCE(temperature, negative_mode="paired")(first, second, others)


def ntxent(views: Tensor, *, mask: Tensor, temperature: float = 0.1) -> Tensor:
    """Theirs leaves other positives out of the partition: of more than two views it is SupCon, a sample a class."""
    samples = torch.arange(len(views))
    if views.shape[1] > 2:
        return supcon(views, labels=samples, mask=mask, temperature=temperature)
    return NTXentLoss(temperature)(views[mask], samples[:, None].expand_as(mask)[mask])


def simclr(views: Tensor, *, mask: Tensor, module: nn.Module, temperature: float = 0.1) -> Tensor:
    projected = torch.stack([through(module.projector, views[:, view]) for view in range(views.shape[1])], 1)
    return ntxent(projected, mask=mask, temperature=temperature)


def align_uniform(views: Tensor, *, mask: Tensor) -> Tensor:
    first, second = ([unit(row) for row in rows] for rows in pairs(views, mask))
    alignment = mean([((x - y) ** 2).sum() for x, y in zip(first, second, strict=True)])
    spread = [
        torch.log(mean([torch.exp(-2 * ((x - y) ** 2).sum()) for i, x in enumerate(rows) for y in rows[:i]]))
        for rows in (first, second)
    ]
    return alignment + mean(spread)


def dropout_ntxent(logits: Tensor, *, temperature: float = 1 / 20) -> Tensor:
    return ntxent(logits, mask=torch.ones(logits.shape[:2], dtype=torch.bool), temperature=temperature)


def moco(views: Tensor, *, targets: Tensor, mask: Tensor, module: nn.Module, temperature: float = 0.07) -> Tensor:
    queue = module.keys[: int(module.written)].clone()
    query, key = pairs(views, mask)[0], pairs(targets, mask)[1]
    if module.projector is not None:
        query, key = through(module.projector, query), through(module.target, key).detach()
    return InfoNCE(temperature)(query, key, queue)


def byol(views: Tensor, *, targets: Tensor, mask: Tensor, module: nn.Module) -> Tensor:
    terms = []
    for online, slow in zip(pairs(views, mask), reversed(pairs(targets, mask)), strict=True):
        guesses = through(module.predictor, through(module.projector, online))
        truths = through(module.target, slow).detach()
        terms += [2 - 2 * unit(guess) @ unit(truth) for guess, truth in zip(guesses, truths, strict=True)]
    return mean(terms)


def swav(views: Tensor, *, mask: Tensor, module: nn.Module, temperature: float = 0.1) -> Tensor:
    prototypes = [unit(row) for row in module.prototypes.weight]
    scored = [
        torch.stack([torch.stack([unit(row) @ it for it in prototypes]) for row in through(module.projector, rows)])
        for rows in pairs(views, mask)
    ]
    terms = []
    for coded, other in product((0, 1), range(len(scored))):
        for code, scores in zip(sinkhorn(scored[coded]), scored[other], strict=True) if other != coded else ():
            logs = [score / temperature - log_sum(scores / temperature) for score in scores]
            terms.append(-sum(q * log for q, log in zip(code, logs, strict=True)))
    return mean(terms)


def sinkhorn(scores: Tensor) -> Tensor:
    """The iterations as they are published: on e^{s/.05}, columns are samples."""
    q = torch.exp(scores.detach() / 0.05).T
    q = q / q.sum()
    prototypes, samples = q.shape
    for _ in range(3):
        q = q / q.sum(1, keepdim=True) / prototypes
        q = q / q.sum(0, keepdim=True) / samples
    return (q * samples).T


def barlow(views: Tensor, *, mask: Tensor, module: nn.Module, redundancy: float = 0.0051) -> Tensor:
    first, second = (standardised(through(module.projector, rows), 1e-5).T for rows in pairs(views, mask))
    total = 0
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            correlation = mean(list(x * y))
            total = total + ((1 - correlation) ** 2 if i == j else redundancy * correlation**2)
    return total


def vicreg(views: Tensor, *, mask: Tensor, module: nn.Module) -> Tensor:
    both = [through(module.projector, rows) for rows in pairs(views, mask)]
    size = both[0].shape[1]
    total = 25 * mean([((x - y) ** 2).sum() / size for x, y in zip(*both, strict=True)])
    for rows in both:
        columns = (rows - mean(list(rows))).T
        for a in range(size):
            for b in range(size):
                covariance = sum(x * y for x, y in zip(columns[a], columns[b], strict=True)) / (len(rows) - 1)
                apart = 25 / 2 * torch.relu(1 - torch.sqrt(covariance + 1e-4)) if a == b else covariance**2
                total = total + apart / size
    return total


def bert_ct(views: Tensor, *, mask: Tensor) -> Tensor:
    """7 random others are drawn for each sentence; this is the mean over all draws."""
    first, second = pairs(views, mask)
    terms = []
    for i, x in enumerate(first):
        costs = [F.binary_cross_entropy_with_logits(x @ y, torch.ones_like(x[0]) * (i == j)) for j, y in
                 enumerate(second)]  # fmt: skip
        terms.append(costs.pop(i) + 7 * mean(costs))
    return mean(terms)


def sccl(views: Tensor, *, mask: Tensor, module: nn.Module, temperature: float = 0.5) -> Tensor:
    first, second = pairs(views, mask)
    projected = torch.stack([through(module.projector, rows) for rows in (first, second)], dim=1)
    everything = torch.ones(projected.shape[:2], dtype=torch.bool)
    q = []
    for row in first:
        near = [1 / (1 + ((row - centre) ** 2).sum()) for centre in module.centres]
        q.append([it / sum(near) for it in near])
    sizes = [sum(row[k] for row in q) for k in range(len(module.centres))]
    divergences = []
    for row in q:
        sharp = [(it**2 / size).detach() for it, size in zip(row, sizes, strict=True)]
        p = [it / sum(sharp) for it in sharp]
        divergences.append(sum(a * (torch.log(a) - torch.log(b)) for a, b in zip(p, row, strict=True)))
    return ntxent(projected, mask=everything, temperature=temperature) + 10 * mean(divergences)


def declutr(views: Tensor, *, mask: Tensor, temperature: float = 0.05) -> Tensor:
    spans, kept = (torch.cat([it[:, :2], it[:, 2:]]) for it in (views, mask))  # anchor and mean, anchor and mean
    return ntxent(spans, mask=kept, temperature=temperature)


def mlm(surprise: Tensor, *, hidden: Tensor) -> Tensor:
    return sum(surprise) / sum(hidden.tolist())


def log_sum(terms: list[Tensor] | Tensor) -> Tensor:
    return torch.log(sum(torch.exp(term) for term in terms))


def mean(terms: list[Tensor]) -> Tensor:
    return sum(terms) / len(terms)


def unit(row: Tensor) -> Tensor:
    return row / torch.sqrt(row @ row)


def pairs(views: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """First, second and further views of the samples that have all."""
    return views[mask.all(1)].unbind(1)


def anchors(views: Tensor, mask: Tensor, temperature: float, labels: Tensor | None = None) -> list[Anchor]:
    """Without labels a sample has no class mates."""
    kept = [(unit(views[i, j]), i, i if labels is None else int(labels[i])) for i, j in mask.nonzero().tolist()]
    found = []
    for a, (anchor, sample, its_class) in enumerate(kept):
        found.append(Anchor([], [], []))
        for b, (row, other, other_class) in enumerate(kept):
            if a != b:
                kind = 0 if other == sample else 1 if other_class == its_class else 2
                found[-1][kind].append(anchor @ row / temperature)
    return found


def through(layers: nn.Sequential, rows: Tensor) -> Tensor:
    """A head in training, layer by layer."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            rows = rows @ layer.weight.T + (0 if layer.bias is None else layer.bias)
        elif isinstance(layer, nn.BatchNorm1d):
            rows = standardised(rows, 1e-5) * layer.weight + layer.bias
        else:
            assert isinstance(layer, nn.ReLU), f"write down what {layer} does"
            rows = rows * (rows > 0)
    return rows


def standardised(rows: Tensor, epsilon: float) -> Tensor:
    """Each column less its mean, by its standard deviation over the batch."""
    centred = rows - mean(list(rows))
    return centred / torch.sqrt(mean(list(centred**2)) + epsilon)


def siglip(views: Tensor, *, mask: Tensor, module: nn.Module) -> Tensor:
    kept, total = pairs(views, mask), 0
    for i, first in enumerate(kept[0]):
        for j, second in enumerate(kept[1]):
            logit = torch.exp(module.scale[0]) * F.cosine_similarity(first, second, dim=0) + module.bias[0]
            total = total - torch.log(torch.sigmoid(logit if i == j else -logit)) / len(kept[0])
    return views.sum() * 0 + total


def clip(views: Tensor, *, mask: Tensor, module: nn.Module) -> Tensor:
    first, second = (F.normalize(rows, dim=-1) for rows in pairs(views, mask))
    if not len(first):
        return views.sum() * 0
    logits, own = first @ second.T * torch.exp(module.scale), torch.arange(len(first))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def gist(
    views: Tensor, *, guide: Tensor, mask: Tensor, negatives: Tensor, temperature: float = 0.01,
    guide_margin: float = 0.0, guide_margin_strategy: str = "absolute",
) -> Tensor:  # fmt: skip
    whole, terms = [i for i, row in enumerate(mask.tolist()) if all(row)], []
    for i in whole:
        x, y, by_x, by_y = unit(views[i, 0]), unit(views[i, 1]), guide[i, 0], guide[i, 1]
        agreed = float(by_x @ by_y)
        limit = agreed - guide_margin * (abs(agreed) if guide_margin_strategy == "relative" else 1)
        rivals = []
        for j in whole:
            hard = (x @ unit(negatives[j]), by_x @ guide[j, 2])
            others = [(x @ unit(views[j, 1]), by_x @ guide[j, 1]), (x @ unit(views[j, 0]), by_x @ guide[j, 0]),
                      (y @ unit(views[j, 1]), by_y @ guide[j, 1])] if j != i else []  # fmt: skip
            rivals += [ours / temperature for ours, theirs in [hard, *others] if float(theirs) <= limit]
        own = x @ y / temperature
        terms.append(torch.logsumexp(torch.stack([own, *rivals]), 0) - own)
    return mean(terms)


def margin_mse(views: Tensor, *, guide: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
    terms = []
    for (x, y), (text, positive, negative), hard, row in zip(views, guide, negatives, mask.tolist(), strict=True):
        if all(row):
            terms.append((x @ y - x @ hard - (text @ positive - text @ negative)) ** 2)
    return mean(terms)


def distil_kl(
    views: Tensor, *, guide: Tensor, negatives: Tensor, mask: Tensor, temperature: float = 0.05
) -> Tensor:  # fmt: skip
    whole, terms = [i for i, row in enumerate(mask.tolist()) if all(row)], []
    for i in whole:
        ours = [unit(views[i, 0]) @ unit(row) / temperature for row in [*views[whole, 1], *negatives[whole]]]
        theirs = [guide[i, 0] @ row / temperature for row in [*guide[whole, 1], *guide[whole, 2]]]
        p, q = (torch.stack(it).softmax(0) for it in (theirs, ours))
        terms.append(temperature**2 * (p * (p.log() - q.log())).sum())
    return mean(terms)


def distil_cos(views: Tensor, *, guide: Tensor, mask: Tensor, module: nn.Module) -> Tensor:
    rows = [(row, truth) for i, row in enumerate(mask.tolist()) if all(row)
            for row, truth in zip(views[i], guide[i, :2], strict=True)]  # fmt: skip
    mapped = [(module.map.weight @ row if hasattr(module.map, "weight") else row, truth) for row, truth in rows]
    return mean([1 - unit(row) @ unit(truth) for row, truth in mapped])


def cosent(views: Tensor, *, grades: Tensor, mask: Tensor, temperature: float = 0.05, similarity=None) -> Tensor:
    kept = [i for i, row in enumerate(mask.tolist()) if all(row)]
    agreed = {i: (similarity or F.cosine_similarity)(views[i, 0], views[i, 1], dim=0) / temperature for i in kept}
    apart = [agreed[j] - agreed[i] for i in kept for j in kept if grades[i] > grades[j]]
    return torch.logsumexp(torch.stack([views.sum() * 0, *apart]), 0)


def angle(views: Tensor, *, grades: Tensor, mask: Tensor, temperature: float = 0.05) -> Tensor:
    def complex_similarity(x: Tensor, y: Tensor, dim: int) -> Tensor:
        """As the authors write it: x/y, by the ratio of the lengths."""
        x, y = (F.pad(row, (0, len(row) % 2)) for row in (x, y))
        (a, b), (c, d) = x.chunk(2), y.chunk(2)
        z = (c**2 + d**2).sum()
        real, imaginary = (a * c + b * d) / z, (b * c - a * d) / z
        ratio = (a**2 + b**2).sum() ** 0.5 / z**0.5
        return torch.cat([real / ratio, imaginary / ratio]).sum(dim).abs()

    return cosent(views, grades=grades, mask=mask, temperature=temperature, similarity=complex_similarity)


PML, INFO_NCE, LOOP = "pytorch-metric-learning", "info-nce-pytorch", "the formula, term by term"

# name of the loss: what its oracle is, in words; the oracle
ORACLES: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "ce": (LOOP, ce),
    "rdrop": (LOOP, rdrop),
    "supcon": (f"{PML} `SupConLoss`; for one class {LOOP}", supcon),
    "supcon_in": (LOOP, supcon_in),
    "dscl": (LOOP, dscl),
    "dcl": (LOOP, dcl),
    "dclw": (LOOP, dclw),
    "simcse": (f"{INFO_NCE} `InfoNCE`", simcse),
    "simcse_sup": (f"{INFO_NCE} `InfoNCE`, all other candidates as negatives", simcse_sup),
    "ntxent": (f"{PML} `NTXentLoss`, with more views `SupConLoss`", ntxent),
    "simclr": (f"{PML} `NTXentLoss` of the projections", simclr),
    "align_uniform": (LOOP, align_uniform),
    "dropout-ntxent": (f"{PML} `NTXentLoss` of the logits", dropout_ntxent),
    "moco": (f"{INFO_NCE} `InfoNCE` with the queue as negatives", moco),
    "byol": (LOOP, byol),
    "swav": (f"{LOOP}, codes by the published Sinkhorn iterations", swav),
    "barlow": (LOOP, barlow),
    "vicreg": (LOOP, vicreg),
    "bert_ct": ("PyTorch's binary cross-entropy, pair by pair", bert_ct),
    "siglip": (LOOP, siglip),
    "clip": ("PyTorch's cross-entropy, in both directions", clip),
    "gist": (LOOP, gist),
    "margin_mse": (LOOP, margin_mse),
    "distil_kl": (LOOP, distil_kl),
    "distil_cos": (LOOP, distil_cos),
    "cosent": (LOOP, cosent),
    "angle": (f"{LOOP}, as the authors write it", angle),
    "sccl": (f"{PML} `NTXentLoss` + {LOOP}", sccl),
    "declutr": (f"{PML} `NTXentLoss`, each anchor span a sample", declutr),
    "clear": (f"{PML} `NTXentLoss`", ntxent),
    "mlm": (LOOP, mlm),
}
