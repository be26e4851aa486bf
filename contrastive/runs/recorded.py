"""What MLflow holds of a grid and of its cells beside the numbers, as it is recorded and as reports read it.

Who records builds these types, and who reads gets them back. What an earlier version did not record has a default.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contrastive.config.experiment import Experiment, Show
from contrastive.errors import UserError


@dataclass(frozen=True)
class RecordedRow:
    """A configuration of a section: one cell for each seed."""

    label: str
    axes: dict[str, Any]  # the axes that matter to it, as a table shows them
    baseline: bool
    data: str  # how its data is told apart; empty where all cells have the same
    cells: list[str]  # ids
    seeds: list[int]  # of the cells, in their order
    against: int | None = None  # which row of the section is its baseline; none of a row that is one
    settings: dict[str, str] | None = None  # of its cells, by name; None in grids that did not record them yet

    @property
    def drawn(self) -> bool:
        """Whether each of its seeds draws its own training texts."""
        return (self.settings or {}).get("data.resample") == "true"


@dataclass(frozen=True)
class RecordedSection:
    title: str
    note: str
    show: Show
    rows: list[RecordedRow]


@dataclass(frozen=True)
class Reference:
    """What the cells of one data set are measured against: score → value."""

    name: str
    data: str
    scores: dict[str, float]


@dataclass(frozen=True)
class DataCounts:
    """How many rows of a data set were read and dropped, as preparing its tokens counted them."""

    name: str
    transfer: bool  # whether it is transfer data, on which finished encoders are tried
    sifted: dict[str, dict[str, int]]  # what was read → `rows`, and reason → how many were dropped
    wordless: dict[str, int]  # split → texts of which the tokenizer leaves nothing
    merged: dict[str, list[str]]  # class → the labels that were taken for it


@dataclass(frozen=True)
class Declaration:
    """What was decided beforehand of how results are judged, as it was when `finished` cells of the grid had some."""

    finished: int
    margins: dict[str, float]  # score → margin
    families: dict[str, list[str]]  # section → the scores that are tested
    rows: dict[str, list[str]]  # section → labels
    seeds: list[int]
    most_seeds: int | None = None  # of a study that stops by itself
    configurations: dict[str, dict[str, str]] = field(default_factory=dict)  # section → digest of settings → label
    baselines: dict[str, list[str]] = field(default_factory=dict)  # section → digests of those that others meet
    test_texts: list[str] = field(default_factory=list)  # how many the cells are measured on, or which split
    embeddings: list[str] | None = None  # further vectors and post-processing, each of which is compared


@dataclass(frozen=True)
class StudyLook:
    """What was decided of a section when its undecided rows had so many seeds."""

    seeds: int
    verdicts: dict[str, str]  # configuration and score → verdict


@dataclass(frozen=True)
class Stopping:
    """A study that stops by itself: at most so many seeds; of each section its looks, and why it has no more."""

    most_seeds: int
    looks: dict[str, list[StudyLook]] = field(default_factory=dict)  # section → its looks
    ended: dict[str, str] = field(default_factory=dict)  # section → decided, most seeds, budget, nothing to compare


@dataclass(frozen=True)
class RecordedGrid:
    """grid.json: the experiment, its sections, and what is known of its data and of cells that failed."""

    experiment: Experiment
    sections: list[RecordedSection]
    references: list[Reference]
    data: list[DataCounts] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # cell → why
    stale_kept: list[str] = field(default_factory=list)  # cells of older code that stand in for today's
    declared: list[Declaration] = field(default_factory=list)  # the first, and each that differs from the one before
    stopping: Stopping | None = None  # None: the number of seeds was fixed beforehand

    def document(self) -> dict[str, Any]:
        """As grid.json holds it."""
        document: dict[str, Any] = GRID.dump_python(self, mode="json")
        return document

    def digest(self, marks: Mapping[str, str]) -> str:
        """Of the grid and its results. `marks`: cell → what tells its results from others."""
        content = json.dumps([self.document(), sorted(marks.items())], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Hardware:
    device: str
    cpu: str
    cores: int | None
    memory_gib: int | float


@dataclass(frozen=True)
class Predicted:
    """What `ablate plan` says of a cell before it runs."""

    seconds: float
    memory_bytes: int | float


@dataclass(frozen=True)
class Provenance:
    """provenance.json: where the numbers of a cell come from, and what they took."""

    wall_seconds: float
    gpu_seconds: float
    hardware: Hardware
    commit: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)  # name → version
    peak_memory_mib: int = 0
    code: str | None = None  # digest of the code that computed the cell
    data_digest: str | None = None
    energy_joules: Mapping[str, float] | None = None  # meter → what it read
    predicted: Predicted | None = None
    peak_memory_bytes: int | None = None
    threads: int | None = None
    processes: int | None = None
    micro_batch: int | None = None
    speed: Mapping[str, Any] | None = None  # how the cell was computed faster
    trained_parameters: int | None = None
    collapsed_since: int | None = None  # the step
    class_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # split → class → texts


GRID = TypeAdapter(RecordedGrid)
PROVENANCE = TypeAdapter(Provenance)


def parse_grid(text: bytes, name: str) -> RecordedGrid:
    """The grid of an experiment from its grid.json."""
    try:
        return GRID.validate_json(text)
    except ValidationError as error:
        raise UserError(
            f"the grid of {name} that MLflow holds is damaged or of another version of this program "
            f"({first_problem(error)}): `ablate sync` with its experiment file records it anew"
        ) from None


def parse_provenance(text: bytes, name: str) -> Provenance | None:
    """Where a cell's numbers come from, from its provenance.json; None where that says nothing."""
    if text.strip() == b"{}":
        return None
    try:
        return PROVENANCE.validate_json(text)
    except ValidationError as error:
        raise UserError(
            f"provenance.json of the cell {name} is damaged in MLflow ({first_problem(error)}): "
            "`ablate audit EXPERIMENT --mend` replaces it"
        ) from None


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
