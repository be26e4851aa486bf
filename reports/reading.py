"""What stands above the numbers of a report: how they are to be read, and how many texts each class has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pandas as pd

from reports.bilingual import Words
from reports.load import Results
from reports.markdown import MARKDOWN, Markup, markdown, plain


def how_to_read(seeds: int, by_itself: bool = False, drawn: Collection[bool] = (False,)) -> list[Words]:
    """What stands above the numbers of any experiment of so many seeds; `by_itself`: it stops where all is decided;
    `drawn`: whether each seed draws its own training texts, of all its rows."""
    if seeds == 1:
        return [
            Words("One seed a configuration: nothing is known of the spread between seeds, and no difference here can "
                  "be called real. Nothing is ranked, and nothing is bold.",
                  "每种配置只有一个随机种子：对种子间的波动一无所知，此处任何差异都不能称为真实。不作排名，也没有粗体。"),
        ]  # fmt: skip
    return [
        Words(f"{'Up to ' if by_itself else ''}{seeds} seeds a configuration; numbers are the mean over seeds ± half "
              "the width of its 95 % interval (Student's t).",
              f"每种配置{'最多' if by_itself else ''} {seeds} 个随机种子；"
              "数字为各随机种子的均值 ± 95 % 置信区间的半宽（学生 t）。"),
        Words("Verdicts come from one interval of each difference to the baseline, which holds for all comparisons of "
              "a section together: better or worse where it leaves out 0, equivalent where it lies within the margin "
              "that was declared too small to matter, undecided otherwise.",
              "结论来自每个与基线差异的区间，对一节内的全部比较同时成立：区间不含 0 为更好或更差，"
              "落在声明为无关紧要的容差之内为等效，否则为未定。"),
        Words("Bold is every value that is tied with the best of its column, among those on the same data: nothing "
              "was shown to be better, over all pairs of the section. Where a section is not ranked, nothing in it is "
              "bold.",
              "粗体表示在相同数据上与该列最佳值并列：就本节所有配对而言，没有任何一个值显示出比它更优。"
              "未作排名的小节没有粗体。"),
        TRAINED_ON[frozenset(drawn)],
    ]  # fmt: skip


TRAINED_ON = {
    frozenset({False}): Words(
        "All seeds train on the same texts: what is concluded holds for these training texts.",
        "所有种子使用相同的训练文本：结论仅对这些训练文本成立。",
    ),
    frozenset({True}): Words(
        "Each seed draws its own training texts: what is concluded holds for training texts drawn from this data.",
        "每个种子各自抽取训练文本：结论适用于从该数据中抽取的训练文本。",
    ),
    frozenset({False, True}): Words(
        "With data.resample each seed draws its own training texts; without it all seeds train on the same, and what "
        "is concluded holds for these.",
        "设 data.resample 时每个种子各自抽取训练文本；否则所有种子使用相同的训练文本，结论仅对这些文本成立。",
    ),
}


def reading(results: Results, to: Markup = MARKDOWN) -> list[Words]:
    """How the numbers are to be read: what stands above them all."""
    rows = [row for section in results.grid.sections for row in section.rows]
    drawn = {row.drawn for row in rows} or {False}
    lines = how_to_read(len(results.grid.experiment.seeds), results.grid.stopping is not None, drawn)
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
    errors = []
    for data, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and 0 <= mean <= 1:
            count = sum(counts.values())
            errors.append(StandardError(data, count, (mean * (1 - mean) / count) ** 0.5))
    return errors


def class_counts(results: Results) -> list[Words]:
    """A table for each data set."""
    counted = []
    for data, cells in cells_by_data(results).items():
        if counts := dict(counts_of(results, cells)):
            if (seed := seed_of_draw(results, cells)) is not None:
                counts[f"train (seed {seed})"] = counts.pop("train")
            frame = pd.DataFrame(counts).T.fillna(0).astype(int)
            lines = [
                [str(split), *map(str, row), str(sum(row))]
                for split, row in zip(frame.index, frame.to_numpy(), strict=True)
            ]
            classes = [plain(name) for name in frame.columns]
            of, von = (f" of {plain(data)}", f"（{plain(data)}）") if data else ("", "")
            counted.append(
                Words(
                    markdown([["Split" + of, *classes, "all"], *lines]),
                    markdown([["划分" + von, *classes, "合计"], *lines]),
                )
            )
    return counted


def counts_of(results: Results, cells: list[str]) -> Mapping[str, Mapping[str, int]]:
    """Of the first cell of which they are noted."""
    noted = (provenance for cell in cells if (provenance := results.provenance(cell)))
    first = next(noted, None)
    return first.class_counts if first else {}


def seed_of_draw(results: Results, cells: list[str]) -> int | None:
    """Whose training texts these counts are of; None where all seeds have the same."""
    first = next((cell for cell in cells if results.provenance(cell)), None)
    rows = [row for section in results.grid.sections for row in section.rows if row.drawn and first in row.cells]
    return rows[0].seeds[rows[0].cells.index(str(first))] if rows else None


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    cells: dict[str, list[str]] = {}
    for section in results.grid.sections:
        for row in section.rows:
            cells.setdefault(row.data, []).extend(cell for cell in row.cells if cell in results.cells)
    return cells
