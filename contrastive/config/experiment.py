"""Schema of an experiment file: immutable objects, fully validated before anything runs.

A `Cell` holds exactly what decides a result. Everything else in an `Experiment` (title, show, evaluation, resources)
is outside the cell, so changing it never causes a cell to be trained again.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints, create_model, model_validator

from contrastive.config import registry
from contrastive.config.base import Column, Name, Positive, Seed, Settings, Share
from contrastive.config.cell import PARTS, SETTINGS, Data, Encoder, Training, add_plugin
from contrastive.config.evaluation import Evaluation
from contrastive.config.objective import Objective


class Speed(Settings):
    reuse: Literal["none", "full", "half"] = Field(
        "full",
        description="store the output of frozen blocks in full or half precision and compute it once, for cells with "
        "tune.frozen_dropout: false; none: compute every pass",
    )


def _types() -> dict[str, Any]:
    """Return the type of each setting; files of users add some."""
    return {
        name: Annotated[field.annotation, Field(), *field.metadata]
        for part in PARTS.values()
        for name, field in part.model_fields.items()
    }


def _lists() -> dict[str, Any]:
    return {name: Annotated[tuple[kind, ...], Field(min_length=1)] for name, kind in _types().items()}  # type: ignore[valid-type]


class Checked(dict[str, Any]):
    """Settings with values as the parts of a cell hold them; `written`: as the file has them, which is recorded."""

    written: Mapping[str, Any]


def _as_tuples(value: Any) -> Any:
    """Return lists, as JSON has them, as the tuples that the YAML reader makes of them."""
    if isinstance(value, Mapping):
        return {name: _as_tuples(inner) for name, inner in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def _checked(name: str, types: Callable[[], dict[str, Any]]) -> AfterValidator:
    """Return a validator that makes maps of settings of these types `Checked`."""

    @cache
    def model(known: int) -> type[Settings]:
        fields: dict[str, Any] = {setting: (kind, None) for setting, kind in types().items()}
        return create_model(name, __base__=Settings, **fields)

    def checked(settings: Mapping[str, Any]) -> Checked:
        values = {name: _as_tuples(value) for name, value in settings.items()}
        parsed = model(len(SETTINGS)).model_validate(values, strict=True)
        made = Checked({setting: getattr(parsed, setting) for setting in settings})
        made.written = settings
        return made

    return AfterValidator(checked)


AS_WRITTEN = PlainSerializer(lambda settings: settings.written if isinstance(settings, Checked) else settings)
Overlay = Annotated[Mapping[str, Any], _checked("Overlay", _types), AS_WRITTEN]
Axes = Annotated[Mapping[str, tuple[Any, ...]], _checked("Axes", _lists), AS_WRITTEN]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
OF_ROWS: dict[str, Any] = {"axes": Axes, "exclude": tuple[Overlay, ...], "soup": Names}
SectionRow = Annotated[Mapping[str, Any], _checked("SectionRow", lambda: _types() | OF_ROWS), AS_WRITTEN]
OF_CHOICES: dict[str, Any] = {"by": str, "seeds": Annotated[tuple[Seed, ...], Field(min_length=1)]}
Choice = Annotated[Mapping[str, Any], _checked("Choice", lambda: _lists() | OF_CHOICES), AS_WRITTEN]
NO_BASELINE = "none"
ABSOLUTE = re.compile(r"^([a-z-]+:|)/(?!/)(?:.*/)?(?=[^/]+/?$)")  # everything before the name of a file


class ShownTable(Settings):
    """A table with one line per row of the section, or, with `columns`, one pivot table per value."""

    rows: str | None = Field(None, description="axis that names the rows; left out: all axes")
    columns: str | None = Field(None, description="axis that names the columns of a pivot")
    values: tuple[str, ...] = Field(("test.accuracy",), min_length=1, description="SPLIT.METRIC, e.g. test.accuracy")
    family: tuple[str, ...] | None = Field(None, description="values that are tested together; left out: all values")

    def conflict(self) -> str:
        missing = [name for name in self.family or () if name not in self.values]
        return f"`family` names `{missing[0]}`, not one of the values: {', '.join(self.values)}" if missing else ""


class Show(Settings):
    table: ShownTable = ShownTable()
    tsne: bool = Field(False, description="a grid of t-SNE pictures, one per row, at the first seed")
    curves: bool = Field(False, description="loss and gradient-norm curves")
    transfer: bool = Field(False, description="a table of the main metric on all transfer data, and their mean")


class Section(Settings):
    """One question and table of the report: its rows, and how to show them."""

    title: str = Field(min_length=1)
    note: str = ""
    settings: tuple[str, ...] | None = Field(
        None, min_length=1, description="names of the settings in which it is asked; left out: all"
    )
    base: Overlay = Field(default_factory=dict, description="settings of all rows")
    rows: Mapping[str, SectionRow] = Field(
        min_length=1,
        description="name → settings; with `axes` (setting → values) each combination is a row, and each axis stands "
        "in the name as {setting}; `exclude` drops combinations; `soup` names rows, whose weights are averaged",
    )
    baseline: Column | None = Field(
        None, description="name of the row that the others are compared with, or none; left out: the first"
    )
    show: Show = Show()

    def baseline_name(self) -> str:
        return next(iter(self.rows)) if self.baseline is None else self.baseline

    def trained(self) -> dict[str, SectionRow]:
        """Return the rows that train: all but soups."""
        return {key: row for key, row in self.rows.items() if "soup" not in row}

    def varied(self) -> tuple[str, ...]:
        """Return the settings in which the rows may differ."""
        names = [name for row in self.rows.values() for name in (*settings_of_row(row), *row.get("axes", ()))]
        return tuple(dict.fromkeys(names))


def settings_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a section's row, without its `axes` and `exclude`."""
    return {name: value for name, value in row.items() if name in SETTINGS}


