"""What a grid says of itself where nobody watches a bar."""

from queue import SimpleQueue

import pytest

from contrastive.grid.load import parse_experiment
from contrastive.grid.status import Status
from contrastive.training.job import TrainRequest
from flows.progress import Progress, minutes
from tasks.cell import Job
from tests.contrastive.grid.examples import ONE


def job(steps: int, done: int, name: str) -> Job:
    experiment = parse_experiment(ONE)
    cell, of = experiment.cells[0], experiment.experiment
    made = Job(Status(cell, "a0", "run"), "x", [], TrainRequest(cell, name, 1, of.evaluation, of.speed), 60, steps)
    made.curves.lines = done
    return made


class Ending(Progress):
    """Something ends as soon as a line was said."""

    ended_next: SimpleQueue[str] = SimpleQueue()

    def show(self, at_work):
        super().show(at_work)
        self.ended_next.put("it ended")


def test_while_nothing_ends_a_line_says_how_far_cells_are(capfd: pytest.CaptureFixture[str]):
    with Ending(5, 1, steps=200, seconds_between_lines=0.0) as progress:
        progress.began -= 120.0
        working = [job(80, 30, "ce · seed 0"), job(40, 20, "rdrop · seed 0")]
        assert progress.next_ended(progress.ended_next, working) == "it ended"
        progress.job_ended(working[0])
    first, line = capfd.readouterr().err.splitlines()
    assert first == "5 cells, 1 of them finished before"
    at_work = "ce · seed 0, step 30 of 80; rdrop · seed 0, step 20 of 40"
    assert line == f"2 min: 1 of 5 cells have ended, about 6 min left; running: {at_work}"
    assert progress.steps_ended == 80


def test_times_are_said_as_people_say_them():
    said = ", ".join(minutes(seconds) for seconds in (4.2, 89.0, 91.0, 150.1, 3600.0))
    assert said == "4 s, 89 s, 2 min, 3 min, 60 min"
