"""All that a report says of one section."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from contrastive.runs.recorded import RecordedSection
from reports import figures, page, tables
from reports.bilingual import Words
from reports.compare import Comparisons
from reports.findings import findings, same_note, tested, unequal_note
from reports.load import Results
from reports.looks import judge_section
from reports.markdown import MARKDOWN, PAGE, Markup
from reports.over_data_sets import across
from reports.provenance import section_footer
from reports.section_effects import explained, level_means

EFFECTS = ["section", "value", "effect", "share", "F", "p", "shown"]


@dataclass(frozen=True)
class SectionReport:
    """All that the report says of a section: in Markdown, on the page, and as frames."""

    title: str
    note: str
    guards: list[Words]
    findings: list[Words]
    tables: list[tables.Table]
    tested: list[Words]
    figures: list[figures.Figure | figures.LeftOut]
    footer: Words | None
    runs: list[tuple[str, str]]  # label and cells of each row
    comparisons: pd.DataFrame
    effects: pd.DataFrame
    on_page: page.PageSection


def describe(section: RecordedSection, name: str, results: Results, folder: Path) -> SectionReport:
    fired, compared = judge_section(section, results)
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    effects = explained(section, compared, results)
    levels = level_means(section, effects, compared, results)
    notes = [*(guard.words for guard in fired), *unequal_note(compared), *same_note(compared)]
    drawn = [] if "range" in blocking else figures.draw(section, compared, results, folder, name)

    def shown(to: Markup) -> list[tables.Table]:
        comparison = tables.comparison_table(compared, to)
        return [
            *tables.section_tables(section, results, compared, to),
            *([comparison] if comparison else []),
            *across(section, compared, results, to),
            *(tables.effects_table(frame, value, to) for value, frame in effects.items()),
            *(tables.levels_table(frame, value, to) for value, frame in levels.items()),
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
        exported(compared, section.title),
        exported_effects(effects, section.title),
        page.PageSection(
            section, name, notes, findings(compared, effects, PAGE), shown(PAGE), tested(compared, PAGE), drawn
        ),
    )


def exported_effects(effects: dict[str, pd.DataFrame], title: str) -> pd.DataFrame:
    """The effects of a section as effects.csv has them."""
    frames = [frame.assign(section=title, value=value) for value, frame in effects.items()]
    return pd.concat(frames or [pd.DataFrame(columns=EFFECTS)])


def exported(compared: Comparisons, title: str) -> pd.DataFrame:
    """The comparisons of a section as comparisons.csv has them."""
    frame = compared.frame.drop(columns=["cells"])
    for name in ("only_ours", "only_theirs", "mcnemar"):
        frame[name] = frame[name].map(lambda counts: json.dumps(counts) if isinstance(counts, list) else None)
    limits = compared.detectable
    smallest = frame["value"].map(lambda value: math.nan if limits.get(value) is None else limits[value])
    most_seeds = math.nan if compared.most_seeds is None else compared.most_seeds
    return frame.assign(section=title, detectable=smallest, most_seeds=most_seeds, ended=compared.ended)
