"""The committed reports say only what the numbers beside them say, and nothing of the machine they came from."""

import re
from pathlib import Path

from reports.claims import contradictions

OUTPUT = Path(__file__).parents[2] / "reports" / "output"
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|root|Users|tmp|work|mnt|data|var|opt|usr|srv)/|\b[A-Z]:\\\\")


def test_a_committed_report_makes_no_false_claim_and_names_no_absolute_path():
    folders = sorted(path.parent for path in OUTPUT.glob("*/comparisons.csv"))
    assert "quickstart" in [folder.name for folder in folders]
    for folder in folders:
        assert contradictions(folder) == []
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".csv", ".html", ".svg"):
                found = ABSOLUTE.search(path.read_text(encoding="utf-8"))
                assert found is None, f"{path} names {found and found[0]}"
