"""Training one cell: the same numbers every time, also after an interruption; and nothing trains by mistake."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.config.cell import Training
from contrastive.data import tokens as token_store
from contrastive.errors import UserError
from contrastive.evaluation import embed
from contrastive.evaluation.prepare import prepare_cell_tokens
from contrastive.models import model
from contrastive.runs import claim, stopping, store
from contrastive.training import checkpoint, gradcache, sharding, train
from contrastive.training.failures import run_stage
from contrastive.training.job import TrainRequest
from contrastive.training.train_cell import train_cell
from contrastive.views import batches
from tests.contrastive.training.trained import folder_of, make, numbers, run, trained_into
from tests.tiers import rest_is_full


def test_two_runs_are_equal_to_the_bit_and_another_seed_is_not(source, home, monkeypatch):
    cell = make(source, loss="ce+supcon", view="topk_tokens", k=3)
    first = numbers(run(cell))
    run(make(source, loss="rdrop"))  # another cell before it in the same process
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    assert numbers(run(cell)) == first
    assert numbers(run(make(source, seed=1, loss="ce+supcon", view="topk_tokens", k=3))) != first


@pytest.mark.parametrize(
    "loss",
    rest_is_full(
        ("rdrop", "moco", "byol", "swav", "sccl", "clear+mlm", "byol of images"),
        ("rdrop", "moco", "sccl", "byol of images"),
    ),
)
def test_an_interrupted_cell_ends_with_the_numbers_of_an_undisturbed_one(loss, source, home, monkeypatch):
    """Queue, prototypes, slow copies, centres and changes of images go on from the checkpoint too."""
    training, loss, *images = {"epochs": 2, "accumulate": 2}, *loss.split(" of ")
    if images:
        source, training["augment"] = "package:digits", {"crop": (0.5, 1.0), "rotate": 20}
    pictures = (
        {"data": {"images": {"size": 8, "channels": 1}, "train": 160}, "encoder": {"model": "scratch:vit"}}
        if images
        else {}
    )
    cell = make(source, training=training, loss=loss, **pictures)
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
    folder = folder_of(cell)
    assert steps == [2, 4] and not (folder / "TRAINED").exists()
    with open(claim.current_folder(folder) / "metrics.jsonl", "a") as log:
        log.write('{"step": 4, "torn')  # as a killed writer leaves it
    assert numbers(run(cell)) == undisturbed
    assert not list(folder.glob("attempts/*/resume")) and len(claim.attempts(folder)) == 2


def test_a_cell_whose_permit_is_taken_away_stops_with_a_checkpoint_and_goes_on_from_it(source, home, monkeypatch):
    cell = make(source, training={"epochs": 8})
    undisturbed = numbers(run(cell))
    monkeypatch.setenv("ABLATE_HOME", str(home / "again"))
    monkeypatch.setattr(stopping, "CHECK_INTERVAL", 0.0)
    folder = folder_of(cell)
    with stopping.work_permit(home) as leave, monkeypatch.context() as worker:
        worker.setenv(stopping.VARIABLE, str(leave))
        taker = threading.Thread(target=take_away, args=(leave, folder))
        taker.start()
        told = run_stage(train_cell, folder, TrainRequest(cell, "a cell", 1000))
        taker.join()
    assert told is not None and told["kind"] == "stopped" and store.failure(folder) is None
    done = (claim.current_folder(folder) / "metrics.jsonl").read_text().count("\n")
    assert 3 <= done < 8 * 8
    first = store.read_json(folder / "attempts" / "0001" / "resume" / "time.0.json")["cpu"]
    assert first > 0
    assert numbers(run(cell)) == undisturbed
    assert [known["outcome"][:8] for known in claim.attempts(folder)] == ["Stopped:", "done"]
    both = store.read_json(folder / "provenance.json")["training_cpu_seconds"]
    assert first < both < sum(known["cpu_seconds"] for known in claim.attempts(folder))


def take_away(leave: Path, folder: Path) -> None:
    log = folder / "attempts" / "0001" / "metrics.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 3:
        time.sleep(0.002)
    leave.unlink()


def test_a_checkpoint_that_is_not_whole_is_begun_again(source: str, home: Path):
    cell = make(source, training={"epochs": 2})
    undisturbed = numbers(run(cell))
    folder = folder_of(cell)
    whole_log = (folder / "metrics.jsonl").read_text()
    short_log = "".join(whole_log.splitlines(keepends=True)[:2])
    tokens = token_store.open_tokens(prepare_cell_tokens(cell))
    accelerator = train.start_accelerator(cell)
    shared = sharding.share(model.Model(cell, tokens), cell, accelerator)
    schedule = torch.optim.lr_scheduler.LambdaLR(shared.optimizer, lambda _: 1.0)
    checkpoint.save_checkpoint(home, 3, shared, schedule, accelerator)
    whole = (home / "resume" / "state.pt").read_bytes()
    for state, log in ((whole[:5000], whole_log), (b"", whole_log), (whole, None), (whole, short_log)):
        (folder / "TRAINED").unlink()
        earlier = max(folder.glob("attempts/*"))
        (earlier / "resume").mkdir()
        (earlier / "resume" / "state.pt").write_bytes(state)
        if log is not None:
            (earlier / "metrics.jsonl").write_text(log)
        assert numbers(run(cell)) == undisturbed


def test_a_restored_model_gives_the_stored_embeddings(source: str, home: Path):
    for tune in ("full", {"last_blocks": 1}, {"lora": {"r": 2}}):
        cell = make(source, encoder={"tune": tune}, training={"epochs": 2})
        folder = run(cell)
        tokens = token_store.open_tokens(prepare_cell_tokens(cell))
        restored = embed.load_trained_model(cell, folder, tokens)
        test = tokens.splits["test"]
        found = restored.predict(batches.collate(test, np.arange(len(test)), tokens.pad_id, tokens.special_ids))
        with np.load(folder / "embeddings.npz") as arrays, np.load(folder / "predictions.npz") as guesses:
            np.testing.assert_allclose(found.embedding.numpy(), arrays["test"], atol=1e-5)
            np.testing.assert_allclose(found.logits.numpy(), guesses["test.logits"], atol=1e-5)


def test_bf16_trains_and_fp16_without_a_gpu_says_what_to_do(source: str, home: Path):
    run(make(source, training={"precision": "bf16"}))
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="fp16 needs a GPU"):
            run(make(source, training={"precision": "fp16"}))


def test_each_step_draws_other_random_numbers_and_each_process_too(source, home, monkeypatch):
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
        trained_into(home / str(seed), cell, token_store.open_tokens(prepare_cell_tokens(cell)))
    train.seed_step(0, 0, 1)
    assert len({*drawn, float(torch.rand(()))}) == len(drawn) + 1 == 2 * 8 + 1


NO_DROPOUT = {"tune": {"last_blocks": 0, "frozen_dropout": False}, "dropout": 0.0}


def test_the_gradient_of_a_step_is_the_mean_over_its_batches(source: str, home: Path):
    """Eight texts train a model as much in two batches as in one; AdamW would hide a sum, whose size it forgets."""

    def first_step(batch_size: int, accumulate: int) -> dict[str, float]:
        one_step = {"batch_size": batch_size, "accumulate": accumulate}
        cell = make(source, encoder=NO_DROPOUT, data={"train": 8}, training=one_step)
        curve: list[dict[str, float]] = numbers(run(cell))["curve"]
        return {name: curve[0][name] for name in ("loss", "gradient_norm")}

    assert first_step(4, 2) == pytest.approx(first_step(8, 1), rel=1e-5)


def test_training_ends_with_the_schedule_also_at_another_seed_that_has_the_order_of_this_one(source: str, home: Path):
    cell = make(source, loss="ce+supcon", training={"epochs": 2, "order_seed": 0})
    undisturbed = numbers(run(cell))
    curve = undisturbed["curve"]
    steps = train.count_steps(cell, token_store.open_tokens(prepare_cell_tokens(cell)))
    assert len(curve) == steps
    assert curve[-1]["lr.head"] == pytest.approx(1e-2 / (steps - np.ceil(steps / 10)))  # the last of linear
    other = numbers(run(cell.model_copy(update={"seed": 1})))
    assert other != undisturbed and len(other["curve"]) == len(curve)


def test_the_rate_warms_up_falls_and_is_never_zero():
    training = Training(warmup=0.25)
    rates = [train.learning_rate_factor(done, 8, training) for done in range(8)]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert all(train.learning_rate_factor(done, 8, Training(schedule="cosine")) > 0 for done in range(8))
