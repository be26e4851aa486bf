"""Training one cell: the same numbers every time, also after an interruption; and nothing trains by mistake."""

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from contrastive.cells.identity import cell_id, identity
from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.objective import Objective
from contrastive.config.registry import entries
from contrastive.data import tokens as token_store
from contrastive.errors import UserError
from contrastive.evaluation import embed
from contrastive.losses import LOSSES
from contrastive.losses.sccl import Sccl
from contrastive.losses.supcon import supcon
from contrastive.models import model
from contrastive.models.tuning import HEADS
from contrastive.runs import claim, stopping, store
from contrastive.stages.failures import try_stage
from contrastive.stages.prepare import prepare_cell_tokens
from contrastive.stages.request import Asked
from contrastive.stages.train_cell import train_cell
from contrastive.training import checkpoint, gradcache, gradient_audit, sharding, train
from contrastive.training.gradient_audit import Audit, GradientPathError
from contrastive.views import VIEWS, batches
from contrastive.views.cluster import cluster
from contrastive.views.types import VectorGroup, View
from tests.contrastive.training.trained import trained_into

WORDS = ["good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark"]


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Texts of two classes, told apart by their words."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "texts.csv"
    lines = ["text,label,same,other"]
    for i in range(160):
        words = random.choice(WORDS[i % 2 :: 2], size=random.integers(2, 9))
        same, other = (" ".join(random.choice(WORDS[(i + off) % 2 :: 2], size=4)) for off in (0, 1))
        lines.append(f"{' '.join(words)} {i},{'ab'[i % 2]},{same} {i},{other}")
    path.write_text("\n".join(lines) + "\n")
    return f"file:{path}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return tmp_path


LAST_BLOCK = {"tune": {"last_blocks": 1}}


def make(
    source: str,
    seed: int = 0,
    encoder: dict | None = None,
    training: dict | None = None,
    data: dict | None = None,
    **objective,
) -> Cell:
    paired = "pair" in objective.values() or "simcse_sup" in objective.get("loss", "")
    sizes = {"train": 64, "validation": 16, "test": 32, "max_length": 16} | (data or {})
    sizes |= {"positive": "same", "negative": "other"} if paired else {}
    small = {"model": "scratch:bert", "scratch": {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 300}}
    return Cell(
        data=Data(source=source, **sizes),
        encoder=Encoder(**small | (encoder or {})),
        objective=Objective(**objective),
        training=Training(**{"epochs": 1, "batch_size": 8, "head_lr": 1e-2, "encoder_lr": 1e-3} | (training or {})),
        seed=seed,
    ).canonical()


def run(cell: Cell, checkpoint_every: int = 1000) -> Path:
    folder = store.run_folder(cell_id(identity(cell)))
    train_cell(folder, Asked(cell, "a cell", checkpoint_every))
    return folder


def numbers(folder: Path) -> dict[str, object]:
    """Everything that a cell computes, without the clock."""
    found: dict[str, object] = {}
    for name in ("embeddings.npz", "predictions.npz"):
        with np.load(folder / name) as arrays:
            found |= {f"{name}/{key}": arrays[key].tobytes() for key in arrays}
    weights = load_file(folder / "checkpoint" / "weights.safetensors")
    found |= {key: tensor.numpy().tobytes() for key, tensor in weights.items()}
    clock = ("examples_per_second", "tokens_per_second", "memory_mib")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found["curve"] = [{key: value for key, value in row.items() if key not in clock} for row in rows]
    return found


