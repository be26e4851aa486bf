"""`ablate bisect` for real, in a clone with commits of which one does harm and one cannot be measured."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

from contrastive.errors import UserError
from contrastive.experiment.load import load_experiment
from flows.night.bisection import check_ends_differ, difference_between, first_bad, judged, metric_of, search
from flows.night.panel import expected, failures
from reports.nightly.measured import Metric, Night
from reports.nightly.settings import Nightly
from tests.e2e.conftest import Ablate
from tests.e2e.planted import SETTINGS, copy_of_the_code, harm, panel
from tests.reports.made import made, put


def git(code: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(code), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(code: Path, subject: str) -> str:
    git(code, "add", "--all")
    git(code, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(code, "rev-parse", "--short", "HEAD")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("home")
    (home / "verdict.yaml").write_text(yaml.safe_dump(SETTINGS))
    return {"home": home, "code": copy_of_the_code(tmp_path_factory.mktemp("code")), "panel": panel(home)}


def bisect(ablate_in: Ablate, place: dict[str, Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    home, options = place["home"], ("--settings", place["home"] / "verdict.yaml", "--engine", "inline")
    return ablate_in(
        home, "bisect", *arguments, "--panel", place["panel"], *options, code=place["code"], cwd=place["home"]
    )


@pytest.mark.e2e
@pytest.mark.full
def test_the_commit_that_does_harm_is_named(place, ablate_in):
    code = place["code"]
    good = commit(code, "as it should be")
    (code / "notes").write_text("1")
    commit(code, "harmless")
    broken = code / "contrastive/cells/grid.py"
    text = broken.read_text()
    broken.write_text("raise RuntimeError\n")
    commit(code, "cannot be measured")
    broken.write_text(text)
    commit(code, "can again")
    harm(code)
    wanted = commit(code, "does harm")
    (code / "notes").write_text("a tree that is not clean")
    found = bisect(ablate_in, place, "test.accuracy", good, "HEAD")
    assert found.returncode == 0, found.stderr
    assert "cannot be measured skipped" in found.stdout, found.stdout
    assert wanted in found.stdout and "is the first commit" in found.stdout.splitlines()[-1], found.stdout
    assert len(git(code, "worktree", "list").splitlines()) == 1
    assert (code / "notes").read_text() == "a tree that is not clean" and git(code, "rev-parse", "HEAD")
    assert not (place["home"] / "bisect").exists()


@pytest.mark.e2e
@pytest.mark.full
def test_what_cannot_be_searched_is_said_in_words(place, ablate_in):
    turned = bisect(ablate_in, place, "test.accuracy", "HEAD", "HEAD~2")
    assert turned.returncode == 2 and "has to be an ancestor" in turned.stderr
    absent = bisect(ablate_in, place, "test.accuracy", "nowhere", "HEAD")
    assert absent.returncode == 2 and "has no commit nowhere" in absent.stderr


@pytest.mark.parametrize(
    ("skipped", "left"), [([], [3]), ([2], [3, 2]), ([4], [3]), ([3], [4, 3]), ([1, 2, 3, 4], [5, 4, 3, 2, 1])]
)
def test_git_names_the_first_bad_commit_or_all_that_it_may_be(tmp_path, skipped, left):
    """Of commits 0 to 5, where 3 is the first bad one."""
    code = tmp_path / "code"
    subprocess.run(["git", "init", "--quiet", str(code)], check=True)
    commits = [git(code, "rev-parse", commit(code, str(number))) for number in range(6)]

    def judge(name: str) -> str:
        number = commits.index(name)
        return "skip" if number in skipped else "bad" if number >= 3 else "good"

    assert [commits.index(name) for name in first_bad(code, commits[0], commits[5], judge)] == left


def test_an_unknown_metric_is_answered_with_the_nearest_one():
    values = {"test.accuracy": np.ones(2), "training_seconds": np.ones(2)}
    measured = Night("", "", values, document={"directions": {"test.accuracy": True}})
    with pytest.raises(UserError, match="measures no test.acuracy; do you mean test.accuracy"):
        metric_of("test.acuracy", measured, Nightly(**SETTINGS))
    assert not metric_of("training_seconds", measured, Nightly(**SETTINGS)).higher_is_better


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("test.acuracy", {}, "do you mean test.accuracy"),
        ("test.accuracy @ ci", {}, "do you mean test.accuracy @ ce"),
        ("test.accuracy", {"seeds": [0]}, "has 1 of the three seeds"),
    ],
)
def test_what_the_file_of_the_panel_tells_is_said_before_anything_runs(tmp_path, name, change, said):
    path = panel(tmp_path)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(UserError, match=said):
        search(name, "HEAD", "HEAD", path, tmp_path / "no settings", "inline")


def test_what_a_panel_may_measure_covers_its_configurations_vectors_and_timings(tmp_path):
    path = panel(tmp_path)
    content = yaml.safe_load(path.read_text())
    content["evaluation"] |= {"post": ["whiten"]}
    path.write_text(yaml.safe_dump(content))
    wanted = {"test.accuracy", "whiten/test.macro_f1", "training_seconds", "whiten/test.accuracy @ ce"}
    assert wanted <= set(expected(load_experiment(path)))


def test_cells_without_a_result_are_named():
    _, results = made({"ce": {"test.accuracy": [0.7, 0.8]}})
    put(results.cells["ce-0"], status="failed", error="no luck")
    found = failures(results, {"ce": ["ce-0", "ce-1", "absent"]})
    assert found == ["ce, seed number 1: failed: no luck", "ce, seed number 3: not in MLflow: "]


def test_ends_that_do_not_differ_are_no_search():
    settings, values = Nightly(**SETTINGS), np.array([0.8, 0.7, 0.9])
    metric = Metric("test.accuracy", True, settings.quality["test.accuracy"])
    for other in (values, values + 0.005, values - 0.2, values + np.array([0.5, -0.5, 0.1])):
        with pytest.raises(UserError, match="does not differ between A and B"):
            check_ends_differ(metric, difference_between(metric, values, other), settings, "A", "B")
    check_ends_differ(metric, difference_between(metric, values, values - 0.2, texts=100), settings, "A", "B")


@pytest.mark.parametrize(
    ("harmed", "word"), [(0.0, "good"), (0.08, "good"), (0.12, "bad"), (0.2, "bad"), (-0.1, "good")]
)
def test_a_commit_is_on_the_side_of_the_nearer_end(harmed, word):
    """By the mean over its seeds, which scatter round it: one that lost a little is not the one that is searched."""
    at_good, scatter = np.array([0.8, 0.7, 0.9]), np.array([0.01, -0.02, 0.01])
    metric = Metric("test.accuracy", True, Nightly(**SETTINGS).quality["test.accuracy"])
    whole = difference_between(metric, at_good, at_good - 0.2 + scatter)
    assert judged("HEAD", lambda: at_good - harmed + scatter, metric, at_good, whole) == word


def test_a_commit_that_cannot_be_measured_is_skipped_and_why_is_said(capsys):
    def fails() -> np.ndarray:
        raise UserError("the panel failed\nno such loss")

    metric = Metric("test.accuracy", True, Nightly(**SETTINGS).quality["test.accuracy"])
    values = np.array([0.8, 0.7, 0.9])
    whole = difference_between(metric, values, values - 0.2, texts=100)
    assert judged("HEAD", fails, metric, values, whole) == "skip"
    printed = capsys.readouterr()
    assert "skipped: no such loss" in printed.out + printed.err
