"""What a grid says of itself where nobody watches a bar."""

from queue import SimpleQueue
from threading import Timer

import pytest

from contrastive.grid.load import parse_experiment
from contrastive.grid.status import Status
from contrastive.training.job import TrainRequest
from flows.progress import Progress
from tasks.cell import Job
from tests.contrastive.grid.examples import ONE


def job(steps: int, done: int, name: str) -> Job:
    experiment = parse_experiment(ONE)
    cell, of = experiment.cells[0], experiment.experiment
    made = Job(Status(cell, "a0", "run"), "x", [], TrainRequest(cell, name, 1, of.evaluation, of.speed), 60, steps)
    made.curves.lines = done
    return made


def test_while_nothing_ends_a_line_says_how_far_cells_are(capfd: pytest.CaptureFixture[str]):
    ended: SimpleQueue[str] = SimpleQueue()
    with Progress(5, 1, steps=200) as progress:
        progress.every = 0.05
        progress.began -= 120.0
        working = [job(80, 30, "ce · seed 0"), job(40, 20, "rdrop · seed 0")]
        Timer(0.5, ended.put, ["it ended"]).start()
        assert progress.next_ended(ended, working, str) == "it ended"
        progress.ended(working[0], "done")
    first, line, *_, last = capfd.readouterr().err.splitlines()
    assert first == "5 cells, 1 of them finished before"
    at_work = "ce · seed 0, step 30 of 80; rdrop · seed 0, step 20 of 40"
    assert line == f"2.0 min: 1 of 5 cells have ended, about 6.0 min left, running: {at_work}"
    assert last == "[2/5] ce · seed 0: done"
    assert progress.steps_ended == 80
