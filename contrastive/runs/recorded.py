"""Types of grid.json and provenance.json in MLflow, which record a grid and the origin of each cell's numbers.

Fields that results of other programs lack have a default.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from contrastive.config.experiment import Experiment, Show
from contrastive.errors import UserError

Record = TypeVar("Record")
MEND = "run `ablate audit EXPERIMENT --mend` to replace it"


@dataclass(frozen=True)
class RecordedRow:
    """A configuration of a section: one cell for each seed."""

    label: str
    axes: dict[str, Any]  # the axes that apply to it, as a table shows them
    baseline: bool
    data: str  # label of its data; empty if all cells have the same
    cells: list[str]  # ids
    seeds: list[int]  # of the cells, in their order
    against: int | None = None  # index of its baseline in the section; None for a baseline
    settings: dict[str, str] | None = None  # settings of its cells by name; None for results of other programs

    @property
    def drawn(self) -> bool:
        """Return whether each seed draws its own training texts."""
        return (self.settings or {}).get("data.resample") == "true"


@dataclass(frozen=True)
class RecordedSection:
    title: str
    note: str
    show: Show
    rows: list[RecordedRow]
    question: str = ""  # the title without its setting
    setting: str = ""  # the name of the setting in which it is asked; empty if the experiment has none


@dataclass(frozen=True)
class ChosenRow:
    """The value of a row that was chosen on validation texts, and the mean score of each value that was tried; of a row
    that writes a value itself, that value, and nothing tried."""

    section: str
    row: str
    chosen: str  # such as `encoder_lr 0.001`
    tried: dict[str, float | None]  # None if it diverged
    at_edge: bool  # whether it is the smallest or largest number of at least three


@dataclass(frozen=True)
class Reference:
    """Scores of a reference model on one data set: score → value."""

    name: str
    data: str
    scores: dict[str, float]


@dataclass(frozen=True)
class DataCounts:
    """Numbers of rows of a data set that were read and dropped when its tokens were prepared."""

    name: str
    transfer: bool  # whether it is transfer data, on which finished encoders are tested
    sifted: dict[str, dict[str, int]]  # source → `rows` and the rows dropped for each reason
    wordless: dict[str, int]  # split → texts with special tokens only
    merged: dict[str, list[str]]  # class → its spellings in the data


@dataclass(frozen=True)
class Declaration:
    """The analysis declared in advance, as it was when `finished` cells of the grid had results."""

    finished: int
    margins: dict[str, float]  # score → margin
    families: dict[str, list[str]]  # section → the scores that are tested
    rows: dict[str, list[str]]  # section → labels
    seeds: list[int]
    most_seeds: int | None = None  # for a study that adds seeds until decided
    gives_up: bool = False  # see `Stopping`
    configurations: dict[str, dict[str, str]] = field(default_factory=dict)  # section → digest of settings → label
    baselines: dict[str, list[str]] = field(default_factory=dict)  # section → digests of the baselines of other rows
    test_texts: list[str] = field(default_factory=list)  # numbers or names of the test splits
    embeddings: list[str] | None = None  # further vectors and post-processing that are compared
    chosen: dict[str, str] = field(default_factory=dict)  # section and row → the value that was chosen for it
    tried: list[str] = field(default_factory=list)  # the values to choose from; none in older declarations


@dataclass(frozen=True)
class StudyLook:
    """The verdicts of one look at a section, when its undecided rows had `seeds` seeds."""

    seeds: int
    verdicts: dict[str, str]  # configuration and score → verdict


@dataclass(frozen=True)
class Stopping:
    """A study that adds seeds until decided: its limit, its looks, and why each section ended."""

    most_seeds: int
    looks: dict[str, list[StudyLook]] = field(default_factory=dict)  # section → its looks
    ended: dict[str, str] = field(default_factory=dict)  # section → decided, futile, most seeds, budget, …
    gives_up: bool = False  # whether comparisons that further seeds will hardly decide get none


@dataclass(frozen=True)
class RecordedGrid:
    """grid.json: the experiment, its sections, the counts of its data and the cells that failed."""

    experiment: Experiment
    sections: list[RecordedSection]
    references: list[Reference]
    data: list[DataCounts] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # cell → reason
    declared: list[Declaration] = field(default_factory=list)  # the first declaration and each change of it
    stopping: Stopping | None = None  # None: the number of seeds was fixed beforehand
    chosen: list[ChosenRow] = field(default_factory=list)
    file: str = "FILE"  # the experiment's, from where the command ran

    def document(self) -> dict[str, Any]:
        """Return the contents of grid.json."""
        document: dict[str, Any] = GRID.dump_python(self, mode="json")
        return document

    def digest(self, marks: Mapping[str, str]) -> str:
        """Return the digest of the grid and its results. `marks`: cell → what identifies its results."""
        content = json.dumps([self.document() | {"file": ""}, sorted(marks.items())], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Hardware:
    device: str
    cpu: str
    cores: int | None
    memory_gib: int | float


@dataclass(frozen=True)
class Provenance:
    """provenance.json: the origin of a cell's numbers, and the time and resources that they took."""

    wall_seconds: float
    gpu_seconds: float
    hardware: Hardware
    commit: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)  # name → version
    peak_memory_mib: int = 0
    code: str | None = None  # digest of the code that computed the cell
    data_digest: str | None = None
    threads: int | None = None
    processes: int | None = None
    micro_batch: int | None = None
    speed: Mapping[str, Any] | None = None  # the speed settings in effect
    trained_parameters: int | None = None
    collapsed_since: int | None = None  # step
    class_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # split → class → texts
    finished: str = ""  # day, in UTC; empty for old runs
    # of the steps alone: of all processes and attempts; None if some of it is unknown, as for old runs
    training_cpu_seconds: float | None = None
    training_gpu_seconds: float | None = None


GRID = TypeAdapter(RecordedGrid)
PROVENANCE = TypeAdapter(Provenance)


def parse_grid(text: bytes, name: str) -> RecordedGrid:
    return parsed(GRID, text, f"the grid of {name}", "run `ablate sync` with its experiment file to record it again")


def parse_provenance(text: bytes, name: str) -> Provenance | None:
    """Parse a provenance.json; return None if it is empty."""
    return None if text.strip() == b"{}" else parsed(PROVENANCE, text, f"provenance.json of the cell {name}")


def parsed(record: TypeAdapter[Record], text: bytes, what: str, repair: str = MEND) -> Record:
    """Parse a record in MLflow; raise UserError with its first fault if it is damaged."""
    try:
        return record.validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise UserError(
            f"{what} is damaged in MLflow, or of another version ({place}: {fault['msg']}): {repair}"
        ) from None
