"""Curves reach MLflow while a cell trains, each point once, also where a second attempt goes over old ground."""

import logging
from pathlib import Path

import pytest
from mlflow import MlflowClient

from contrastive.runs import claim, store
from tasks import record, tracking
from tasks.record import CurveWriter
from tests.recorded import cell_folder


def line(step: int) -> str:
    return f'{{"step": {step}, "epoch": 0, "loss": {1 / (step + 1)}}}\n'


def steps(home: Path) -> list[int]:
    client = MlflowClient(tracking_uri=tracking.tracking_uri(home))
    (run,) = client.search_runs([tracking.experiment_id(client, "small")])
    return [metric.step for metric in client.get_metric_history(run.info.run_id, "loss")]


def log_of(attempt: str) -> Path:
    path = store.run_folder("cell") / "attempts" / attempt / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def writer() -> CurveWriter:
    return CurveWriter("small", store.run_folder("cell"), "ce · seed 0")


def test_curves_arrive_while_a_cell_trains_and_no_point_twice(home: Path):
    sender = writer()
    assert sender.send_new() is None  # nothing has begun, and so nothing hangs
    log_of("0001").write_text("".join(map(line, range(10))) + line(10)[:9])  # the last one is still being written
    begun = sender.send_new()
    assert begun == ("0001", sum(len(line(step)) for step in range(10))) and steps(home) == list(range(10))
    assert sender.send_new() == begun
    log_of("0002").write_text("".join(map(line, range(6))))  # of the checkpoint that it goes on from
    assert sender.send_new() != begun and steps(home) == list(range(10))
    with open(log_of("0002"), "a") as log:
        log.write("".join(map(line, range(6, 12))))
    sender.send_new()
    assert steps(home) == list(range(12))


def test_a_log_that_is_cut_where_its_checkpoint_was_taken_is_read_from_there(home: Path):
    """An attempt begins with the whole log of an earlier one, and reads the checkpoint a moment later."""
    sender = writer()
    log_of("0001").write_text("".join(map(line, range(10))))
    assert sender.send_new() == ("0001", len("".join(map(line, range(10))))) and steps(home) == list(range(10))
    store.write_atomic(log_of("0001"), "".join(map(line, range(4))))
    sender.send_new()
    with open(log_of("0001"), "a") as log:
        log.write("".join(line(step).replace(" ", "   ") for step in range(4, 12)))  # what it took is not the same
    sender.send_new()
    assert steps(home) == list(range(12))
    with open(log_of("0001"), "a") as log:
        log.write("another one\n")
    sender.send_new()
    assert steps(home) == list(range(12)) and sender.broken  # what is no line stops the curves, and never the cell
    log_of("0001").unlink()
    assert sender.send_new() is not None


def test_an_attempt_of_before_is_not_the_one_that_is_waited_for(home: Path):
    log_of("0001").write_text(line(0))
    sender = writer()
    assert sender.send_new() is None
    log_of("0002").write_text("")
    assert sender.send_new() == ("0002", 0)
    log_of("0002").rename(store.run_folder("cell") / "metrics.jsonl")  # published
    assert sender.send_new() == ("0002", 0)


def test_what_arrived_while_it_trained_is_not_sent_again_at_its_end(home: Path):
    folder = cell_folder("c0s0", "ce", 0, 0.75)
    whole = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    sender = CurveWriter("small", folder, "ce · seed 0")
    (folder / "attempts" / "0001").mkdir(parents=True)
    (folder / "attempts" / "0001" / "metrics.jsonl").write_text("".join(whole[:10]))
    sender.send_new()
    (folder / "attempts" / "0001" / "metrics.jsonl").unlink()
    assert claim.current_folder(folder) == folder
    client = tracking.open_tracker(home)
    record.record_cell(client, "small", folder, [])
    (run,) = client.search_runs([tracking.experiment_id(client, "small")])
    assert run.info.status == "FINISHED"
    assert [m.step for m in client.get_metric_history(run.info.run_id, "loss")] == list(range(30))


def test_a_failure_of_tracking_is_logged_once_without_a_password_and_stops_no_training(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hush-hush@127.0.0.1:1")  # where nobody listens
    sender = writer()
    log_of("0001").write_text(line(0))
    with caplog.at_level(logging.WARNING, logger=tracking.logger.name):
        sender.send_new()
        log_of("0001").write_text(line(0) + line(1))
        assert sender.send_new() == ("0001", len(line(0) + line(1)))
    assert [record.name for record in caplog.records].count(tracking.logger.name) == 1
    assert "the curves of ce" in caplog.text and "hush-hush" not in caplog.text
