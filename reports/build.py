"""The report of one experiment: MLflow in, Markdown, pages that need no network, figures and numbers out.

Byte for byte the same from the same runs.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeGuard, TypeVar
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from contrastive.errors import brief, printable
from contrastive.runs.recorded import RecordedSection
from reports import export
from reports.figures import Figure, LeftOut
from reports.load import Results, load
from reports.markdown import code, plain
from reports.messages import FILES, LANGUAGES, PAGES, Joined, Message, Said, _, language, n_, other, using
from reports.report import Report, make_report

Written = TypeVar("Written")
TEMPLATES = Path(__file__).parent / "templates"
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
USUAL = "http://127.0.0.1:5000"  # where `ablate up` serves runs
TEXT = (".md", ".html", ".csv", ".svg")  # files of which a difference is shown, not only named
BEFORE, SHOWN = 20, 80  # characters of a line that are shown before its first difference, and in all


def build(experiment: str, uri: str, output: Path) -> Path:
    """The report from MLflow to the disk; returns its README.md."""
    publish(load(experiment, uri), output)
    return output / "README.md"


def publish(results: Results, output: Path) -> Report:
    """Write the report in the place of the old one."""
    return replace_folder(output, lambda fresh: write_report(results, fresh))


def replace_folder(output: Path, write: Callable[[Path], Written]) -> Written:
    """Write into a new folder and move that into the place of the old one."""
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        written = write(fresh)
        fresh.chmod(0o755)
        put(fresh, output)
        return written
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def write_report(results: Results, folder: Path) -> Report:
    """Everything that a report consists of."""
    report = make_report(results, file_names(results.grid.sections), folder)
    for name in LANGUAGES:
        with using(name):
            (folder / FILES[name]).write_text(render_markdown(report), encoding="utf-8")
            page = render_page(report, results, folder)
            (folder / PAGES[name]).write_text(page, encoding="utf-8", errors="replace")
    export.write_tables(export.tidy(results), folder)
    export.write_comparisons([section.compared for section in report.sections], folder)
    export.write_effects([(section.compared, section.effects) for section in report.sections], folder)
    return report


def differences(folder: Path, results: Results) -> list[str]:
    """What distinguishes the report in a folder from one that is built of these results now: for each file the first
    line that differs, that it is missing, or that no report has it."""
    with tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary)
        write_report(results, again)
        paths = {path.relative_to(side) for side in (folder, again) for path in side.rglob("*") if path.is_file()}
        found = [(path, difference(folder / path, again / path)) for path in sorted(paths)]
    return [f"{path}{said}" for path, said in found if said]


def difference(written: Path, wanted: Path) -> str:
    """How a file differs from what it should be; empty where it does not."""
    if not wanted.is_file():
        return " does not belong to this report"
    if not written.is_file():
        return " is missing"
    contents = [path.read_bytes() for path in (written, wanted)]
    if contents[0] == contents[1]:
        return ""
    if written.suffix not in TEXT:
        return " is not the file that is built now"
    lines = [content.decode(errors="replace").split("\n") for content in contents]
    for number, (ours, theirs) in enumerate(zip_longest(*lines, fillvalue=""), start=1):
        if ours != theirs:
            alike = next((i for i, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), 0)
            start = max(0, alike - BEFORE)  # a line of a page may be very long
            said, right = (brief(line[start : start + SHOWN]) for line in (ours, theirs))
            return f", line {number}: says `{said}`, should say `{right}`"
    return " is not the file that is built now"


def put(fresh: Path, output: Path) -> None:
    """Move a folder into the place of another one, also while somebody else does the same."""
    aside = fresh.with_name(fresh.name + ".old")
    while True:
        with contextlib.suppress(FileNotFoundError):
            os.replace(output, aside)
        try:
            os.replace(fresh, output)
        except OSError:
            if not output.exists():
                raise
        else:
            return
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def render_markdown(report: Report) -> str:
    """In the language in use."""
    return template("report.md.j2", autoescape=False).render(other=other(FILES), page=PAGES[language()], report=report)


def template(name: str, **settings: Any) -> Template:
    """A template that speaks the language in use."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **settings,
    )
    templates.filters |= {"plain": plain, "code": code}
    return templates.get_template(name, globals={"_": _, "n_": n_, "language": language()})


def file_names(sections: list[RecordedSection]) -> list[str]:
    """The beginning of each section's file names, from its title; one that is already taken gets its number."""
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower())[:60].strip("-") or f"section-{number}"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names


@dataclass(frozen=True)
class Image:
    """A figure as an address that holds it."""

    address: str
    alt: Said


def render_page(report: Report, results: Results, folder: Path) -> str:
    """In the language in use, with the figures that lie in a folder; the same bytes from the same results."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return template("page.html.j2", autoescape=True, finalize=seen).render(
        other=other(PAGES),
        report=report,
        running=results.progress is not None,
        images=lambda figures: [Image(address(folder / each.path), each.alt) for each in figures if is_drawn(each)],
        left_out=lambda figures: [each for each in figures if not is_drawn(each)],
        link=Links(results).to,
        style=Markup(style),
        script=Markup(script),
        digests={"style": digest(style), "script": digest(script)},
    )


def is_drawn(figure: Figure | LeftOut) -> TypeGuard[Figure]:
    return isinstance(figure, Figure)


def address(path: Path) -> str:
    return f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def digest(text: str) -> str:
    """By which the page's policy knows its own script and style, and runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def seen(value: object) -> object:
    """A text as the page shows it: of what is not our own markup, nothing that stays unseen or turns text around."""
    said = isinstance(value, str | Message | Joined) and not isinstance(value, Markup)
    return printable(str(value)) if said else value


class Links:
    def __init__(self, results: Results) -> None:
        self.base, self.experiment = base(results.uri), results.experiment_id
        self.runs = {cell: run.run_id for cell, run in results.cells.items()}

    def to(self, cells: list[str]) -> str | None:
        """One run's page, or several side by side; None where MLflow knows none of the cells."""
        runs = list(dict.fromkeys(self.runs[cell] for cell in cells if cell in self.runs))
        if not runs:
            return None
        if len(runs) == 1:
            return f"{self.base}/#/experiments/{quote(self.experiment, safe='')}/runs/{quote(runs[0], safe='')}"
        chosen = quote(json.dumps(runs, separators=(",", ":")), safe="")
        return f"{self.base}/#/compare-runs?runs={chosen}&experiments={quote(json.dumps([self.experiment]), safe='')}"


def base(uri: str) -> str:
    """The server that was asked, without the password that it was asked with; else the one of `ablate up`."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return USUAL
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
