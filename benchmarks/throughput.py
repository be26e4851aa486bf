"""Training throughput beside the trainers of sentence-transformers and transformers, on the same texts and recipe.

    python -m benchmarks.throughput [TEXTS] [TURNS] | --quick

MiniLM, all of it trained in fp32 by AdamW, batch 32, dropout as in the model, gradients clipped at 1, one thread. Each
makes its own batches: here of about the same length, there at random, or by length where the trainer has a choice.
Clocked from the first step's begin to the last one's end. Ours is `training.train` with its audit and its log; its
texts are tokens already, as are those of transformers' Trainer, while sentence-transformers tokenises as it trains.
"""

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks import clocks, peers, texts
from benchmarks.turns import Run, ratios, spread, start, take_turns
from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.experiment import Speed
from contrastive.config.objective import Objective

RATE, TEMPERATURE, BATCH = 1e-4, 0.05, 32
LENGTHS = {"tweets": 128, "mixed": 256}  # kind of texts → tokens kept of one
HELD_OUT = 64
OURS = "ours"
THEIRS = {
    "simcse": ("sentence-transformers",),
    "simcse_sup": ("sentence-transformers",),
    "ce": ("transformers", "transformers, by length"),
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}


def cell(loss: str, kind: str, file: Path, model: Path, count: int, curve: bool) -> Cell:
    """`simcse` is on a text and itself, which differ by dropout; without any, on a text and its positive."""
    partners = {"simcse": ["positive"] if curve else [], "simcse_sup": ["positive", "negative"], "ce": []}[loss]
    view = None if loss == "ce" else "pair" if partners else "two_stage"
    return Cell(
        data=Data(source=f"file:{file}", train=count, test=1, max_length=LENGTHS[kind],
                  **{name: name for name in partners}),
        encoder=Encoder(model=f"file:{model}", pooling="mean", dropout=0),
        objective=Objective(loss=loss, view=view, temperature=TEMPERATURE),
        training=Training(epochs=1, batch_size=BATCH, head_lr=RATE, encoder_lr=RATE, warmup=0, schedule="constant"),
        seed=0,
    )  # fmt: skip


def measure(system: str, loss: str, kind: str, count: int, curve: bool) -> Run:
    """`curve`: no dropout, and the same batches in the same order; gives the loss of each step."""
    from contrastive.data import tokens as token_store

    rows = texts.rows(count + 1 + HELD_OUT, kind)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        model = peers.copied(home / "model", dropout=not curve)
        texts.write(rows[:-HELD_OUT], home / "texts.csv")
        asked = cell(loss, kind, home / "texts.csv", model, count, curve)
        began = time.perf_counter()
        prepared = token_store.prepare_tokens(asked.data, asked.encoder, home)
        preparing = time.perf_counter() - began
        if system == OURS:
            own = clocks.train(asked, home, token_store.open_tokens(prepared), Speed())
            trained = peers.Trained(own.model.backbone, own.model.head, own.seconds, own.losses)
        else:
            trained = theirs(system, asked, prepared, model, curve)
        split = token_store.open_tokens(prepared).splits["train"]
        passes = 2 if asked.objective.view == "two_stage" else 1
        parts = [passes * split.lengths.sum(), *(partner.lengths.sum() for partner in split.partners)]
        run = {"tokens": float(sum(parts)) / trained.seconds, "examples": count / trained.seconds, "prepare": preparing}
        run["held out"] = peers.held_out(trained, asked, rows[-HELD_OUT:])
        return run | ({f"step {step}": value for step, value in enumerate(trained.losses)} if curve else {})


def theirs(system: str, asked: Cell, prepared: Path, model: Path, curve: bool) -> peers.Trained:
    from contrastive.data import tokens as token_store
    from contrastive.views.batches import optimizer_steps

    tokens = token_store.open_tokens(prepared)
    batches = [indices for _, (indices,) in optimizer_steps(asked, tokens)] if curve else None
    if system == "sentence-transformers":
        return peers.sentence_transformers(asked, prepared, model, batches)
    return peers.transformers(asked, tokens, model, batches, by_length=system.endswith("by length"))


def compared(loss: str, kind: str, count: int, turns: int) -> Iterable[str]:
    found = take_turns("benchmarks.throughput", [OURS, *THEIRS[loss]], [loss, kind, count, False], turns, ONE_THREAD)
    own = found[OURS]
    for system, runs in found.items():
        tokens, examples, held = ([run[key] for run in runs] for key in ("tokens", "examples", "held out"))
        faster = spread(ratios(own, runs, "tokens"))
        made = "in the clock" if system == "sentence-transformers" else spread([run["prepare"] for run in runs])
        shown = (loss, kind, system, spread(tokens, 0), spread(examples, 1), faster, made, spread(held, 3))
        yield f"| {' | '.join(shown)} |"


def curves(loss: str, kind: str, count: int) -> str:
    """How far the losses of the steps lie apart, relatively, on the same batches without dropout."""
    found = take_turns("benchmarks.throughput", [OURS, THEIRS[loss][0]], [loss, kind, count, True], 1, ONE_THREAD)
    (own,), (other,) = found.values()
    names = [name for name in own if name.startswith("step")]
    assert names == [name for name in other if name.startswith("step")], "the two took other numbers of steps"
    apart = max(abs(own[step] - other[step]) / abs(other[step]) for step in names)
    first, last = names[0], names[-1]
    shown = f"{own[first]:.6f} → {own[last]:.6f} | {other[first]:.6f} → {other[last]:.6f}"
    return f"| {loss} | {THEIRS[loss][0]} | {len(names)} | {shown} | {apart:.1e} |"


def main(count: int = 320, turns: int = 2, curve: int = 320, kinds: tuple[str, ...] = tuple(LENGTHS)) -> None:
    print(f"{count} texts, one epoch, {turns} turns.\n")
    names = ("loss", "texts", "", "real tokens/s", "examples/s", "ours: times as fast", "tokens made, s")
    print(f"| {' | '.join(names)} | loss on held-out texts |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        for loss in THEIRS:
            print("\n".join(compared(loss, kind, count, turns)), flush=True)
    print(f"\nThe same {curve} texts in the same batches, without dropout:\n")
    print("| loss | | steps | ours, first → last loss | theirs | largest relative difference of a step's loss |")
    print("|---|---|---|---|---|---|")
    for loss in THEIRS:
        print(curves(loss, kinds[-1], curve), flush=True)


if __name__ == "__main__":
    start(main, measure, quick=(32, 1, 64, ("tweets",)))
