"""The report while cells are at work: it says so, shows means, and compares nothing."""

import json
from pathlib import Path

from contrastive.runs.recorded import parse_grid
from contrastive.runs.store import report_folder
from tasks import record, tracking
from tasks.render import build_preliminary, build_report
from tests.recorded import cell_folder, grid


def test_means_of_what_has_ended_stand_without_a_verdict_until_the_final_report(home: Path):
    client, document = tracking.open_tracker(home), grid()
    rows = list(enumerate({"ce": 0.70, "ce+supcon": 0.95}.items()))
    cells = [(f"c{row}s{s}", label, s, accuracy + 0.01 * s) for row, (label, accuracy) in rows for s in (0, 1)]
    for name, label, seed, accuracy in cells[:3]:
        record.record_cell(client, "small", cell_folder(name, label, seed, accuracy), ["Recipes"])
    build_preliminary(parse_grid(json.dumps(document).encode(), "small"), 3, 4)
    page = (report_folder("small") / "index.html").read_text()
    text = (report_folder("small") / "README.md").read_text()
    assert "**Preliminary: 3 of 4 cells have ended**" in text and 'http-equiv="refresh"' in page
    assert "70.5" in text and "too early" in text and "Made from the results" not in text
    results, _, _definitions = text.partition("## How to read this")
    assert not any(word in results for word in ("▲ better", "undecided", "main effects", "Missing"))

    record.record_cell(client, "small", cell_folder(*cells[3]), ["Recipes"])
    record.record_grid(client, "small", document)
    build_report("small")
    text = (report_folder("small") / "README.md").read_text()
    assert "Preliminary" not in text and "▲ better" in text and "Made from the results" in text
    assert 'http-equiv="refresh"' not in (report_folder("small") / "index.html").read_text()
