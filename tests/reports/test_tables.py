"""Tables by hand: pivots, bold, what is missing, text that would break Markdown, and rows of further vectors."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import RecordedGrid, RecordedRow, RecordedSection, Reference
from reports import tables
from reports.compare import compare
from reports.findings import same_note
from reports.markdown import code, plain
from reports.study import Kind, Results, study_of
from tests.recorded import SETTINGS
from tests.reports.made import made, put
from tests.reports.made import section as section_of

MEASURED = {"a0": (0.7, 0.5), "a1": (0.9, 0.3), "b0": (0.8, 0.6), "b1": (0.80004, 0.6), "c0": (0.6, 0.2)}
SCORES = {cell: {"test.accuracy": accuracy, "test.loss": loss} for cell, (accuracy, loss) in MEASURED.items()}


def results(evaluation: dict | None = None, **scores: dict[str, float]) -> Results:
    empty = pd.DataFrame()
    kinds = {name: Kind(name != "test.loss") for name in ("test.accuracy", "test.loss")}
    parts = [{"title": "A section", "rows": {"ce": {"loss": "ce"}}}]
    experiment = Experiment(name="small", sections=parts, evaluation=evaluation or {}, **SETTINGS)
    grid = RecordedGrid(experiment, [], [Reference("TF-IDF", "", {"test.accuracy": 0.5})])
    return Results(study_of(grid), {}, pd.DataFrame(scores or SCORES).T, empty, {}, kinds)


def row(label: str, *cells: str, baseline: bool = False, **axes: object) -> RecordedRow:
    return RecordedRow(label, axes, baseline, "", list(cells), list(range(len(cells))))


def section(*rows: RecordedRow, values: tuple[str, ...] = ("test.accuracy",), **table: Any) -> RecordedSection:
    return section_of(list(rows), values, **table)


def tables_of(part: RecordedSection, known: Results) -> list[list[str]]:
    """The lines of each table of a section, below its caption."""
    found = tables.section_tables(compare(part, known), known)
    return [[*([str(table.caption)] if table.caption else []), *table.markdown().splitlines()] for table in found]


def lines(part: RecordedSection, **scores: dict[str, float]) -> list[str]:
    table, *_below = tables_of(part, results(**scores))
    return table


def test_a_list_has_a_row_a_configuration_and_a_column_a_value():
    part = section(row("a", "a0", "a1", baseline=True), row("c", "c0"), values=("test.accuracy", "test.loss"))
    assert lines(part) == [
        "| Configuration | accuracy (test), % | loss (test) |",
        "| :-- | --: | --: |",
        "| a (baseline) | 80 (14) | 0.40 (0.14) |",
        "| c | 60 | 0.20 |",  # one seed has no spread, and nothing is ranked beside it
        "| *TF-IDF* | 50 | – |",
    ]


def test_what_is_tied_with_the_best_is_bold():
    part = section(row("a", "a0", "a1"), row("b", "b0", "b1"), row("d", "d0", "d1"))
    far = {"d0": {"test.accuracy": 0.1, "test.loss": 1}, "d1": {"test.accuracy": 0.10000001, "test.loss": 1}}
    near = {"b0": {"test.accuracy": 0.9, "test.loss": 1}, "b1": {"test.accuracy": 0.90000003, "test.loss": 1}}
    found = lines(part, **(SCORES | far | near))
    assert [line.count("**") for line in found] == [0, 0, 2, 2, 0, 0]
    # one configuration alone is not the best
    assert "**" not in "".join(lines(section(row("a", "a0", "a1"))))


def test_a_pivot_of_two_axes():
    places = (("a0", 4, 0.2), ("a1", 4, 0.5), ("b0", 16, 0.2))
    rows = [row(f"k={k} · α={alpha}", cell, k=k, alpha=alpha) for cell, k, alpha in places]
    part = section(row("ce", "c0", baseline=True), *rows, rows="k", columns="alpha")
    assert lines(part) == [
        "accuracy (test), %",
        "| K \\\\ α | 0.2 | 0.5 |",
        "| :-- | --: | --: |",
        "| 4 | 70.00 | 90.00 |",
        "| 16 | 80.00 | – |",
    ]
    # the axis that is not named is found
    part = section(row("x", "a0", k=4, alpha=0.2), row("y", "b0", k=8, alpha=0.2), columns="alpha")
    assert lines(part)[1] == "| K \\\\ α | 0.2 |"
    # with a third axis there is only the list
    both = [row(loss, cell, k=4, alpha=0.2, loss=loss) for loss, cell in (("supcon", "a0"), ("dcl", "b0"))]
    part = section(*both, rows="k", columns="alpha")
    assert lines(part)[:2] == ["Each configuration", "| Configuration | accuracy (test), % |"]
    # what was not measured is a dash
    part = section(row("none", "nowhere"), row("a", "a0"), values=("test.nothing",))
    for scores in ({}, {"a0": {"test.accuracy": float("nan")}}):
        assert [line.split("|")[2].strip() for line in lines(part, **scores)[2:]] == ["–", "–"]


HOSTILE = ("../../x", "<script>alert(1)</script>", "a|b\nc", "`code` ```", "$(rm -rf .) $x^2$", "# head", "- item")
HOSTILE += ("[a](javascript:alert(1)) ![b](http://x/y.png)", "**bold** _it_ __bold__ a_b_c ~~no~~ <br> &lt;")
HOSTILE += ("a \\| b \\", "1. one", "---")


def shown(text: str) -> tuple[str, set[str]]:
    """What a reader sees of Markdown, and the kinds of markup that it holds."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [part for token in tokens if token.type == "inline" for part in token.children or []]
    kinds = {token.type for token in (*tokens, *inline)} - {"inline", "text", "paragraph_open", "paragraph_close"}
    pieces = [piece for part in inline for piece in (part.children if part.type == "image" else [part])]
    return "".join(piece.content for piece in pieces), kinds


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_as_it_is_wherever_it_stands(text: str):
    expected = re.sub(r"\s+", " ", text)
    assert shown(plain(text)) == (expected, set())
    assert shown(code(text)) == (expected, {"code_inline"})
    assert shown(f"![{plain(text)}](figures/a.png)") == (expected, {"image"})
    heading, kinds = shown(f"## {plain(text)}")
    assert heading == expected and kinds == {"heading_open", "heading_close"}
    part = section(row(text, "a0", loss=text, view="v"), rows="loss", columns="view")
    parsed = MarkdownIt("commonmark").enable("table").parse("\n".join(lines(part)[1:]))
    cells = [token.content for token in parsed if token.type == "inline"]
    assert len(cells) == 4 and shown(cells[2])[0] == expected


