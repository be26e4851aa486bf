"""What a cell costs, in plain formulas: products of its encoder, encoder calls, bytes. No torch; nothing is measured.

Of a text of s tokens, a block of width h and inner width i computes s·(8h² + 4hi) + 4h·s² operations, DeBERTa's two
terms of distance besides. A block that trains computes three times as much: its result, the gradient of what went in,
and that of its weights; one that only carries adapters twice.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contrastive.config import registry
from contrastive.config.cell import Cell, Encoder, Tune
from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.evaluation.needs import embedded
from contrastive.runs import store
from contrastive.runs.cache import place_of
from contrastive.sources import locate
from contrastive.sources.encoder_shape import cut

FLOAT = 4  # bytes
TRAINED = 16  # bytes a trained number: itself, its gradient, AdamW's two moments
# what training and evaluation, which load torch, say of themselves
LOOK_EVERY = registry.literal("contrastive.training.train", "LOOK_EVERY")
HIDDEN_WORDS = registry.literal("contrastive.views.tools.hidden_words", "SHARE")
EMBEDDED = registry.literal("contrastive.views.batches", "LOOKED_AT")
DROPPED = registry.literal("contrastive.evaluation.embed", "DROPPED")
UNKNOWN = 20_000  # texts of data that nobody has counted yet


class Sizes(NamedTuple):
    """Of an encoder. `distances` are the rows of DeBERTa's table of relative positions, 0 of an encoder without."""

    blocks: int
    hidden: int
    inner: int
    heads: int
    vocabulary: int
    positions: int
    distances: int

    def flops(self, tokens: int, squares: int, calls: float) -> float:
        """Of one block; `squares` is the sum of the squared lengths, padding included."""
        h = self.hidden
        own = tokens * (8 * h * h + 4 * h * self.inner) + 4 * h * squares
        return own + self.distances * (4 * h * tokens + 4 * h * h * calls)

    def of_block(self) -> int:
        """Parameters of one block."""
        h, i = self.hidden, self.inner
        return 4 * h * h + 2 * h * i + 9 * h + i

    def of_words(self) -> int:
        """Parameters below the blocks."""
        return self.hidden * (self.vocabulary + self.positions + self.distances + 2)

    def kept(self, length: int) -> int:
        """Bytes a token that a block which trains keeps for its gradient."""
        return FLOAT * (10 * self.hidden + 2 * self.inner + 3 * self.heads * length)


BASE = Sizes(12, 768, 3072, 12, 30_000, 512, 0)  # of an encoder that is not on this machine yet


@cache
def sizes(encoder: Encoder) -> Sizes:
    if encoder.model.startswith("scratch:"):
        own = locate.scratch_sizes(encoder)
        positions = (0, 512) if encoder.model == "scratch:deberta-v2" else (locate.SCRATCH_POSITIONS, 0)
        shape = (own["layers"], own["hidden"], 4 * own["hidden"], own["heads"], own["vocabulary"])
        return Sizes(*shape, *positions)
    path = _config(encoder.model)
    if path is None:
        return BASE
    config = locate.read_model_json(encoder.model, path)
    try:
        return _sizes(config)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{encoder.model}: no size of an encoder stands in {path} ({error})") from None


def _sizes(config: dict[str, Any]) -> Sizes:
    hidden = int(config["hidden_size"])
    return Sizes(
        int(config["num_hidden_layers"]),
        hidden,
        int(config.get("intermediate_size") or 4 * hidden),
        int(config["num_attention_heads"]),
        int(config["vocab_size"]),
        int(config.get("max_position_embeddings") or 0) if config.get("position_biased_input", True) else 0,
        2 * int(config.get("position_buckets") or 0) if config.get("relative_attention") else 0,
    )


def _config(model: str) -> Path | None:
    """Of a hub's encoder only what is here already: a plan downloads nothing."""
    if not model.startswith("hf:"):
        return locate.model_folder(model) / "config.json"
    from huggingface_hub import try_to_load_from_cache

    repository, _, revision = locate.pinned(model)
    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(path) if isinstance(path, str) else None


class Batches(NamedTuple):
    """Of the training texts, once through: how many batches, and tokens and squared lengths with their padding."""

    number: int
    tokens: int
    squares: int
    longest: int  # tokens of the largest batch
    length: int  # of its texts


