"""Everything that a report says, before it is set as Markdown or as a page."""

from dataclasses import dataclass
from pathlib import Path

from contrastive.config.experiment import Experiment
from reports import figures
from reports.data_counts import data_tables
from reports.figures import Figure, LeftOut
from reports.guards import general
from reports.load import Results
from reports.messages import LANGUAGES, Said
from reports.overview import Overview, overview
from reports.provenance import footer, footer_lines
from reports.reading import not_shown, reading, several_names
from reports.section_report import SectionReport, describe
from reports.tables import Table


@dataclass(frozen=True)
class Report:
    experiment: Experiment
    first: Overview
    forests: dict[str, Figure | LeftOut | None]  # of each language
    notes: list[Said]
    sections: list[SectionReport]
    overview: list[Figure | LeftOut]
    reading: list[Said]
    data: list[Table]
    footer: list[Said]


def make_report(results: Results, names: list[str], folder: Path) -> Report:
    """Draw the figures into a folder, and collect what is said. `names`: the beginnings of each section's files."""
    sections = [describe(part, name, results, folder) for part, name in zip(results.grid.sections, names, strict=True)]
    limits = [guard for section in sections for guard in section.limits]
    notes = [guard.words for guard in general(results)]
    forbidding = [words for section in sections for words in section.forbidding]
    warnings = len(notes) + sum(len(section.notes) for section in sections)
    first = overview(results, [section.compared for section in sections], names, limits, warnings, forbidding)
    return Report(
        results.grid.experiment,
        first,
        {name: figures.draw_first(first, folder, name) for name in LANGUAGES},
        notes,
        sections,
        figures.overview(results, folder),
        [*reading(results), *several_names(results), *not_shown(results)],
        data_tables(results),
        footer_lines(footer(results)),
    )
