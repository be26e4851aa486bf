"""The report of one experiment: MLflow in, README.md, README.zh.md, index.html, figures and numbers out.

Byte for byte the same from the same runs.
"""

import contextlib
import json
import math
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports import export, figures, page, sifted, tables
from reports.bilingual import LANGUAGES, Language, Words
from reports.compare import Comparisons, compare
from reports.findings import findings, tested
from reports.guards import general, guards
from reports.load import Results, load
from reports.markdown import code, markdown, plain
from reports.over_data_sets import across
from reports.provenance import footer
from reports.section_effects import explained, level_means
from reports.tables import unmarked


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
    titles = results.grid["sections"]
    sections = [describe(one, name, results, folder) for one, name in zip(titles, file_names(titles), strict=True)]
    overview = figures.overview(results, folder)
    notes = [guard.words for guard in general(results)]
    above, below = reading(results), footer_lines(footer(results))
    for language, name in zip(LANGUAGES, ("README.md", "README.zh.md"), strict=True):
        (folder / name).write_text(render(results, sections, overview, notes, above, below, language), encoding="utf-8")
    export.write(export.tidy(results), folder)
    for name in ("comparisons", "effects"):
        frame = pd.concat([section[name] for section in sections], ignore_index=True)
        frame.to_csv(folder / f"{name}.csv", index=False)
    shown = [
        section
        | {"tables": [table.bare(section["title"]) for table in section["tables"]]}
        | {"findings": [unmarked(sentence) for sentence in section["findings"]]}
        | {"tested": [unmarked(line) for line in section["tested"]]}
        for section in sections
    ]
    read = [*(unmarked(line) for line in above), *sifted.sentences(results)]
    page.write(results, shown, folder, notes, read, below)


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
    sections: list[dict[str, Any]],
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
        experiment=results.grid["experiment"],
        general=notes,
        sections=sections,
        overview=overview,
        reading=above,
        class_counts=[*class_counts(results), *sifted.tables(results)],
        footer=below,
    )


def file_names(sections: list[dict[str, Any]]) -> list[str]:
    """The beginning of each section's file names, from its title; one that is already taken gets its number."""
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section["title"].lower())[:60].strip("-") or f"section-{number}"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names


# Guards that leave whole rows comparable, seed by seed; any other one says that no two rows are.
COVERAGE = {"missing", "missing score", "seeds", "one seed"}


def describe(section: dict[str, Any], name: str, results: Results, folder: Path) -> dict[str, Any]:
    """All that the report says of a section, as Markdown and the page show it."""
    fired = guards(section, results)
    blocking = {guard.kind for guard in fired if guard.blocks_ranking}
    compared = compare(section, results, may_rank=not blocking, may_compare=blocking <= COVERAGE)
    effects = explained(section, compared, results)
    comparison = tables.comparison_table(compared)
    return {
        "title": section["title"],
        "anchor": name,
        "note": section["note"],
        "guards": [guard.words for guard in fired],
        "findings": findings(compared, effects),
        "tables": [
            *tables.section_tables(section, results, compared),
            *([comparison] if comparison else []),
            *across(section, compared, results),
            *(tables.effects_table(frame, value) for value, frame in effects.items()),
            *(tables.levels_table(frame, value) for value, frame in level_means(section, effects, results).items()),
        ],
        "tested": tested(compared),
        "figures": [] if "range" in blocking else figures.draw(section, compared, results, folder, name),
        "footer": section_footer(section, results),
        "runs": [(row["label"], ", ".join(row["cells"])) for row in section["rows"]],
        "rows": section["rows"],
        "comparisons": exported(compared, section["title"]),
        "effects": pd.concat(
            [frame.assign(section=section["title"], value=value) for value, frame in effects.items()]
            or [pd.DataFrame(columns=["section", "value", "effect", "share", "F", "p", "p_holm", "shown"])]
        ),
    }


