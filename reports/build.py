"""The report of one experiment: MLflow in, README.md, README.zh.md, index.html, figures and numbers out.

Byte for byte the same from the same runs.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contrastive.runs.recorded import RecordedSection
from reports import export, figures, page, sifted
from reports.bilingual import LANGUAGES, Language, Words
from reports.guards import general
from reports.load import Results, load
from reports.markdown import MARKDOWN, PAGE, Markup, code, markdown, plain
from reports.provenance import footer, footer_lines
from reports.section_report import SectionReport, describe


def build(experiment: str, uri: str, output: Path) -> Path:
    """The report from MLflow to the disk; returns its README.md."""
    return publish(load(experiment, uri), output)


def publish(results: Results, output: Path) -> Path:
    """Writes the report into a new folder and puts it in the place of the old one; returns its README.md."""
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        write(results, fresh)
        fresh.chmod(0o755)
        put(fresh, output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return output / "README.md"


def write(results: Results, folder: Path) -> None:
    """Everything that a report consists of."""
    titles = results.grid.sections
    sections = [describe(one, name, results, folder) for one, name in zip(titles, file_names(titles), strict=True)]
    overview = figures.overview(results, folder)
    notes = [guard.words for guard in general(results)]
    below = footer_lines(footer(results))
    for language, name in zip(LANGUAGES, ("README.md", "README.zh.md"), strict=True):
        text = render(results, sections, overview, notes, reading(results), below, language)
        (folder / name).write_text(text, encoding="utf-8")
    export.write(export.tidy(results), folder)
    for name, frames in {
        "comparisons": [s.comparisons for s in sections],
        "effects": [s.effects for s in sections],
    }.items():
        pd.concat(frames, ignore_index=True).to_csv(folder / f"{name}.csv", index=False)
    read = [*reading(results, PAGE), *sifted.sentences(results)]
    page.write(results, [section.on_page for section in sections], folder, notes, read, below)


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


def render(
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
        class_counts=[*class_counts(results), *sifted.tables(results)],
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


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    found: dict[str, list[str]] = {}
    for section in results.grid.sections:
        for row in section.rows:
            found.setdefault(row.data, []).extend(cell for cell in row.cells if cell in results.cells)
    return found


def how_to_read(seeds: int) -> list[Words]:
    """What stands above the numbers of any experiment of so many seeds."""
    if seeds == 1:
        return [
            Words("One seed a configuration: nothing is known of the spread between seeds, and no difference here can "
                  "be called real. Nothing is ranked, and nothing is bold.",
                  "每种配置只有一个随机种子：对种子间的波动一无所知，此处任何差异都不能称为真实。不作排名，也没有粗体。"),
        ]  # fmt: skip
    return [
        Words(f"{seeds} seeds a configuration; numbers are the mean over seeds ± half the width of its 95 % "
              "interval (Student's t).",
              f"每种配置 {seeds} 个随机种子；数字为各随机种子的均值 ± 95 % 置信区间的半宽（学生 t）。"),
        Words("Bold is every value that is tied with the best of its column, among those on the same data: nothing "
              "was shown to be better, after Holm's correction over all pairs of the section. Where a section is "
              "not ranked, nothing in it is bold.",
              "粗体表示在相同数据上与该列最佳值并列：经对本节所有配对的 Holm 校正后，没有任何一个值显示出比它更优。"
              "未作排名的小节没有粗体。"),
        Words("“Would have been found” means: with probability 0.80, had it been there.",
              "“可发现”指：若确实存在，以 0.80 的概率被发现。"),
    ]  # fmt: skip


def reading(results: Results, to: Markup = MARKDOWN) -> list[Words]:
    """How the numbers are to be read: what stands above them all."""
    lines = how_to_read(len(results.grid.experiment.seeds))
    for error in standard_errors(results):
        count, size, name = error.count, f"{error.value:.4f}", to.text(error.data)
        of, von = (f" of {name}", f"{name} 的 ") if name else ("", "")
        lines.append(
            Words(f"On {count} test texts{of}, one accuracy has a standard error of {size} by the choice of texts "
                  "alone.",
                  f"在 {von}{count} 条测试文本上，仅由文本的选取，单个准确率的标准误为 {size}。")
        )  # fmt: skip
    return lines


@dataclass(frozen=True)
class StandardError:
    data: str
    count: int  # of texts
    value: float


def standard_errors(results: Results) -> list[StandardError]:
    """What chance alone makes of one accuracy on so many test texts."""
    if "test.accuracy" not in results.scores:
        return []
    found = []
    for name, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and 0 <= mean <= 1:
            count = sum(counts.values())
            found.append(StandardError(name, count, (mean * (1 - mean) / count) ** 0.5))
    return found


def class_counts(results: Results) -> list[Words]:
    """A table for each data set."""
    found = []
    for name, cells in cells_by_data(results).items():
        if counts := counts_of(results, cells):
            frame = pd.DataFrame(counts).T.fillna(0).astype(int)
            lines = [
                [str(split), *map(str, row), str(sum(row))]
                for split, row in zip(frame.index, frame.to_numpy(), strict=True)
            ]
            classes = [plain(one) for one in frame.columns]
            of, von = (f" of {plain(name)}", f"（{plain(name)}）") if name else ("", "")
            found.append(
                Words(
                    markdown([["Split" + of, *classes, "all"], *lines]),
                    markdown([["划分" + von, *classes, "合计"], *lines]),
                )
            )
    return found


def counts_of(results: Results, cells: list[str]) -> Mapping[str, Mapping[str, int]]:
    noted = (provenance for cell in cells if (provenance := results.provenance(cell)))
    first = next(noted, None)
    return first.class_counts if first else {}
