"""All that a report says of one section."""

from dataclasses import dataclass
from pathlib import Path

from contrastive.runs.recorded import RecordedSection
from reports import figures, page, tables
from reports.compare import Section
from reports.findings import findings, same_note, tested, unequal_note
from reports.guards.tuning import tuning
from reports.load import Results
from reports.looks import judge_section
from reports.markdown import MARKDOWN, PAGE, Markup
from reports.messages import Said
from reports.over_data_sets import across
from reports.provenance import section_footer
from reports.section_effects import Effect, explained, level_means


@dataclass(frozen=True)
class SectionReport:
    """All that the report says of a section: in Markdown, on the page, and as tables."""

    title: str
    note: str
    guards: list[Said]
    findings: list[Said]
    tables: list[tables.Table]
    tested: list[Said]
    figures: list[figures.Figure | figures.LeftOut]
    footer: Said | None
    runs: list[tuple[str, str]]  # label and cells of each row
    compared: Section
    limits: list[Said]
    effects: list[Effect]
    on_page: page.PageSection


def describe(section: RecordedSection, name: str, results: Results, folder: Path) -> SectionReport:
    fired, compared = judge_section(section, results)
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    effects = explained(compared, results)
    levels = level_means(effects, compared, results)
    limits = [guard.words for guard in tuning(compared, results)]
    notes = [*(guard.words for guard in fired), *limits, *unequal_note(compared), *same_note(compared)]
    drawn = [] if "range" in blocking else figures.draw(compared, results, folder, name)

    def shown(to: Markup) -> list[tables.Table]:
        comparison = tables.comparison_table(compared, to)
        return [
            *tables.section_tables(compared, results, to),
            *([comparison] if comparison else []),
            *across(compared, results, to),
            *tables.effects_tables(effects, to),
            *tables.levels_tables(levels, to),
        ]

    return SectionReport(
        section.title,
        section.note,
        notes,
        findings(compared, effects),
        shown(MARKDOWN),
        tested(compared),
        drawn,
        section_footer(section, results),
        [(row.label, ", ".join(row.cells)) for row in section.rows],
        compared,
        limits,
        effects,
        page.PageSection(
            section, name, notes, findings(compared, effects, PAGE), shown(PAGE), tested(compared, PAGE), drawn
        ),
    )
