"""The report of one experiment: MLflow in, Markdown, pages, figures and numbers out.

Byte for byte the same from the same runs.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contrastive.errors import brief
from contrastive.runs.recorded import RecordedSection
from reports import export, page
from reports.load import Results, load
from reports.markdown import code, plain
from reports.messages import FILES, LANGUAGES, PAGES, _, language, n_, other, using
from reports.report import Report, make_report

Written = TypeVar("Written")
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
            page.write_page(report, results, folder)
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
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters |= {"plain": plain, "code": code}
    return templates.get_template("report.md.j2").render(
        _=_, n_=n_, other=other(FILES), page=PAGES[language()], language=language(), report=report
    )


def file_names(sections: list[RecordedSection]) -> list[str]:
    """The beginning of each section's file names, from its title; one that is already taken gets its number."""
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower())[:60].strip("-") or f"section-{number}"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names
