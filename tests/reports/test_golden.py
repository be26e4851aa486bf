"""Small reports, byte for byte: whoever changes a word or a number of one sees what changes for readers.
The committed ones say only what the numbers beside them say, and nothing of the machine they came from.

One has five seeds; the other one seed, with which nothing is called better, nothing is bold and the text says why.

After a change that is meant: `python -m tests.reports.test_golden` writes the texts again.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from reports.bilingual import FILES
from reports.build import write_report
from reports.claims import contradictions
from tests.reports.made import made

GOLDEN = Path(__file__).parent / "golden"
OUTPUT = Path(__file__).parents[2] / "reports" / "output"
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|root|Users|tmp|work|mnt|data|var|opt|usr|srv)/|\b[A-Z]:\\\\")
REPORTS = {"": 5, "one_seed": 1}  # folder below golden, and the number of seeds


def build(folder: Path, seeds: int) -> None:
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


@pytest.mark.parametrize(("place", "seeds"), REPORTS.items())
def test_a_small_report_is_as_it_was(place: str, seeds: int, tmp_path: Path):
    build(tmp_path, seeds)
    for name in FILES.values():
        assert (tmp_path / name).read_text(encoding="utf-8") == (GOLDEN / place / name).read_text(encoding="utf-8")


def test_a_committed_report_makes_no_false_claim_and_names_no_absolute_path():
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

    for place, seeds in REPORTS.items():
        (GOLDEN / place).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), seeds)
            for name in FILES.values():
                (GOLDEN / place / name).write_bytes((Path(folder) / name).read_bytes())
    sys.stdout.write(f"written: {GOLDEN}\n")
