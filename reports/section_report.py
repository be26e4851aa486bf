"""All that a report says of one section."""

from dataclasses import dataclass
from pathlib import Path

from contrastive.runs.recorded import RecordedSection
from reports import figures, tables
from reports.compare import Section
from reports.figures import Figure, LeftOut
from reports.findings import same_note, sentences, unequal_note
from reports.guards.section_cells import Guard
from reports.guards.tuning import tuning
from reports.load import Results
from reports.looks import judge_section
from reports.messages import Said
from reports.section_effects import Effect, explained, level_means
from reports.tables import Table


@dataclass(frozen=True)
class SectionReport:
    """What README.md and the page say of a section, in the order of reading."""

    recorded: RecordedSection
    anchor: str
    notes: list[Said]
    tables: list[Table]
    sentences: list[Said]
    figures: list[Figure | LeftOut]
    compared: Section
    forbidding: list[Said]  # the notes that forbid to rank
    limits: list[Guard]
    effects: list[Effect]


def describe(section: RecordedSection, name: str, results: Results, folder: Path) -> SectionReport:
    fired, compared = judge_section(section, results)
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
        [
            *(guard.words for guard in limits),
            *sentences(compared),
            *unequal_note(compared),
            *same_note(compared),
            *tables.cells_left_out(compared),
        ],
        [] if "range" in blocking else figures.draw(compared, results, folder, name),
        compared,
        [guard.words for guard in fired if guard.blocks_ranking],
        limits,
        effects,
    )
