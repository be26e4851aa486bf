"""Small reports are byte for byte what they were, and the committed one is true and names no absolute path.

`python -m tests.reports.test_golden` writes the small reports again, after a change that is meant.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contrastive.runs.recorded import Reference, Stopping
from reports.build import write_report
from reports.looks import replay_looks, rows_at
from reports.messages import Language
from tests.reports.made import contradictions, made, put

GOLDEN = Path(__file__).parent / "golden"
OUTPUT = Path(__file__).parents[2] / "reports" / "output"
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|root|Users|tmp|work|mnt|data|var|opt|usr|srv)/|\b[A-Z]:\\\\")


def pivot(folder: Path, seeds: int) -> None:
    """One grid of two axes with its baseline, on texts of which each is known, and a score that counts down."""
    random = np.random.default_rng(7)
    easy = random.normal(size=80)
    shares = {"ce": 0.0, "k=4 · α=0.2": 0.1, "k=4 · α=0.5": 0.0, "k=8 · α=0.2": 1.6, "k=8 · α=0.5": -1.5}
    right = {
        label: easy + share + 0.3 * random.normal(size=(seeds, 80)) + 0.05 * random.normal(size=(seeds, 1)) > -0.6
        for label, share in shares.items()
    }
    values = {
        label: {"test.accuracy": list(each.mean(1)), "test.ece": list(0.1 + 0.01 * random.normal(size=seeds))}
        for label, each in right.items()
    }
    axes = {label: {"k": int(label[2]), "alpha": float(label[-3:])} for label in shares if label != "ce"}
    _, results = made(values, right, ("test.ece",), axes=axes, rows="k", columns="alpha")
    write_report(results, folder)


def study(folder: Path, language: Language = "en") -> None:
    """One that stopped by itself, with unlike numbers of seeds, a reference, and scores on two transfer data sets."""
    random = np.random.default_rng(7)
    means = {"ce": 0.7, "clear": 0.9, "near": 0.706, "wide": 0.71}
    names = {"test.accuracy": 0.0, "transfer.reviews.accuracy": 0.1, "transfer.cola.accuracy": -0.2}
    values = {
        label: {name: list(mean + add + 0.004 * random.normal(size=8)) for name, add in names.items()}
        for label, mean in means.items()
    }
    for found in values.values():
        found["transfer.mean"] = list(np.mean([each for name, each in found.items() if "transfer" in name], axis=0))
    part, results = made(values)
    transfer = ("transfer.reviews.accuracy", "transfer.cola.accuracy", "transfer.mean")
    put(results.study, transfer=transfer, description="A study, with *notes*.", language=language)
    put(part.show, transfer=True, table=part.show.table.model_copy(update={"values": ("test.accuracy",)}))
    followed = replay_looks(part, results, 8)
    stopping = Stopping(8, {part.title: followed.looks}, {part.title: followed.ended})
    references = [Reference("TF-IDF", "", {"test.accuracy": 0.6, "transfer.cola.accuracy": 0.55})]
    put(results.study, sections=[rows_at(part, followed.seeds)], stopping=stopping, references=references)
    write_report(results, folder)


# folder below golden → what writes the report
REPORTS: dict[str, Callable[[Path], None]] = {
    "pivot": partial(pivot, seeds=5),
    "one_seed": partial(pivot, seeds=1),
    "study": study,
    "chinese": partial(study, language="zh"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_small_report_is_as_it_was(name: str, tmp_path: Path):
    REPORTS[name](tmp_path)
    assert (tmp_path / "README.md").read_bytes() == (GOLDEN / name / "README.md").read_bytes()
    assert contradictions(tmp_path) == []


def test_a_chinese_report_has_no_english_sentence(tmp_path: Path):
    study(tmp_path, "zh")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    shown = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", "\n", page, flags=re.DOTALL)
    alternatives = re.findall('alt="([^"]*)"', page)
    for text in (shown, *alternatives, (tmp_path / "README.md").read_text(encoding="utf-8")):
        written = text.replace("A study, with *notes*.", "").replace("A study, with \\*notes\\*.", "")
        assert not re.search(r"(?:\b[A-Za-z]{2,}[ ,]+){3}", re.sub("`[^`]*`", "", written)), written
    assert '<html lang="zh">' in page and "zh" not in {path.suffixes[0][1:] for path in tmp_path.rglob("*.*")}


@pytest.mark.parametrize("name", ["pivot", "study"])
def test_brackets_are_deviations_over_seeds_and_no_level_has_an_interval(name: str, tmp_path: Path):
    REPORTS[name](tmp_path)
    values = pd.read_csv(tmp_path / "results.csv").groupby(["score", "label"])["value"].apply(np.array)
    for file in ("README.md", "index.html"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count("Parentheses: standard deviation.") == text.count("±: 95 % interval, all rows at once.") == 1
        unsigned = re.findall(r"(?<![+−\d.])(\d[\d.]*)\s±", text)
        assert all(float(number) == 0 for number in unsigned), unsigned
        for (score, label), numbers in values.items():
            scale = 1 if score == "transfer.mean" else 100
            mean, deviation = (round(scale * size, 10) for size in (numbers.mean(), numbers.std(ddof=1)))
            assert any(f"{mean:.{places}f} ({deviation:.{places}f})" in text for places in range(1, 5)), (score, label)


def test_numbers_that_do_not_follow_are_found(tmp_path: Path):
    """What the other tests of this folder and the fuzzer rely on."""
    pivot(tmp_path, seeds=5)
    whole = pd.read_csv(tmp_path / "comparisons.csv", keep_default_na=False)
    for column, value in {
        "mean": 0.9,
        "deviation": 1e-4,
        "difference": 0.5,
        "verdict": "equivalent",
        "p": 0.0,
    }.items():
        place = whole.index[whole["verdict"] == "undecided"][0]
        forged = whole.astype({column: object})
        forged.loc[place, column] = value
        forged.to_csv(tmp_path / "comparisons.csv", index=False)
        assert contradictions(tmp_path), column


def test_a_committed_report_is_what_its_numbers_say_and_names_no_absolute_path():
    folders = sorted(path.parent for path in OUTPUT.glob("*/comparisons.csv"))
    assert "quickstart" in [folder.name for folder in folders]
    for folder in folders:
        assert contradictions(folder) == []
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".csv", ".html", ".svg"):
                found = ABSOLUTE.search(path.read_text(encoding="utf-8"))
                assert found is None, f"{path} names {found and found[0]}"


if __name__ == "__main__":
    import tempfile

    for name, write in REPORTS.items():
        (GOLDEN / name).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            (GOLDEN / name / "README.md").write_bytes((Path(folder) / "README.md").read_bytes())
    sys.stdout.write(f"written: {GOLDEN}\n")