FURTHER = {"vectors": ["mean"], "post": ["whiten:2"]}
OF_ROWS = {
    "a0": {"test.ari": 0.1, "mean/test.ari": 0.2, "whiten:2/test.ari": 0.3, "mean/whiten:2/test.ari": 0.4},
    "b0": {"test.ari": 0.5, "mean/test.ari": 0.6, "whiten:2/test.ari": 0.7, "mean/whiten:2/test.ari": 0.8},
}


def test_each_post_processing_of_a_cell_is_its_own_row():
    part = section(row("a", "a0", baseline=True), row("b", "b0"), values=("test.ari",))
    kinds = ("", " · whiten:2", " · mean", " · mean/whiten:2")
    expected = zip([f"{label}{kind}" for label in "ab" for kind in kinds], (1, 3, 2, 4, 5, 7, 6, 8), strict=True)
    lines_of = [f"| {name} | 0.{tenth} |".replace("| a |", "| a (baseline) |") for name, tenth in expected]
    found = tables_of(part, results(FURTHER, **OF_ROWS))[0][2:]
    assert [" | ".join(line.split(" | ")[:2]) + " |" for line in found] == lines_of
    # what the head says has one row a cell
    part = section(row("a", "a0"), row("b", "b0"))
    of_head = results(FURTHER, a0={"test.accuracy": 0.1}, b0={"test.accuracy": 0.2})
    assert len(tables_of(part, of_head)[0]) == 2 + 2 + 1
    # a pivot shows the trained vectors alone
    one = section(row("a", "a0", k=1, alpha=0), row("b", "b0", k=1, alpha=1), values=("test.ari",), columns="alpha")
    (line,) = tables_of(one, results({"vectors": [], "post": ["whiten:2"]}, **OF_ROWS))[0][3:]
    assert line == "| 1 | 0.1 | 0.5 |"


def test_what_commands_or_deceives_a_reader_is_shown_as_what_it_is():
    """Escape, bell, NUL, C1, an override of the direction of text, and half of a character, which cannot be written."""
    for way in (plain, code):
        told = way("a\x1b[31m\x07\x00\x9b\u202e\ud800b")
        assert told.isprintable() and told.encode()
        assert all(name in told for name in ("u001b", "u0007", "u0000", "u009b", "u202e", "ud800"))


NAME, SEEDS = "test.svm_accuracy", 5


def measured() -> tuple[RecordedSection, Results]:
    """Whitened vectors are worse than those that trained, by little, at each seed; layer 1 lies below what trains."""
    random = np.random.default_rng(2)
    values = {}
    for label, mean in (("ce", 0.6), ("new", 0.62), ("other", 0.61)):
        plain = mean + 0.02 * random.normal(size=SEEDS)
        whitened = plain - 0.03 + 0.001 * random.normal(size=SEEDS)
        below = [0.5] * SEEDS
        values[label] = {NAME: list(plain), f"whiten:2/{NAME}": list(whitened), f"layer:1:mean/{NAME}": below}
    part, results = made(values)
    put(part.show.table, values=(NAME,))
    put(results.study, variants=("", "whiten:2/", "layer:1:mean/", "layer:1:mean/whiten:2/"))
    return part, results


def test_further_vectors_are_compared_with_those_that_trained_the_same_cells():
    found = {score.row.label: (score, score.comparison) for score in compare(*measured()).scores}
    score, comparison = found["new · whiten:2"]
    assert comparison.against.label == "new" and score.verdict == "worse"
    assert found["ce · whiten:2"][0].verdict == "worse" and found["new"][0].verdict == "undecided"
    assert comparison.half_width < found["new"][1].half_width / 3
    assert not any(score.bold for label, (score, _) in found.items() if "whiten" in label)


def test_vectors_that_nothing_trained_reaches_are_one_row_and_the_report_says_why(tmp_path: Path):
    part, results = measured()
    compared = compare(part, results)
    labels = [row.label for row in compared.rows]
    assert [label for label in labels if "layer:1:mean" in label] == ["any of them · layer:1:mean"]
    assert "layer:1:mean" in next(same_note(compared))
    results.scores.loc["new-3", f"layer:1:mean/{NAME}"] = 0.51
    other = compare(part, replace(results, scores=results.scores.copy()))
    assert len([row for row in other.rows if "layer:1:mean" in row.label]) == 3


def test_of_very_many_cells_the_table_of_seeds_is_left_out(monkeypatch):
    part, results = made({"ce": {"test.accuracy": [0.7, 0.71]}, "rdrop": {"test.accuracy": [0.72, 0.7]}})
    section = compare(part, results)
    assert tables.seeds_table(section, results) is not None
    monkeypatch.setattr(tables, "MOST_SEEDS", 3)
    assert tables.seeds_table(section, results) is None
