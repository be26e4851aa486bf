"""The report of one experiment: MLflow in, README.md, README.zh.md, index.html, figures and numbers out.

Byte for byte the same from the same runs.
"""

import contextlib
import logging
import os
import re
import shutil
import tempfile
from itertools import zip_longest
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contrastive.errors import UserError
from contrastive.runs.recorded import RecordedSection
from reports import export, figures, page, sifted
from reports.bilingual import FILES, Language, Words
from reports.claims import contradictions, prose
from reports.guards import general
from reports.load import Results, load
from reports.markdown import PAGE, code, plain
from reports.provenance import footer, footer_lines
from reports.reading import class_counts, reading
from reports.section_report import SectionReport, describe

logger = logging.getLogger(__name__)
SHOWN = 10  # contradictions that a message lists


def build(experiment: str, uri: str, output: Path) -> Path:
    """The report from MLflow to the disk; returns its README.md."""
    return publish(load(experiment, uri), output)


class ContradictoryReport(UserError):
    """A report that was written says what its numbers do not."""


def publish(results: Results, output: Path) -> Path:
    """Writes the report into a new folder, reads it against its numbers, and puts it in the place of the old one;
    returns its README.md."""
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        write_report(results, fresh)
        check_report(fresh, results)
        fresh.chmod(0o755)
        put(fresh, output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return output / "README.md"


def write_report(results: Results, folder: Path) -> None:
    """Everything that a report consists of."""
    titles = results.grid.sections
    sections = [
        describe(section, name, results, folder) for section, name in zip(titles, file_names(titles), strict=True)
    ]
    overview = figures.overview(results, folder)
    notes = [guard.words for guard in general(results)]
    below = footer_lines(footer(results))
    for language, name in FILES.items():
        text = render_markdown(results, sections, overview, notes, reading(results), below, language)
        (folder / name).write_text(text, encoding="utf-8")
    export.write_tables(export.tidy(results), folder)
    for name, frames in {
        "comparisons": [s.comparisons for s in sections],
        "effects": [s.effects for s in sections],
    }.items():
        pd.concat(frames, ignore_index=True).to_csv(folder / f"{name}.csv", index=False)
    read = [*reading(results, PAGE), *sifted.sentences(results)]
    page.write_page(results, [section.on_page for section in sections], folder, notes, read, below)


def check_report(folder: Path, results: Results) -> None:
    """A contradiction to the numbers is an error; what the experiment file claims by itself, a warning."""
    for claim in (claim for text in authored(results) for claim in prose(plain(text))):
        logger.warning("The experiment file claims what no statistic says: %s", claim)
    if problems := contradictions(folder, quoted(results)):
        more = [f"… and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise ContradictoryReport("\n".join(problems[:SHOWN] + more))


def differences_to_built_again(folder: Path, results: Results) -> list[str]:
    """Of each file of a report the first line that it would not have if it were built from these results now, and the
    files that it would have besides: somebody edited it, or the results or the code are other ones by now."""
    with tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary) / folder.name
        again.mkdir()
        write_report(results, again)
        missing = sorted(str(path.relative_to(again)) for path in again.rglob("*") if path.is_file())
        problems = [f"{name}: is not there any more" for name in missing if not (folder / name).is_file()]
        for name in FILES.values():
            lines = [(side / name).read_text(encoding="utf-8").splitlines() for side in (folder, again)]
            for number, (written, wanted) in enumerate(zip_longest(*lines, fillvalue=""), start=1):
                if written != wanted:
                    problems.append(f"{name}, line {number}: built again it says `{wanted}`")
                    break
    return problems


def authored(results: Results) -> list[str]:
    """The texts of the experiment file that a report repeats."""
    texts = [results.grid.experiment.description, *(section.note for section in results.grid.sections)]
    return [text for text in texts if text]


def quoted(results: Results) -> list[str]:
    """What a report repeats as it is: these texts, errors of cells, and why scores of a cell are left out."""
    errors = [run.error for run in results.cells.values() if run.error]
    return [*authored(results), *errors, *(why for notes in results.notes.values() for why in notes.values())]


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


def render_markdown(
    results: Results,
    sections: list[SectionReport],
    overview: list[figures.Figure | figures.LeftOut],
    notes: list[Words],
    above: list[Words],
    below: list[Words],
    language: Language,
) -> str:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters |= {"plain": plain, "code": code, "words": lambda words: words.in_language(language)}
    return templates.get_template("report.md.j2").render(
        language=language,
        experiment=results.grid.experiment,
        general=notes,
        sections=sections,
        overview=overview,
        reading=above,
        class_counts=[*class_counts(results), *sifted.sifted_tables(results)],
        footer=below,
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
