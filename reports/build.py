"""Build a report, section by section, and write it: Markdown, a self-contained HTML page, figures and tables.

The same runs give the same files, byte for byte.
"""

import base64
import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from contrastive.errors import printable
from contrastive.runs.recorded import RecordedSection
from reports import export, figures, tables
from reports.answers import answer
from reports.chosen import chosen_sentences, chosen_table
from reports.compare import Section, places_of
from reports.figures import Figure
from reports.figures.comparisons import draw_forest
from reports.findings import reading, sentences
from reports.guards import Guard, general, tuning
from reports.looks import compare_section
from reports.markdown import code, plain
from reports.messages import _, n_, using
from reports.methods import hyperparameters, methods
from reports.overview import Overview, overview
from reports.provenance import class_tables, footer, row_tables
from reports.questions import Question, means_table, question_anchor, questions_of, settings_table, statements
from reports.section_effects import explained
from reports.study import Results, Study
from reports.tables import Table

Written = TypeVar("Written")
TEMPLATES = Path(__file__).parent / "templates"
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
DEFAULT_SERVER = "http://127.0.0.1:5000"  # where `ablate up` serves runs


@dataclass(frozen=True)
class SectionReport:
    """Content of a section in README.md and the page, in reading order."""

    anchor: str
    answer: str  # to the question in its title; empty if the first screen has it, or nothing was tested
    notes: list[str]
    tables: list[Table]
    sentences: list[str]
    figures: list[Figure]
    section: Section
    forbidding: list[str]  # the notes that forbid ranking
    limits: list[Guard]


def compare_sections(results: Results) -> list[tuple[list[Guard], Section]]:
    """Compare the rows of each section. A score has the same decimal places in all of them."""
    compared = [compare_section(section, results) for section in results.study.sections]
    sections = [section for _fired, section in compared]
    values = dict.fromkeys(value for section in sections for value in section.values)
    places = {value: places_of(sections, value) for value in values}
    return [(fired, replace(section, page_places=places)) for fired, section in compared]


def section_report(fired: list[Guard], compared: Section, name: str, results: Results, folder: Path) -> SectionReport:
    """Describe and draw one section. `fired`: the guards that speak; `name`: its anchor and the prefix of its files."""
    section = compared.recorded
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    limits = tuning(compared, results)
    shown = [
        *tables.section_tables(compared, results),
        *tables.effects_tables(explained(compared, results)),
        chosen_table(section, results),
        tables.seeds_table(compared, results),
    ]
    return SectionReport(
        anchor=name,
        answer=answer(compared, results).words,
        notes=[guard.words for guard in fired],
        tables=[table for table in shown if table is not None],
        sentences=[*chosen_sentences(section, results), *(guard.words for guard in limits), *sentences(compared)],
        figures=[] if "range" in blocking else figures.draw(compared, results, folder, name),
        section=compared,
        forbidding=[guard.words for guard in fired if guard.blocks_ranking],
        limits=limits,
    )


@dataclass(frozen=True)
class QuestionReport:
    """Content on a question that is asked in several settings, above their sections."""

    anchor: str
    question: Question
    statements: list[str]
    tables: list[Table]


def question_report(question: Question, number: int) -> QuestionReport:
    scores = list(question.means)
    tested = [value for section in question.sections for value in section.tested]
    said = [words for value in (scores or tested)[:1] for words in statements(question, value)]
    tables = [table(question, value) for value in scores for table in (means_table, settings_table)]
    return QuestionReport(question_anchor(number), question, said, tables)


@dataclass(frozen=True)
class Report:
    """Content of a whole report."""

    study: Study
    summary: Overview
    forest: Figure | None
    notes: list[str]
    questions: list[QuestionReport]
    sections: list[SectionReport]
    reading: list[str]
    data: list[Table]
    methods: list[str]
    hyperparameters: Table | None
    footer: list[str]
    shared: list[str]  # sentences of all sections
    linked: bool  # whether numbers have pages of their runs in MLflow

    def noted(self, section: SectionReport) -> bool:
        """Return whether a section's note stands at its question."""
        return section.section.recorded.question in {part.question.title for part in self.questions}


def report_of(results: Results, names: list[str], folder: Path) -> Report:
    """Draw the figures into a folder and collect the content. `names`: prefix of each section's files."""
    sections = [
        section_report(fired, compared, name, results, folder)
        for (fired, compared), name in zip(compare_sections(results), names, strict=True)
    ]
    limits = [section.limits for section in sections]
    sections, everywhere = said_once(sections)
    notes = [guard.words for guard in general(results)]
    forbidding = list(dict.fromkeys(words for section in sections for words in section.forbidding))
    warnings = len(notes) + sum(len(section.notes) for section in sections)
    compared = [part.section for part in sections]
    questions = questions_of(compared, results)
    summary = overview(results, compared, names, limits, warnings, forbidding, questions)
    answered = {answer.question for answer in summary.answers}
    sections = [replace(part, answer="") if part.section.recorded.title in answered else part for part in sections]
    return Report(
        results.study,
        summary,
        draw_forest(summary.chart, folder / "figures" / "forest.svg"),
        notes,
        [question_report(question, number) for number, question in enumerate(questions)],
        sections,
        [*reading(results), *everywhere],
        [*class_tables(results), *row_tables(results)],
        methods(results, questions),
        hyperparameters(results.study),
        footer(results),
        everywhere,
        any(run.run_id for run in results.cells.values()),
    )


