"""Study and Results, the input of every report: what was asked, and what was measured, whoever made the runs.

The recorded grid of an experiment and another program's table (package `ablate`) are turned into a Study.
"""

import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from contrastive.config.experiment import NO_BASELINE, choices_of, source_name
from contrastive.runs.recorded import (
    ChosenRow,
    DataCounts,
    Declaration,
    Provenance,
    RecordedGrid,
    RecordedRow,
    RecordedSection,
    Reference,
    Stopping,
)  # fmt: skip
from reports.messages import Language

SCORE = re.compile(r"(.+/)?(test|validation|train|transfer)\.")  # matches names of scores, not of other metrics
MEASURED = ["cell", "score", "value", "higher_is_better", "count", "unit", "standard_error"]


@dataclass(frozen=True)
class Foreign:
    """Facts about runs that another program made: rows may have any seeds, and how they trained is not known."""

    command: str = ""  # builds the report again
    paired: bool = True  # whether equal seeds belong together
    notes: tuple[str, ...] = ()  # what readers should know of how the runs were read


@dataclass(frozen=True)
class ChoiceRule:
    """The settings whose values were chosen for each row, the score that decided, and its seeds."""

    names: list[str]  # settings
    by: str  # score
    seeds: list[int]


@dataclass(frozen=True)
class Study:
    """Sections, names for readers, margins, the scores that are tested, and what was recorded beside the runs."""

    name: str
    sections: list[RecordedSection]
    source: str  # of the training data, or the table that has the scores
    _: KW_ONLY
    encoder: str = ""
    description: str = ""
    margins: Mapping[str, float] = field(default_factory=dict)  # score or metric → margin of equivalence
    primary: str | None = None  # the score of the headline
    families: Mapping[str, list[str]] = field(default_factory=dict)  # section → tested scores; else all shown ones
    varied: Mapping[str, set[str]] = field(default_factory=dict)  # section → settings in which its rows may differ
    baselines: frozenset[str] = frozenset()  # sections that declare one
    transfer: tuple[str, ...] = ()  # scores on transfer data
    variants: tuple[str, ...] = ("",)  # prefixes of scores of other vectors, such as `whiten:64/`
    references: list[Reference] = field(default_factory=list)
    data: list[DataCounts] = field(default_factory=list)
    failed: Mapping[str, str] = field(default_factory=dict)  # cell → reason
    declared: list[Declaration] = field(default_factory=list)
    stopping: Stopping | None = None  # None: the number of seeds was fixed beforehand
    chosen: list[ChosenRow] = field(default_factory=list)
    choice: ChoiceRule | None = None
    price_per_hour: float | None = None
    currency: str = ""
    author: str = ""
    language: Language = "en"
    file: str = "FILE"  # of the experiment
    foreign: Foreign | None = None  # None: this project made the runs

    @property
    def paired(self) -> bool:
        """True if rows are compared seed by seed."""
        return self.foreign is None or self.foreign.paired

    @property
    def most_seeds(self) -> int | None:
        """The limit of a study that adds seeds; None if the number of seeds was fixed beforehand."""
        return None if self.stopping is None else self.stopping.most_seeds


def study_of(grid: RecordedGrid) -> Study:
    """Return the study of a recorded grid."""
    experiment = grid.experiment
    report, evaluation = experiment.report, experiment.evaluation
    families = {section.title: report.family(section.show.table) for section in grid.sections}
    choose = experiment.choose
    asked = {section.title: section for section in experiment.sections}
    names = {section.title: section.question or section.title for section in grid.sections}
    declared = {title: asked[name] for title, name in names.items() if name in asked}
    settings = [name for name in dict.fromkeys(section.setting for section in grid.sections) if name]
    source = all_named("data.source", experiment.data.source, grid.sections)
    shown = {section.title: list(section.show.table.values) for section in grid.sections}
    tasks = [task.scores()[0] for task in evaluation.transfer]
    sections = grid.sections if grid.stopping is None else with_all_seeds(grid.sections)
    return Study(
        experiment.name,
        sections,
        ", ".join(settings) or source,
        encoder=all_named("encoder.model", experiment.encoder.model, grid.sections),
        description=experiment.description,
        margins=report.margin,
        primary=report.primary,
        families={title: names for title, names in families.items() if names != shown[title]},
        varied={title: {*section.varied(), *choices_of(choose or {})} for title, section in declared.items()},
        baselines=frozenset(title for title, section in declared.items() if section.baseline != NO_BASELINE),
        transfer=(*tasks, *(["transfer.mean"] if len(tasks) > 1 else [])),  # as GLUE does
        variants=tuple(
            "".join(f"{part}/" for part in (vectors, post) if part)
            for vectors in ("", *evaluation.vectors)
            for post in ("", *evaluation.post)
        ),
        references=grid.references,
        data=grid.data,
        failed=grid.failed,
        declared=grid.declared,
        stopping=grid.stopping,
        chosen=grid.chosen,
        choice=None if choose is None else ChoiceRule([*choices_of(choose)], choose["by"], [*choose["seeds"]]),
        price_per_hour=report.price_per_hour,
        currency=report.currency,
        author=report.author,
        language=report.language,
        file=grid.file,
    )


