"""Whether a run is the one that its place in the table says, and MLflow holds what was measured."""

from collections.abc import Iterator

from contrastive.runs.recorded import RecordedSection
from reports.bilingual import Words
from reports.guards.shown import Guard, Shown, default, listed, where
from reports.load import Results

LONGEST = 6000  # characters of a parameter that MLflow is given


def other_settings(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Runs whose settings or seed are not those of their row."""
    wrong: list[Shown] = []
    said: list[str] = []
    for cell in cells:
        if cell.params and (differences := setting_differences(cell)):
            wrong.append(cell)
            said += differences
    if wrong:
        names, location = listed(list(dict.fromkeys(said)), 3), where(wrong)
        yield Guard(
            "identity",
            Words(
                f"These cells are not what their row says: {location.en} ({names.en}).",
                f"这些单元与所在行的设置不符：{location.zh}（{names.zh}）。",
            ),
            True,
        )


def setting_differences(cell: Shown) -> list[str]:
    settings = cell.row.settings
    if settings is None:  # a grid of before rows had any
        return []
    expected = settings | {"seed": str(cell.seed)}
    return [
        f"{name} is {short(own)}, not {short(meant)}"
        for name in sorted({*expected, *(cell.params or {})})
        for own, meant in [(cell.setting(name), expected.get(name, default(name))[:LONGEST])]
        if own != meant
    ]


def short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}…"


def one_run_twice(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """A cell that stands in the table more than once."""
    seen: dict[str, Shown] = {}
    again = [cell for cell in cells if seen.setdefault(cell.cell, cell) is not cell]
    if again:
        location = where(again)
        yield Guard(
            "identity",
            Words(
                f"These cells are shown in another place of this table, too: {location.en}.",
                f"这些单元在本表的其他位置重复出现：{location.zh}。",
            ),
            True,
        )


def other_scores(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Scores that MLflow holds otherwise than scores.json, or of which scores.json knows nothing."""
    finished = {cell.cell: cell for cell in cells if cell.status == "finished"}
    mismatched = results.mismatched
    wrong = [cell for name, cell in finished.items() if name in mismatched]
    if wrong:
        location, names = where(wrong), listed(sorted({name for cell in wrong for name in mismatched[cell.cell]}), 3)
        yield Guard(
            "scores",
            Words(
                f"MLflow holds other numbers than scores.json, for {names.en}: {location.en}.",
                f"MLflow 中的 {names.zh} 与 scores.json 不一致：{location.zh}。",
            ),
            True,
        )


CHECKS = (other_settings, one_run_twice, other_scores)