def choices_of(choose: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the settings to choose and their values, without `by` and `seeds`."""
    return {name: values for name, values in choose.items() if name in SETTINGS}


class Slurm(Settings):
    """Jobs of `ablate run --engine slurm`: an array of equal workers, each of which takes one cell after another."""

    workers: Positive = Field(8, description="most jobs at a time")
    time: str = Field(
        "1:00:00",
        pattern=r"^([5-9]|[1-9]\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2})$",
        description='wall time of a job of 5 minutes or more: "30" (minutes), "4:00:00" or "1-00:00:00"',
    )
    partition: str | None = None
    account: str | None = None
    gres: str | None = Field(None, description="generic resources of a job, e.g. gpu:1")
    lines: tuple[Annotated[str, StringConstraints(pattern=r"^[^-]")], ...] = Field(
        (), description="further lines of the script, such as `#SBATCH --mem=32G` or `module load cuda`"
    )


class Resources(Settings):
    """Where and how cells run; no result depends on it."""

    slots: Positive | None = Field(None, description="cells that run at a time; left out: as many as fit")
    gpus_per_cell: Share = Field(
        1.0, description="share of a GPU per cell or process; 0.5: two cells on a GPU, 0: no GPU"
    )
    most_cells: Positive = Field(100_000, description="most cells of a grid; a file with more is rejected as a mistake")
    checkpoint_every: Positive = Field(200, description="optimizer steps between two checkpoints of a cell")
    slurm: Slurm = Slurm()
    hung_after: Positive = Field(1800, description="seconds without a finished step after which a cell is restarted")


def source_name(source: str) -> str:
    """Return the last part of a source: `tweets.csv` for file:/somewhere/tweets.csv."""
    return source.partition("@")[0].partition(":")[2].rpartition("/")[2] or source


def without_folders(text: str) -> str:
    """Return `file:x.csv` for file:/home/somebody/x.csv: reports must not reveal the folders of users."""
    return ABSOLUTE.sub(r"\1", text)


class Report(Settings):
    """Settings of a report: margins, author, prices. No training or evaluation depends on them."""

    margin: Mapping[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="score or metric → margin of equivalence, the largest difference that does not matter, e.g. "
        "{accuracy: 0.01}; left out: 0.01 for scores between 0 and 1 or −1 and 1, none for others",
    )
    primary: str | None = Field(
        None, description="the score that is tested, e.g. test.accuracy; left out: all scores of a table, corrected"
    )
    author: str = Field("", max_length=100, description="shown on the report's first screen; left out: nobody")
    price_per_hour: float | None = Field(
        None, ge=0, description="price of a GPU hour, or of an hour of a machine without GPU; left out: none"
    )
    currency: str = Field("USD", min_length=1)
    language: Literal["en", "zh"] = Field("en", description="language of the report: English or Chinese")

    def family(self, table: ShownTable) -> list[str]:
        """Return the scores of a table that are tested: its family, else the primary score if shown, else all."""
        if table.family is not None:
            return list(table.family)
        return [self.primary] if self.primary in table.values else list(table.values)


class Experiment(Settings):
    name: Name
    description: str = ""
    settings: Mapping[str, Overlay] = Field(
        default_factory=dict,
        description="name of a data set, encoder or both → its settings; all sections are asked in each",
    )
    plugins: tuple[str, ...] = Field((), description="Python files with code of your own: losses, views, metrics …")
    choose: Choice | None = Field(
        None,
        description="settings whose values are chosen for each row: setting → its values; with `by`, a score on "
        "validation texts or transfer data, and `seeds`, neither of which a comparison uses",
    )
    data: Data
    encoder: Encoder
    objective: Objective = Field(default_factory=Objective)
    training: Training = Training()
    seeds: tuple[Seed, ...] = Field((0, 1, 2), min_length=1)
    sections: tuple[Section, ...] = Field(min_length=1)
    evaluation: Evaluation = Evaluation()
    resources: Resources = Resources()
    speed: Speed = Speed()
    report: Report = Report()

    @model_validator(mode="before")
    @classmethod
    def _source_of_settings(cls, values: Any) -> Any:
        """Take the first setting's source for data without one, if all settings name theirs."""
        for copy in registry.copies_to_add(values.get("plugins")):
            add_plugin(copy)
        data, settings = values.get("data"), values.get("settings")
        named = settings.values() if isinstance(settings, dict) else ()
        sources = [isinstance(each, dict) and each.get("source") for each in named]
        if isinstance(data, dict) and "source" not in data and sources and all(sources):
            return values | {"data": {"source": sources[0]} | data}
        return values

    def settings_of(self, section: Section) -> tuple[str, ...]:
        """Return the names of the settings in which a section is asked; an empty one if there are none."""
        return section.settings or tuple(self.settings) or ("",)
