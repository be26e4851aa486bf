"""Whether a run is the one that its place in the table says, and MLflow holds what was measured."""

from collections.abc import Iterator

from contrastive.runs.recorded import RecordedSection
from reports.guards.shown import Guard, Shown, default, listed, where
from reports.load import Results
from reports.messages import _

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
            _("These cells are not what their row says: {location} ({names}).", location=location, names=names),
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


def other_scores(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Scores that MLflow holds otherwise than scores.json, or of which scores.json knows nothing."""
    finished = {cell.cell: cell for cell in cells if cell.status == "finished"}
    mismatched = results.mismatched
    wrong = [cell for name, cell in finished.items() if name in mismatched]
    if wrong:
        location, names = where(wrong), listed(sorted({name for cell in wrong for name in mismatched[cell.cell]}), 3)
        yield Guard(
            "scores",
            _("MLflow holds other numbers than scores.json, for {names}: {location}.", names=names, location=location),
            True,
        )


CHECKS = (other_settings, other_scores)