def with_all_seeds(sections: list[RecordedSection]) -> list[RecordedSection]:
    """Give each row of a study that adds seeds all seeds that any section has of its configuration."""
    longest = dict[str, RecordedRow]()
    for row in (row for section in sections for row in section.rows if row.cells):
        known = longest.get(row.cells[0], row)
        longest[row.cells[0]] = row if len(row.cells) > len(known.cells) else known
    extended = []
    for section in sections:
        longer = [longest[row.cells[0]] if row.cells else row for row in section.rows]
        rows = [
            replace(row, cells=most.cells, seeds=most.seeds) for row, most in zip(section.rows, longer, strict=True)
        ]
        extended.append(replace(section, rows=rows))
    return extended


def all_named(setting: str, usual: str, sections: list[RecordedSection]) -> str:
    """Return the names for readers of all data sets or encoders of the rows, in their order."""
    values = [(row.settings or {}).get(setting, usual) for section in sections for row in section.rows]
    return ", ".join(dict.fromkeys(map(source_name, values or [usual])))


@dataclass(frozen=True)
class Picture:
    """Coordinates of texts of a cell in two dimensions, by t-SNE; if there are none, `reason` says why."""

    x: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    reason: str = ""
    near: np.ndarray | None = None  # images, each followed by its nearest neighbours, and their labels
    near_labels: np.ndarray | None = None
    images: np.ndarray | None = None  # small images of some of the texts, and their ids
    image_ids: np.ndarray | None = None


@dataclass(frozen=True)
class CellRun:
    """A cell's run in MLflow, without its numbers."""

    name: str
    status: str
    error: str = ""
    provenance: Provenance | None = None  # None if the run has no provenance.json
    run_id: str = ""
    artifact_uri: str = ""
    params: dict[str, str] = field(default_factory=dict)
    evaluation: str = ""  # fingerprint of the evaluation settings


@dataclass(frozen=True)
class Kind:
    """Properties that all values of a score share."""

    higher_is_better: bool | None  # None for a descriptive score
    count: int | None = None  # number of texts


@dataclass(frozen=True, repr=False)  # the repr would print all measurements
class Results:
    """All results of an experiment. `scores`: cell × score, from MLflow's metrics. `curves`: cell, key, step, value.
    `measured`: cell, score and its properties, from scores.json.
    """

    study: Study
    cells: dict[str, CellRun]
    scores: pd.DataFrame
    curves: pd.DataFrame
    tsne: dict[str, Picture]
    kinds: dict[str, Kind]  # by name of score
    _: KW_ONLY
    measured: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=MEASURED))
    experiment_id: str = ""
    uri: str = ""
    artifact: Callable[[str, str, str], Path | None] | None = None  # run id, artifact URI, name of a file → its path
    notes: dict[str, dict[str, str]] = field(default_factory=dict)  # cell → score left out → reason
    digest: str = ""  # of the grid and all results

    def provenance(self, cell: str) -> Provenance | None:
        return self.cells[cell].provenance if cell in self.cells else None

    def marks(self, cell: str) -> dict[str, int]:
        """Return a checksum of each array of examples.npz without reading the arrays: equal arrays have equal marks."""
        path = self._file(cell, "examples.npz")
        if path is None:
            return {}
        with zipfile.ZipFile(path) as arrays:
            return {entry.filename.removesuffix(".npy"): entry.CRC for entry in arrays.infolist()}

    def examples(self, cell: str, names: Iterable[str]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Read the arrays with these names that exist, and the checksums of the texts' ids."""
        path = self._file(cell, "examples.npz")
        if path is None:
            return {}, {}
        with np.load(path) as arrays:
            entries = arrays.zip.NameToInfo
            marks = {name.removesuffix(".npy"): entries[name].CRC for name in entries if name.endswith(".ids.npy")}
            return {name: arrays[name] for name in names if f"{name}.npy" in entries}, marks

    @property
    def score_names(self) -> list[str]:
        """Names of all scores; MLflow's runs also have other metrics, such as losses."""
        names: list[str] = self.scores.columns.tolist()
        return names if self.study.foreign else list(filter(SCORE.match, names))

    @cached_property
    def by_score(self) -> dict[str, dict[str, float]]:
        """Score → cell → value, for fast lookup of single values."""
        cells = self.scores.index.tolist()
        return {name: dict(zip(cells, self.scores[name].tolist(), strict=True)) for name in self.scores.columns}

    def _file(self, cell: str, name: str) -> Path | None:
        """Return the path of a file of a finished cell; None for other cells, whose files are not shown."""
        run = self.cells.get(cell)
        if self.artifact is None or run is None or run.status != "finished":
            return None
        return self.artifact(run.run_id, run.artifact_uri, name)