def exported(compared: Comparisons, title: str) -> pd.DataFrame:
    """The comparisons of a section as comparisons.csv has them."""
    frame = compared.frame.drop(columns=["cells"])
    for name in ("only_ours", "only_theirs", "mcnemar"):
        frame[name] = frame[name].map(lambda known: json.dumps(known) if isinstance(known, list) else None)
    known = compared.detectable
    smallest = frame["value"].map(lambda value: math.nan if known.get(value) is None else known[value])
    return frame.assign(section=title, detectable=smallest)


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    found: dict[str, list[str]] = {}
    for section in results.grid["sections"]:
        for row in section["rows"]:
            found.setdefault(row["data"], []).extend(cell for cell in row["cells"] if cell in results.cells.index)
    return found


def reading(results: Results) -> list[Words]:
    """How the numbers are to be read: what stands above them all."""
    seeds = len(results.grid["experiment"]["seeds"])
    if seeds == 1:
        lines = [
            Words("One seed a configuration: nothing is known of the spread between seeds, and no difference here can "
                  "be called real. Nothing is ranked, and nothing is bold.",
                  "每种配置只有一个随机种子：对种子间的波动一无所知，此处任何差异都不能称为真实。不作排名，也没有粗体。"),
        ]  # fmt: skip
    else:
        lines = [
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
    for error in standard_errors(results):
        count, size = error["count"], f"{error['value']:.4f}"
        of, von = (f" of {plain(error['data'])}", f"{plain(error['data'])} 的 ") if error["data"] else ("", "")
        lines.append(
            Words(f"On {count} test texts{of}, one accuracy has a standard error of {size} by the choice of texts "
                  "alone.",
                  f"在 {von}{count} 条测试文本上，仅由文本的选取，单个准确率的标准误为 {size}。")
        )  # fmt: skip
    return lines


def standard_errors(results: Results) -> list[dict[str, Any]]:
    """What chance alone makes of one accuracy on so many test texts."""
    if "test.accuracy" not in results.scores:
        return []
    found = []
    for name, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and 0 <= mean <= 1:
            count = sum(counts.values())
            found.append({"data": name, "count": count, "value": (mean * (1 - mean) / count) ** 0.5})
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


def counts_of(results: Results, cells: list[str]) -> dict[str, dict[str, int]]:
    known = [provenance for provenance in results.cells["provenance"].reindex(cells) if provenance]
    return known[0]["class_counts"] if known else {}


def footer_lines(known: dict[str, Any]) -> list[Words]:
    """What stands below a report: hardware, what it cost, versions, commits."""
    lines = [Words(f"Hardware: {line}", f"硬件：{line}") for line in known["hardware"]]
    lines.append(spent(known))
    lines += [line for line in (known["predicted"], known["ways"]) if line]
    lines += [Words(f"Versions: {line}", f"版本：{line}") for line in known["versions"]]
    if commits := ", ".join(known["commits"]):
        lines.append(Words(f"Commit: {commits}", f"提交：{commits}"))
    return lines


def spent(known: dict[str, Any]) -> Words:
    """Cells and their time; energy and money where they are known."""
    wall, gpu = f"{known['wall_minutes']:.1f}", f"{known['gpu_minutes']:.1f}"
    english = [f"{known['cells']} cells", f"{wall} minutes of computing, {gpu} of them on a GPU"]
    chinese = [f"{known['cells']} 个单元", f"计算 {wall} 分钟，其中 GPU {gpu} 分钟"]
    for meter, energy in known["energy_watt_hours"].items():
        english.append(f"{energy:.1f} Wh ({meter})")
        chinese.append(f"{energy:.1f} Wh（{meter}）")
    if known["cost"] is not None:
        price = f"{known['price_per_hour']:g} {known['currency']}"
        english.append(f"about {known['cost']:.2f} {known['currency']} at {price} an hour")
        chinese.append(f"按每小时 {price} 约 {known['cost']:.2f} {known['currency']}")
    memory = known["peak_memory_mib"]
    english.append(f"largest memory of a process {memory} MiB")
    chinese.append(f"单个进程最大内存 {memory} MiB")
    return Words("; ".join(english), "；".join(chinese))


def section_footer(section: dict[str, Any], results: Results) -> Words | None:
    """On what a section was computed, and what that took; nothing of cells that say nothing of it."""
    known = footer(results, section)
    if not known["hardware"]:
        return None
    hardware, cost = " / ".join(known["hardware"]), spent(known)
    return Words(f"Computed on: {hardware}; {cost.en}", f"实验环境：{hardware}；{cost.zh}")