def predicted_batches(lengths: npt.NDArray[np.integer], size: int, bucket: int, budget: int | None = None) -> Batches:
    """As contrastive/views/batches.py makes them, but for which texts meet."""
    drawn = lengths[np.random.default_rng(0).permutation(len(lengths))]
    groups = np.split(drawn, range(size * bucket, len(drawn), size * bucket))
    if budget is not None:
        groups = np.array_split(drawn, max(1, math.ceil(len(drawn) / (size * bucket))))
    made = [shape for group in groups for shape in _cut(np.sort(group)[::-1].tolist(), size, budget)]
    texts, longest = max(made, key=lambda shape: shape[0] * shape[1], default=(0, 0))
    return Batches(len(made), sum(n * s for n, s in made), sum(n * s * s for n, s in made), texts * longest, longest)


def _cut(group: list[int], size: int, budget: int | None) -> list[tuple[int, int]]:
    """Texts of each batch and the length of its longest, of lengths that come longest first."""
    batches, begin = [], len(group) % size if budget is None else 0
    if begin:  # the longest texts are the last ones of a group by number
        batches.append((begin, group[0]))
    while begin < len(group):
        count = min(size if budget is None else max(1, budget // group[begin]), len(group) - begin)
        batches.append((count, group[begin]))
        begin += count
    return batches


class Texts(NamedTuple):
    """Lengths of the texts of a cell's data, in tokens; `counted` where they were counted."""

    splits: dict[str, npt.NDArray[np.int64]]
    counted: bool


def lengths_of_texts(cell: Cell) -> Texts:
    """From the prepared tokens; before there are any, every text is taken for as long as it may be."""
    from contrastive.data import tokens

    try:
        folder = place_of("tokens", tokens.token_key(cell.data, cell.encoder, cell.draw()))
        if store.finished(folder):
            offsets = {name: np.load(folder / f"{name}.offsets.npy") for name in ("train", "validation", "test")}
            return Texts({name: np.diff(each) for name, each in offsets.items()}, True)
    except (OSError, ValueError, EOFError):  # damaged, or the data cannot be found, which is said elsewhere
        pass
    counts = {name: getattr(cell.data, name) for name in ("train", "validation", "test")}
    return Texts(
        {
            name: np.full(count if isinstance(count, int) else UNKNOWN, cell.data.max_length)
            for name, count in counts.items()
        },
        False,
    )


class Work(NamedTuple):
    """What the time of a cell grows with. GFLOP of passes that only look (`forward`) and of blocks that train, with
    their gradients (`trained`); numbers moved by AdamW, in millions; calls of the encoder in training; the cell."""

    forward: float
    trained: float
    moved: float
    calls: float
    cell: float

    def seconds(self, rates: "Work") -> float:
        return sum(rate * amount for rate, amount in zip(rates, self, strict=True))


def work(
    cell: Cell, texts: Texts, made: Batches, evaluation: Evaluation, stored: bool = False, embeds: bool = False
) -> Work:
    """Of training and of embedding afterwards; `stored`, `embeds`: whether either reads the frozen blocks' part."""
    size, training = sizes(cell.encoder), cell.training
    steps = made.number * training.epochs / training.accumulate
    once = training_work(cell, made, looks=(steps // LOOK_EVERY + 1) / max(1.0, steps), stored=stored)
    blocks = size.blocks - (cut(cell) if embeds else 0)
    embedded = blocks * sum(gflop(size, lengths) for lengths in _embedded(texts, evaluation))
    forward = once.forward * training.epochs / training.processes + embedded
    trained = once.trained * training.epochs / training.processes
    return Work(forward, trained, trained_parameters(cell) * steps / 1e6, once.calls * training.epochs, 1.0)


def training_work(cell: Cell, made: Batches, looks: float, stored: bool = False) -> Work:
    """Of these batches, once; `looks` is the share of steps in which each term is asked for its own gradient."""
    size, objective = sizes(cell.encoder), cell.objective
    upper, (plain, changed) = above(cell.encoder.tune, size.blocks), passes(cell)
    block = size.flops(made.tokens, made.squares, float(made.number)) / 1e9
    backward = 1 if cell.encoder.tune.lora is not None else 2
    forward = block * ((size.blocks - upper) * (plain + changed) - (cut(cell) * plain if stored else 0))
    forward += block * size.blocks * objective.view_facts().slow_passes
    trained = block * upper * (plain + changed) * (1 + backward * (1 + looks * len(objective.terms())))
    if objective.reads_guesses():
        trained += 3 * made.tokens * HIDDEN_WORDS * 2 * size.hidden * (size.vocabulary + size.hidden) / 1e9
    moved = trained_parameters(cell) * made.number / cell.training.accumulate / 1e6
    return Work(forward, trained, moved, made.number * (1 + plain + changed) / 2, 0.0)


def common(cell: Cell, made: Batches) -> float:
    """GFLOP of the frozen blocks in training, which cells that take turns in one process compute once for all."""
    block = sizes(cell.encoder).flops(made.tokens, made.squares, float(made.number)) / 1e9
    return cell.training.epochs * cut(cell) * passes(cell)[0] * block


def store_work(cell: Cell, texts: Texts, split: str) -> float:
    """GFLOP of the frozen blocks over a split, once for all cells that read them from a store."""
    return cut(cell) * gflop(sizes(cell.encoder), texts.splits[split])


def embedding_work(cell: Cell, lengths: npt.NDArray[np.int64]) -> float:
    """GFLOP of all blocks over texts of these lengths."""
    size = sizes(cell.encoder)
    return size.blocks * gflop(size, lengths)


def gflop(size: Sizes, lengths: npt.NDArray[np.int64]) -> float:
    """Of one block over texts that are sorted by length, so that there is hardly any padding."""
    return size.flops(int(lengths.sum()), int(np.square(lengths).sum()), len(lengths) / EMBEDDED) / 1e9


def _embedded(texts: Texts, evaluation: Evaluation) -> list[npt.NDArray[np.int64]]:
    splits = [lengths_measured(texts, evaluation, name) for name in embedded(evaluation)]
    if evaluation.drops_twice():
        splits += [lengths[:DROPPED] for lengths in splits for _ in range(2)]
    return splits


def lengths_measured(texts: Texts, evaluation: Evaluation, split: str) -> npt.NDArray[np.int64]:
    """Of more test texts than the cell's own, as if these came again and again."""
    lengths = texts.splits[split]
    return np.resize(lengths, evaluation.test) if split == "test" and evaluation.test is not None else lengths


def passes(cell: Cell) -> tuple[int, int]:
    """Of the encoder over a text: as it is, with its partners in pairs, and changed."""
    facts = cell.objective.view_facts()
    partners = len(cell.data.partners()) if facts.partners else 0
    return facts.passes + partners, facts.changed_passes + cell.objective.reads_guesses()


def above(tune: Tune, blocks: int) -> int:
    """Blocks that a gradient goes through."""
    return blocks if tune.last_blocks is None else min(blocks, tune.last_blocks)


def trained_parameters(cell: Cell) -> int:
    """Of the encoder and its trained copies."""
    size, tune = sizes(cell.encoder), cell.encoder.tune
    if tune.lora is not None:
        return above(tune, size.blocks) * (len(tune.lora.targets) or 2) * 2 * size.hidden * tune.lora.r
    below = size.of_words() if tune.last_blocks is None else 0
    copies = 1 + ("twin" in cell.objective.line_of_view().tools)
    return copies * (below + above(tune, size.blocks) * size.of_block())


class Memory(NamedTuple):
    """Bytes: frozen weights, which cells of one process can share; what is a cell's own; the part of that which a batch
    takes."""

    shared: int
    own: int
    batch: int


def memory_of_cell(cell: Cell, made: Batches) -> Memory:
    size, tune = sizes(cell.encoder), cell.encoder.tune
    copies = 1 + len({"slow", "twin"} & set(cell.objective.line_of_view().tools))
    everything = copies * (size.of_words() + size.blocks * size.of_block())
    trained = trained_parameters(cell)
    frozen = max(0, everything - (trained if tune.lora is None else 0))
    share = (cell.training.micro_batch or cell.training.batch_size) / cell.training.batch_size
    tokens = made.longest * min(1.0, share) / cell.training.processes
    kept = size.kept(made.length) * (0.8 if tune.lora is not None else 1.0) * above(tune, size.blocks)
    passing = size.kept(made.length) + FLOAT * size.hidden * size.blocks  # one frozen block at a time, and its output
    batch = int(tokens * sum(passes(cell)) * (kept + passing))
    return Memory(FLOAT * frozen, TRAINED * trained + batch, batch)
