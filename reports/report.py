"""The content of a report, section by section; build.py writes it as Markdown and HTML, paper.py as LaTeX."""

from dataclasses import dataclass
from pathlib import Path

from contrastive.runs.recorded import RecordedSection
from reports import figures, tables
from reports.compare import Section
from reports.figures import Figure, LeftOut
from reports.findings import not_shown, reading, sentences, several_names, tuning
from reports.guards import general
from reports.guards.rows import Guard
from reports.looks import compare_section
from reports.messages import LANGUAGES, Text
from reports.overview import Overview, overview
from reports.provenance import class_tables, footer, row_tables
from reports.section_effects import explained, level_means
from reports.statistics.effects import Effect
from reports.study import Results, Study
from reports.tables import Table


@dataclass(frozen=True)
class SectionReport:
    """Content of a section in README.md and the page, in reading order."""

    recorded: RecordedSection
    anchor: str
    notes: list[Text]
    tables: list[Table]
    sentences: list[Text]
    figures: list[Figure | LeftOut]
    section: Section
    forbidding: list[Text]  # the notes that forbid ranking
    limits: list[Guard]
    effects: list[Effect]


def section_report(section: RecordedSection, name: str, results: Results, folder: Path) -> SectionReport:
    """Compare and draw one section. `name` is its anchor and the prefix of its files."""
    fired, compared = compare_section(section, results)
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    running = results.progress is not None
    effects = [] if running else explained(compared, results)
    limits = [] if running else tuning(compared, results)
    shown = [
        *tables.section_tables(compared, results),
        tables.comparison_table(compared),
        *tables.across(compared, results),
        *tables.effects_tables(effects),
        *tables.levels_tables(level_means(effects, compared, results)),
        tables.seeds_table(compared, results),
    ]
    return SectionReport(
        section,
        name,
        [guard.words for guard in fired],
        [table for table in shown if table is not None],
        [*(guard.words for guard in limits), *sentences(compared), *tables.cells_left_out(compared)],
        [] if "range" in blocking else figures.draw(compared, results, folder, name),
        compared,
        [guard.words for guard in fired if guard.blocks_ranking],
        limits,
        effects,
    )


@dataclass(frozen=True)
class Report:
    """Content of a whole report."""

    study: Study
    summary: Overview
    forests: dict[str, Figure | LeftOut | None]  # by language
    notes: list[Text]
    sections: list[SectionReport]
    overview_figures: list[Figure | LeftOut]
    reading: list[Text]
    data: list[Table]
    footer: list[Text]
    linked: bool  # whether numbers have pages of their runs in MLflow


def report_of(results: Results, names: list[str], folder: Path) -> Report:
    """Draw the figures into a folder and collect the content. `names`: prefix of each section's files."""
    sections = [
        section_report(part, name, results, folder) for part, name in zip(results.study.sections, names, strict=True)
    ]
    limits = [guard for section in sections for guard in section.limits]
    notes = [guard.words for guard in general(results)]
    forbidding = [words for section in sections for words in section.forbidding]
    warnings = len(notes) + sum(len(section.notes) for section in sections)
    summary = overview(results, [part.section for part in sections], names, limits, warnings, forbidding)
    return Report(
        results.study,
        summary,
        {name: figures.draw_first(summary, folder, name) for name in LANGUAGES},
        notes,
        sections,
        figures.overview(results, folder),
        [*reading(results), *several_names(results), *not_shown(results)],
        [*class_tables(results), *row_tables(results)],
        footer(results),
        any(run.run_id for run in results.cells.values()),
    )