def test_two_runs_are_equal_to_the_bit_and_another_seed_is_not(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    cell = make(source, loss="ce+supcon", view="topk_tokens", k=3)
    first = numbers(run(cell))
    run(make(source, loss="rdrop"))  # another cell before it in the same process
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    assert numbers(run(cell)) == first
    assert numbers(run(make(source, seed=1, loss="ce+supcon", view="topk_tokens", k=3))) != first


@pytest.mark.parametrize(
    "objective",
    [
        {"loss": "rdrop", "view": "one_stage"},
        *({"loss": loss} for loss in ("rdrop", "moco", "byol", "swav", "sccl", "clear+mlm")),
    ],
    ids=lambda objective: "-".join(objective.values()),
)
def test_an_interrupted_cell_ends_with_the_numbers_of_an_undisturbed_one(
    objective: dict, source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    """Queue, prototypes, slow copies and centres go on from the checkpoint too."""
    cell = make(source, training={"epochs": 2, "accumulate": 2}, **objective)
    undisturbed = numbers(run(cell))
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    steps, real = [], checkpoint.save_checkpoint

    def die_after_the_second(*arguments):
        real(*arguments)
        steps.append(arguments[1])
        if len(steps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_checkpoint", die_after_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(cell, checkpoint_every=2)
    monkeypatch.setattr(checkpoint, "save_checkpoint", real)
    folder = store.run_folder(cell_id(identity(cell)))
    assert steps == [2, 4] and not (folder / "TRAINED").exists()
    with open(claim.at_work(folder) / "metrics.jsonl", "a") as log:
        log.write('{"step": 4, "torn')  # as a killed writer leaves it
    assert numbers(run(cell)) == undisturbed
    assert not list(folder.glob("attempts/*/resume")) and len(claim.attempts(folder)) == 2


def test_a_cell_whose_permit_is_taken_away_stops_with_a_checkpoint_and_goes_on_from_it(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    cell = make(source, training={"epochs": 8})
    undisturbed = numbers(run(cell))
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    monkeypatch.setattr(stopping, "LOOK_AFTER", 0.0)
    folder = store.run_folder(cell_id(identity(cell)))
    with stopping.granted(home) as leave, monkeypatch.context() as worker:
        worker.setenv(stopping.VARIABLE, str(leave))
        taker = threading.Thread(target=take_away, args=(leave, folder))
        taker.start()
        told = try_stage(train_cell, folder, Asked(cell, "a cell", 1000))
        taker.join()
    assert told is not None and told["kind"] == "stopped" and store.failure(folder) is None
    done = (claim.at_work(folder) / "metrics.jsonl").read_text().count("\n")
    assert 3 <= done < 8 * 8
    assert numbers(run(cell)) == undisturbed
    assert [known["outcome"][:8] for known in claim.attempts(folder)] == ["Stopped:", "done"]


def take_away(leave: Path, folder: Path) -> None:
    """Take the permit away once three steps are done."""
    log = folder / "attempts" / "0001" / "metrics.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 3:
        time.sleep(0.002)
    leave.unlink()


@pytest.mark.parametrize("damage", ["truncated", "empty", "log missing", "log short"])
def test_a_checkpoint_that_is_not_whole_is_begun_again(damage: str, source: str, home: Path):
    cell = make(source, training={"epochs": 2})
    undisturbed = numbers(run(cell))
    folder = store.run_folder(cell_id(identity(cell)))
    (folder / "TRAINED").unlink()
    earlier = folder / "attempts" / "0001"
    shutil.copy(folder / "metrics.jsonl", earlier)
    tokens = token_store.open(prepare_cell_tokens(cell))
    accelerator = train.start_accelerator(cell)
    built = model.build_model(cell, tokens)
    shared = sharding.share(built, cell, accelerator)
    schedule = torch.optim.lr_scheduler.LambdaLR(shared.optimizer, lambda _: 1.0)
    checkpoint.save_checkpoint(earlier, 3, shared, schedule, accelerator)
    state, log = earlier / "resume" / "state.pt", earlier / "metrics.jsonl"
    if damage in ("truncated", "empty"):
        state.write_bytes(state.read_bytes()[: 0 if damage == "empty" else 5000])
    elif damage == "log missing":
        log.unlink()
    else:
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    assert numbers(run(cell)) == undisturbed


def test_a_restored_model_gives_the_stored_embeddings(source: str, home: Path):
    for tune in ("full", {"last_blocks": 1}, {"lora": {"r": 2}}):
        cell = make(source, encoder={"tune": tune}, training={"epochs": 2})
        folder = run(cell)
        tokens = token_store.open(prepare_cell_tokens(cell))
        restored = embed.restore(cell, folder, tokens)
        test = tokens.splits["test"]
        batch = batches.collate(test, np.arange(len(test)), tokens.pad_id, tokens.special_ids)
        found = restored.predict(batch)
        vectors, logits = found.embedding, found.logits
        with np.load(folder / "embeddings.npz") as arrays, np.load(folder / "predictions.npz") as guesses:
            np.testing.assert_allclose(vectors.numpy(), arrays["test"], atol=1e-5)
            np.testing.assert_allclose(logits.numpy(), guesses["test.logits"], atol=1e-5)


def test_what_was_predicted_is_noted_beside_what_was_measured(source: str, home: Path):
    cell = make(source, loss="ce")
    folder, said = store.run_folder(cell_id(identity(cell))), {"seconds": 2.5, "memory_bytes": 10}
    train_cell(folder, Asked(cell, "a cell", 1000, predicted=said))
    noted = store.read_json(folder / "provenance.json")
    assert noted["predicted"] == said and 100 * 2**20 < noted["peak_memory_bytes"] < 8 * 2**30


NAMES = ("file:there", "file:back")  # the fixture `translators` has real ones
TWO_STEPS = {"train": 16, "validation": 0, "test": 16}
SETTINGS = {"k": 4, "clusters": 2, "layers": (0, 1), "translators": NAMES}


def combinations() -> list[dict]:
    """Every loss on every view that it can be computed on."""
    found = [{"loss": "ce"}, {"loss": "mlm"}, {"loss": "simcse", "view": "consert", "change": "position_shuffle"}]
    for loss, view in product(LOSSES, VIEWS):
        for level in ("token", "sentence") if view == "layers" else ("token",):
            given = {"loss": f"{loss}+mlm" if view == "contextual" else loss, "view": view}
            given |= {"level": level} if view == "layers" else {}
            with contextlib.suppress(ValidationError):
                if Objective(**given, **SETTINGS).canonical().view == view:
                    found.append(given)
    return found


# What the product of losses and views leaves out: sums of terms, changes, levels.
OBJECTIVES = [
    *({"loss": loss} for loss in ("ce", "rdrop", "mlm", "ce+mlm", "simcse+mlm", "rdrop+mlm", "ce+supcon+mlm")),
    *({"loss": f"ce+{loss}"} for loss in LOSSES if loss not in ("ce", "rdrop", "mlm")),
    {"loss": "rdrop+byol"},  # two predictions and slow vectors, both of one view
    {"loss": "declutr+mlm"},
    {"loss": "clear+mlm"},
    {"loss": "ce+simcse", "view": "pair"},
    *(
        {"loss": "ce+simcse", "view": "consert", "change": change}
        for change in ("token_cutoff", "span_cutoff", "dropout", "adversarial")
    ),
    {"loss": "ce+ntxent", "view": "multiview"},
    {"loss": "ce+dcl", "view": "topk_tokens", "k": 4},
    {"loss": "ce+supcon", "view": "topk_tokens", "k": 4},
    {"loss": "ce+supcon", "view": "cluster", "k": 6, "clusters": 2},
    {"loss": "ce+supcon", "view": "layers", "layers": (0, 1), "level": "sentence"},
    {"loss": "ce+supcon", "view": "layers", "layers": (1,), "level": "token", "k": 4},
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home in which texts are tokenised once for many cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(tmp_path_factory.mktemp("prepared")))
        yield


@pytest.mark.parametrize("objective", combinations(), ids=lambda o: "-".join(o.values()))
def test_every_loss_on_every_view_trains_what_it_says(
    objective: dict, source: str, prepared: None, tmp_path: Path, request: pytest.FixtureRequest
):
    """Two steps: each term alone gives the encoder a gradient, all that is said to train moves, and nothing else."""
    settings = {name: SETTINGS[name] for name in view_settings(objective) if name in SETTINGS}
    if "translators" in settings:
        settings["translators"] = request.getfixturevalue("translators")
    check(make(source, encoder=LAST_BLOCK, data=TWO_STEPS, **objective, **settings), tmp_path)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: "-".join(str(v) for v in o.values()))
@pytest.mark.parametrize("architecture", ["bert", "deberta-v2"])
def test_every_objective_trains_what_it_says(
    objective: dict, architecture: str, source: str, prepared: None, tmp_path: Path
):
    """The audit runs inside; besides, what moved is exactly what the configuration says."""
    encoder = LAST_BLOCK | {"model": f"scratch:{architecture}"}
    check(make(source, encoder=encoder, data=TWO_STEPS, **objective), tmp_path)


def view_settings(objective: dict) -> tuple[str, ...]:
    return entries("contrastive.views", "VIEWS")[objective["view"]].settings if "view" in objective else ()


def check(cell: Cell, folder: Path) -> None:
    tokens = token_store.open(prepare_cell_tokens(cell))
    train.start_accelerator(cell)
    before = model.build_model(cell, tokens)
    after = dict(trained_into(folder, cell, tokens).model.named_parameters())
    moved = {name for name, old in before.named_parameters() if not torch.equal(old, after[name])}
    expected = {n for n, p in after.items() if p.requires_grad and n.startswith(HEADS)}
    expected |= {n for n in after if ".layer.1." in n and not n.startswith("slow.")}
    assert {name for name in moved if not name.startswith("slow.") and ".target." not in name} == expected
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for term in cell.objective.terms():
        assert all(f"loss.{term}" in row for row in rows)
        assert (rows[0][f"gradient_norm.{term}"] > 0) != (term == "moco")  # whose queue is empty at the first step
    if "supcon" in cell.objective.terms():
        assert all(row["excess.supcon"] > -1e-5 for row in rows)


def test_a_frozen_head_for_hidden_words_guesses_and_stays(source: str, home: Path, tmp_path: Path):
    """The view contextual without the term mlm, on an encoder with a head of its own; and one without is refused."""
    learnt = make(source, loss="simcse+mlm")
    tokens = token_store.open(prepare_cell_tokens(learnt))
    train.start_accelerator(learnt)
    built = model.build_model(learnt, tokens)
    whole = BertForMaskedLM(built.backbone.config)
    whole.bert.load_state_dict(built.backbone.state_dict())
    for name, parts in (("with", whole), ("without", whole.bert)):
        parts.save_pretrained(tmp_path / name)
        PreTrainedTokenizerFast.from_pretrained(tokens.tokenizer).save_pretrained(tmp_path / name)
    cell = make(
        source, encoder={"model": f"file:{tmp_path / 'with'}", "scratch": None}, loss="simcse", view="contextual"
    )
    tokens = token_store.open(prepare_cell_tokens(cell))
    train.start_accelerator(cell)
    before = model.build_model(cell, tokens)
    torch.testing.assert_close(before.masked.head.state_dict(), whole.cls.state_dict())
    (home / "cell").mkdir()
    after = trained_into(home / "cell", cell, tokens).model
    own = [name for name, _ in before.named_parameters() if name.startswith("masked.")]
    assert own and all(torch.equal(before.get_parameter(n), after.get_parameter(n)) for n in own)
    with pytest.raises(UserError, match="no head that guesses hidden words: its weights lack cls.predictions"):
        run(
            make(
                source,
                encoder={"model": f"file:{tmp_path / 'without'}", "scratch": None},
                loss="simcse",
                view="contextual",
            )
        )


def test_a_loss_may_begin_from_the_embeddings_of_all_training_texts(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(Sccl, "begin", lambda self, embeddings: seen.append(embeddings))
    run(make(source, loss="sccl"))
    assert [tuple(embeddings.shape) for embeddings in seen] == [(64, 32)] and not seen[0].requires_grad


def test_it_learns(source: str, home: Path):
    folder = run(make(source, training={"epochs": 8}))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert np.mean([row["loss"] for row in rows[-8:]]) < 0.5 * np.mean([row["loss"] for row in rows[:8]])


def test_bf16_trains_and_fp16_without_a_gpu_says_what_to_do(source: str, home: Path):
    run(make(source, training={"precision": "bf16"}))
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="fp16 needs a GPU"):
            run(make(source, training={"precision": "fp16"}))


def test_a_loss_that_stops_being_a_number_is_a_result_with_its_step(source: str, home: Path):
    cell = make(source, training={"encoder_lr": 1e30, "head_lr": 1e30, "clip": 0, "warmup": 0})
    folder = store.run_folder(cell_id(identity(cell)))
    report = try_stage(train_cell, folder, Asked(cell, "a cell", 1000))
    assert report is not None and report["kind"] == "diverged" and report["step"] >= 1
    assert store.failure(folder) == report


def test_weights_that_the_last_step_spoilt_are_a_divergence_with_its_step(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    cell = make(source)
    real = model.Model.after_step

    def spoil(self, progress):
        real(self, progress)
        if progress == 1:
            self.head.weight.fill_(float("nan"))

    monkeypatch.setattr(model.Model, "after_step", torch.no_grad()(spoil))
    folder = store.run_folder(cell_id(identity(cell)))
    report = try_stage(train_cell, folder, Asked(cell, "a cell", 1000))
    assert report is not None and report["kind"] == "diverged" and report["step"] == 7
    assert "head.weight became nan at step 7" in report["error"]


def test_out_of_memory_halves_what_is_encoded_at_a_time_and_keeps_the_batch(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    real = model.Model.forward

    def small(self, batch):
        if len(batch) > 3:
            raise torch.cuda.OutOfMemoryError("a planted one")
        return real(self, batch)

    expected = numbers(run(make(source, loss="ce+simcse", training={"micro_batch": 2})))
    monkeypatch.setattr(model.Model, "forward", small)
    folder = run(make(source, loss="ce+simcse"))  # 8 texts, then 4, then 2
    assert numbers(folder) == expected
    assert store.read_json(folder / "provenance.json")["micro_batch"] == claim.attempts(folder)[0]["micro_batch"] == 2


def test_a_text_that_alone_is_too_much_is_a_failure(source: str, home: Path, monkeypatch: pytest.MonkeyPatch):
    def never(self, batch):
        raise torch.cuda.OutOfMemoryError("a planted one")

    monkeypatch.setattr(model.Model, "forward", never)
    cell = make(source)
    folder = store.run_folder(cell_id(identity(cell)))
    report = try_stage(train_cell, folder, Asked(cell, "a cell", 1000))
    assert report is not None and report["kind"] == "memory" and store.failure(folder) == report


def test_a_change_since_the_plan_is_refused(source: str, home: Path):
    planned = store.run_folder(cell_id(identity(make(source))))
    with pytest.raises(UserError, match="changed since this grid was planned"):
        train_cell(planned, Asked(make(source, loss="rdrop"), "a cell", 1000))


def pieces(source: str, **objective) -> tuple[sharding.Whole, Cell]:
    cell = make(source, **objective)
    tokens = token_store.open(prepare_cell_tokens(cell))
    accelerator = train.start_accelerator(cell)
    return sharding.Whole(model.build_model(cell, tokens), cell, accelerator), cell


def test_the_audit_finds_a_frozen_head(source: str, home: Path):
    shared, cell = pieces(source)
    for parameter in shared.model.head.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(GradientPathError, match="head"):
        Audit(shared, ["ce"], cell.objective.terms())


def test_the_audit_finds_a_parameter_that_the_optimizer_forgot(source: str, home: Path):
    shared, cell = pieces(source)
    shared.listed = [parameter for parameter in shared.listed if parameter.shape != shared.model.head.weight.shape]
    with pytest.raises(GradientPathError, match="head"):
        Audit(shared, ["ce"], cell.objective.terms())


@pytest.mark.parametrize("fault", ["detached term", "detached centres", "unused block"])
def test_the_audit_stops_a_cell_whose_term_or_block_trains_nothing(
    fault: str, source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    if fault == "detached term":
        cell, name = make(source, loss="ce+supcon"), "supcon"
        monkeypatch.setitem(LOSSES, "supcon", detached_supcon)
    elif fault == "detached centres":
        cell, name = make(source, loss="ce+supcon", view="cluster", k=4, clusters=2), "supcon"
        monkeypatch.setitem(VIEWS, "cluster", detached_cluster)
    else:
        cell, name = make(source, loss="supcon", view="layers", layers=(0,)), "layer.1"
    with pytest.raises(GradientPathError, match=name):
        run(cell)


def detached_supcon(views, *, labels, mask=None, temperature=0.1):
    return supcon(views.detach(), labels=labels, mask=mask, temperature=temperature)


def detached_cluster(encode, batch, *, k, clusters):
    view = cluster(encode, batch, k=k, clusters=clusters)
    return View([VectorGroup(group.vectors.detach(), group.mask) for group in view.groups], view.sentences)


def test_each_step_draws_other_random_numbers_and_each_process_too(
    source: str, home: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first number that each step would draw, in the order of steps; equal cells of another seed draw others."""
    drawn: list[float] = []
    real = gradcache.encode_in_parts

    def note(*arguments):
        state = torch.get_rng_state()
        drawn.append(float(torch.rand(())))
        torch.set_rng_state(state)
        return real(*arguments)

    monkeypatch.setattr(gradcache, "encode_in_parts", note)
    for seed in (0, 1):
        (home / str(seed)).mkdir()
        cell = make(source, seed=seed)
        trained_into(home / str(seed), cell, token_store.open(prepare_cell_tokens(cell)))
    train.draw_from(0, 0, 1)
    assert len({*drawn, float(torch.rand(()))}) == len(drawn) + 1 == 2 * 8 + 1


def test_accumulation_counts_batches_a_step(source: str, home: Path):
    cell = make(source, training={"accumulate": 3})
    tokens = token_store.open(prepare_cell_tokens(cell))
    steps = list(train.steps(cell, tokens))
    assert [len(step) for _, step in steps] == [3, 3, 2] and train.count_steps(cell, tokens) == 3
    assert sorted(np.concatenate([np.concatenate(step) for _, step in steps])) == list(range(64))


def test_batches_filled_by_tokens_train_to_the_end_of_the_schedule(source: str, home: Path):
    """And as many steps at another seed that has the order of this one."""
    cell = make(source, loss="ce+supcon", training={"epochs": 2, "token_budget": 96, "batch_size": 4, "order_seed": 0})
    undisturbed = numbers(run(cell))
    curve = undisturbed["curve"]
    steps = list(train.steps(cell, token_store.open(prepare_cell_tokens(cell))))
    assert len(curve) == len(steps) == train.count_steps(cell, token_store.open(prepare_cell_tokens(cell)))
    assert curve[-1]["lr.head"] == pytest.approx(1e-2 / (len(steps) - np.ceil(len(steps) / 10)))  # the last of linear
    sizes = {len(batch) for _, of_step in steps for batch in of_step}
    assert len(sizes) > 1 and min(sizes) > 4
    other = numbers(run(cell.model_copy(update={"seed": 1})))
    assert other != undisturbed and len(other["curve"]) == len(curve)


def test_the_rate_warms_up_falls_and_is_never_zero():
    training = Training(warmup=0.25)
    rates = [train.learning_rate_factor(done, 8, training) for done in range(8)]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert all(train.learning_rate_factor(done, 8, Training(schedule="cosine")) > 0 for done in range(8))


def test_patience_is_longer_than_lora_needs():
    assert gradient_audit.PATIENCE >= 2
