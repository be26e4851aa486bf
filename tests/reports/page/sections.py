"""Sections as the report hands them to the page, from the sample experiment of the figures."""

from pathlib import Path

import numpy as np

from contrastive.runs.recorded import RecordedRow, RecordedSection
from reports import figures
from reports.bilingual import Words
from reports.load import Results
from reports.page import PageSection
from reports.tables import Entry, Table, same
from tests.reports.figures import sample


def of(results: Results, folder: Path) -> list[PageSection]:
    found = []
    for number, section in enumerate(results.grid.sections):
        drawn = figures.draw(section, sample.comparisons(section, results), results, folder, f"section-{number}")
        first = section.rows[0].label
        guards = [Words(f"A guard of {first}.", f"对 {first} 的警告。")]
        findings = [Words(f"Nothing beats {first}.", f"没有配置优于 {first}。")]
        found.append(PageSection(section, f"section-{number}", guards, findings, [table(section, results)], [], drawn))
    return found


def table(section: RecordedSection, results: Results) -> Table:
    values = section.show.table.values
    rows = []
    for row in section.rows:
        label = Entry(same(row.label))
        rows.append([label, *(number(row, value, results) for value in values)])
    return Table(Words("Scores", "得分"), [same("Configuration"), *map(same, values)], rows)


def number(row: RecordedRow, value: str, results: Results) -> Entry:
    mean = float(results.scores[value].reindex(row.cells).mean())
    known = bool(np.isfinite(mean))
    return Entry(same(f"{mean:.4f}" if known else "–"), mean if known else None, row.cells, mean > 0.75)