def said_once(sections: list[SectionReport]) -> tuple[list[SectionReport], list[str]]:
    """Take the sentences that all of several sections with comparisons share out of them."""
    compared = [part for part in sections if part.section.comparisons]
    if len(compared) < 2:
        return sections, []
    shared = [words for words in compared[0].sentences if all(words in part.sentences for part in compared)]
    kept = [replace(part, sentences=[words for words in part.sentences if words not in shared]) for part in sections]
    return kept, shared


def build(results: Results, output: Path) -> Report:
    """Build the report, write it, and replace the old one."""
    return replace_folder(output, lambda fresh: write_report(results, fresh))


def replace_folder(output: Path, write: Callable[[Path], Written]) -> Written:
    """Write into a new folder, then put that in place of the old one."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as temporary:
        fresh, old = Path(temporary) / "new", Path(temporary) / "old"
        fresh.mkdir()
        written = write(fresh)
        with contextlib.suppress(FileNotFoundError):
            output.rename(old)
        fresh.rename(output)
    return written


def write_report(results: Results, folder: Path) -> Report:
    """Write all files of a report, in its language, into a folder."""
    with using(results.study.language):
        report = report_of(results, file_names(results.study.sections), folder)
        text = template("report.md.j2", autoescape=False).render(report=report)
        (folder / "README.md").write_text(text, encoding="utf-8")
        page = page_of(report, results, folder)
        (folder / "index.html").write_text(page, encoding="utf-8", errors="replace")
    questions = [part.question for part in report.questions]
    export.write_answer(report.summary, questions, folder)
    export.write_csv(export.tidy(results), folder / "results.csv")
    export.write_comparisons([part.section for part in report.sections], folder)
    export.write_means(questions, folder)
    return report


def differences(folder: Path, results: Results) -> list[str]:
    """Compare the report in a folder with one built now from these results: one message for each file that differs, is
    missing or is not part of a report."""
    with tempfile.TemporaryDirectory() as temporary:
        rebuilt = Path(temporary)
        write_report(results, rebuilt)
        written, expected = contents(folder), contents(rebuilt)
    problems = dict.fromkeys(written.keys() - expected.keys(), "does not belong to this report")
    problems |= dict.fromkeys(expected.keys() - written.keys(), "is missing")
    edited = [path for path in written.keys() & expected.keys() if written[path] != expected[path]]
    problems |= dict.fromkeys(edited, "is not what is built now")
    return [f"{path} {problem}" for path, problem in sorted(problems.items())]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@cache  # a template is compiled once
def template(name: str, **settings: Any) -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **settings,
    )
    environment.filters |= {"plain": plain, "code": code, "together": together}
    environment.globals |= {"_": _, "n_": n_}
    return environment.get_template(name)


def file_names(sections: list[RecordedSection]) -> list[str]:
    """Return a prefix for each section's files, made from its title; a number makes it unique."""
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower())[:60].strip("-") or f"section-{number}"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names


def page_of(report: Report, results: Results, folder: Path) -> str:
    """Return the report as one HTML page, with the figures of a folder embedded."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return template("page.html.j2", autoescape=True, finalize=visible).render(
        report=report,
        embedded=lambda figure: data_url(folder / figure.path),
        link=lambda cells: run_address(cells, results),
        style=Markup(style),
        script=Markup(script),
        digests={"style": digest(style), "script": digest(script)},
    )


def data_url(path: Path) -> str:
    return f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def digest(text: str) -> str:
    """Hash for the page's Content-Security-Policy, which allows no other script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def together(value: str) -> str:
    """Keep numbers on one line with what they are beside: +2.0 ± 1.5 points."""
    return re.sub(r" (?=[±→%]|points?\b|个百分点)|(?<=[±→]) ", "\N{NO-BREAK SPACE}", value)


def visible(value: object) -> object:
    """Remove invisible and text-reversing characters from any text that is not our own markup."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def run_address(cells: list[str], results: Results) -> str | None:
    """Return the page of one run in MLflow, or of several side by side; None if MLflow has none of the cells."""
    known = [results.cells[cell].run_id for cell in cells if cell in results.cells]
    runs, server, experiment = list(dict.fromkeys(filter(None, known))), base(results.uri), results.experiment_id
    if not runs:
        return None
    if len(runs) == 1:
        return f"{server}/#/experiments/{quote(experiment, safe='')}/runs/{quote(runs[0], safe='')}"
    chosen = quote(json.dumps(runs, separators=(",", ":")), safe="")
    return f"{server}/#/compare-runs?runs={chosen}&experiments={quote(json.dumps([experiment]), safe='')}"


def base(uri: str) -> str:
    """Return the address of the MLflow server without user name and password; without one, that of `ablate up`."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return DEFAULT_SERVER
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
