"""The committed reports say only what the numbers beside them say, and nothing of the machine they came from."""

import re
from pathlib import Path

import pytest

from reports.claims import contradictions

OUTPUT = Path(__file__).parents[2] / "reports" / "output"
COMMITTED = sorted(path.parent.name for path in OUTPUT.glob("*/comparisons.csv"))
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|root|Users|tmp|work|mnt|data|var|opt|usr|srv)/|\b[A-Z]:\\\\")


def test_the_quickstart_is_committed():
    assert "quickstart" in COMMITTED


@pytest.mark.parametrize("report", COMMITTED)
def test_a_committed_report_makes_no_false_claim(report: str):
    assert contradictions(OUTPUT / report) == []


@pytest.mark.parametrize("report", COMMITTED)
def test_a_committed_report_names_no_absolute_path(report: str):
    for path in sorted((OUTPUT / report).rglob("*")):
        if path.suffix in (".md", ".csv", ".html", ".svg"):
            found = ABSOLUTE.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path.name} names {found and found[0]}"
