"""The methods of a study, as a paper states them: sentences, citations, and a table of hyperparameters."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from contrastive.config.experiment import source_name
from reports.chosen import given_rows
from reports.markdown import SPLITS, heading, unit
from reports.messages import _, listed, n_
from reports.provenance import cells_by_data, counts_of
from reports.statistics.decide import ALPHA
from reports.study import Results, Study
from reports.tables import Entry, Table

REFERENCES = Path(__file__).parent / "templates" / "references.bib"
SAME_PAPER = {"ntxent": "simclr", "dropout-ntxent": "simclr"}  # losses that the paper of another one defines
UNREAD = ("data.text", "data.label")  # columns, which say nothing of data in packages


def methods(results: Results) -> list[str]:
    """Return sentences on data, encoder, training, tuning, seeds and statistics; none for another program's runs."""
    study = results.study
    if study.foreign is not None:
        return []
    return [*data_sentences(results), *training_sentences(study), *statistics_sentences(study)]


def data_sentences(results: Results) -> list[str]:
    """Name each data set with its source, the digest of its content and the sizes of its splits."""
    lines = []
    rows = [row for section in results.study.sections for row in section.rows]
    for name, cells in cells_by_data(results).items():
        row = next(row for row in rows if row.data == name)
        counts = {split: sum(by_class.values()) for split, by_class in counts_of(results, cells).items()}
        sizes = [_("{count} {split}", count=count, split=_(SPLITS[split])) for split, count in counts.items() if count]
        words = _(
            "{name} ({source}, content {digest}): {sizes} examples.",
            name=name or results.study.source,
            source=(row.settings or {}).get("data.source", ""),
            digest=next((p.data_digest for cell in cells if (p := results.provenance(cell)) and p.data_digest), ""),
            sizes=listed(sizes),
        )
        lines += [words] if sizes else []
    if any(row.drawn for row in rows):
        lines.append(_("Each seed draws its own training examples."))
    return lines


def training_sentences(study: Study) -> list[str]:
    """Say what was trained, and which settings were tuned how."""
    models = listed(sorted(settings_of(study, "encoder.model")))
    lines = [_("The encoder is {models}, trained with AdamW; the table lists all hyperparameters.", models=models)]
    if study.choice is None:
        return [*lines, _("This experiment chose no hyperparameters.")]
    tried = listed(list(dict.fromkeys(value for row in study.chosen for value in row.tried)), most=20)
    words = n_(
        "For each row and data set, the best of {tried} was chosen by {score} at seed {seeds}, which no comparison "
        "uses.",
        "For each row and data set, the best of {tried} was chosen by {score} at seeds {seeds}, which no comparison "
        "uses.",
        len(study.choice.seeds),
        tried=tried,
        score=heading(study.choice.by),
        seeds=listed(study.choice.seeds),
    )
    given = given_rows(study)
    return [*lines, words, _("The values of {rows} were given.", rows=listed(given))] if given else [*lines, words]


def statistics_sentences(study: Study) -> list[str]:
    """Say how differences are tested."""
    lines = [
        _(
            "Differences are paired by seed and by test example. Their {level} % intervals add the variance over seeds "
            "and over examples after Banerjee (1961), and hold for all rows and tested scores of a section together.",
            level=f"{100 * (1 - ALPHA):g}",
        )
    ]
    margins = [
        _("{margin} for {score}", margin=f"{unit(score) * margin:g}", score=heading(score))
        for score, margin in study.margins.items()
    ]
    if margins:
        lines.append(
            _(
                "Rows are equivalent if the interval lies within the margin declared before: {margins}.",
                margins=listed(margins),
            )
        )
    if study.most_seeds is not None:
        lines.append(
            _(
                "Seeds were added, up to {most}, to undecided comparisons; intervals allow for all looks.",
                most=study.most_seeds,
            )
        )
    lines.append(_("± is half an interval; brackets hold the standard deviation over seeds."))
    return lines


def hyperparameters(study: Study) -> Table | None:
    """Return a line for each setting: the value of most rows, then the others with their rows."""
    rows = [(row, Place(row.label, section.setting)) for section in study.sections for row in section.rows]
    held: dict[str, dict[str, set[Place]]] = {}  # setting → value → where
    for row, place in rows:
        for setting, value in (row.settings or {}).items():
            held.setdefault(setting, {}).setdefault(value, set()).add(place)
    every = {place for _row, place in rows}
    body = [
        [Entry(setting, style="code"), Entry(values_text(values, every), style="words")]
        for setting, values in sorted(held.items())
        if setting not in UNREAD
    ]
    return Table(None, [_("Hyperparameter"), _("value")], body) if body else None


class Place(NamedTuple):
    """A row in one of the settings of a study."""

    row: str
    setting: str


def values_text(values: Mapping[str, set[Place]], every: set[Place]) -> str:
    """`2; 4: R-Drop`: the value of most rows without their names, unless some rows lack the setting."""
    ordered = sorted(values.items(), key=lambda held: (-len(held[1]), held[0]))
    everywhere = set().union(*values.values()) == every
    parts = [
        value if number == 0 and everywhere else f"{value}: {places_text(places, every)}"
        for number, (value, places) in enumerate(ordered)
    ]
    return "; ".join(parts)


def places_text(places: set[Place], every: set[Place]) -> str:
    """Name rows, settings if all their rows are meant, or rows with their settings."""
    rows, settings = {place.row for place in places}, {place.setting for place in places}
    if places == {place for place in every if place.row in rows}:
        return ", ".join(sorted(rows))
    if places == {place for place in every if place.setting in settings}:
        return ", ".join(sorted(settings))
    return ", ".join(f"{row} ({setting})" if setting else row for row, setting in sorted(places))


def settings_of(study: Study, setting: str) -> set[str]:
    return {value for section in study.sections for row in section.rows if (value := (row.settings or {}).get(setting))}


def cited(study: Study) -> dict[str, str]:
    """Map what the study uses and a paper defines (losses, encoders, data, adapters) to its BibTeX entry."""
    losses = {name for loss in settings_of(study, "loss") for name in loss.split("+")}
    used = {SAME_PAPER.get(name, name) for name in losses} | {"adamw", "banerjee"}
    used |= {source_name(value) for name in ("encoder.model", "data.source") for value in settings_of(study, name)}
    used |= {"lora"} if any('"r"' in value for value in settings_of(study, "encoder.tune")) else set()
    return {key: entry for key, entry in references().items() if any(is_of(name, key) for name in used)}


def is_of(name: str, key: str) -> bool:
    """Return whether a name is the key or a form of it, such as `supcon_in` of `supcon`."""
    return name == key or name.startswith(f"{key}_") or name == f"{key}w"


@cache
def references() -> dict[str, str]:
    """Map keys to the entries of the bibliography, which has one a line."""
    lines = REFERENCES.read_text(encoding="utf-8").splitlines()
    return {line.partition("{")[2].partition(",")[0]: line for line in lines}
