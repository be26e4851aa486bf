"""What a report is about: sections of rows, and how their scores are compared, whoever made the runs.

The recorded grid of an experiment and another program's table (package `ablate`) are turned into a Study.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import DataCounts, Declaration, RecordedGrid, RecordedSection, Reference, Stopping


@dataclass(frozen=True)
class Study:
    """Sections, names for readers, margins, the scores that are tested, and what was recorded beside the runs."""

    name: str
    sections: list[RecordedSection]
    source: str  # of the training data, or the table that has the scores
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
    stale_kept: list[str] = field(default_factory=list)  # cells computed by older code that replace current ones
    declared: list[Declaration] = field(default_factory=list)
    stopping: Stopping | None = None  # None: the number of seeds was fixed beforehand
    price_per_hour: float | None = None
    currency: str = ""
    foreign: bool = False  # another program made the runs: rows may have any seeds; how they trained is not known
    command: str = ""  # builds the report of another program's runs again
    pairing: Literal["seeds", "none", "means"] = "seeds"  # none: values without seeds; means: no single values
    unpaired: Literal["", "numbered", "sorted"] = ""  # why equal numbers of runs are not paired
    numbers: str = ""  # name of the seeds or numbers of runs
    assumed: tuple[str, ...] = ()  # scores that are taken to be better if higher, for want of a known name

    @property
    def any_seeds(self) -> bool:
        """True if rows are compared by the seeds that have results, whichever they are."""
        return self.foreign or self.stopping is not None

    @property
    def paired(self) -> bool:
        """True if rows are compared seed by seed."""
        return self.pairing == "seeds"


def study_of(grid: RecordedGrid) -> Study:
    """Return the study of a recorded grid."""
    experiment = grid.experiment
    report, evaluation = experiment.report, experiment.evaluation
    families = {section.title: report.family(section.show.table) for section in grid.sections}
    shown = {section.title: list(section.show.table.values) for section in grid.sections}
    tasks = [task.scores()[0] for task in evaluation.transfer]
    return Study(
        experiment.name, grid.sections, experiment.data.source, experiment.encoder.model, experiment.description,
        report.margin, report.primary, {title: own for title, own in families.items() if own != shown[title]},
        varied(experiment), frozenset(section.title for section in experiment.sections if section.baseline),
        (*tasks, *(["transfer.mean"] if len(tasks) > 1 else [])),  # as GLUE does
        tuple(
            "".join(f"{part}/" for part in (vectors, post) if part)
            for vectors in ("", *evaluation.vectors)
            for post in ("", *evaluation.post)
        ),
        grid.references, grid.data, grid.failed, grid.stale_kept, grid.declared, grid.stopping,
        report.price_per_hour, report.currency,
    )  # fmt: skip


def varied(experiment: Experiment) -> dict[str, set[str]]:
    """Return the settings in which the rows of each section may differ: of its axes, `include` and its baseline."""
    found = dict[str, set[str]]()
    for section in experiment.sections:
        names = {*section.axes, *section.baseline, *(name for overlay in section.include for name in overlay)}
        found.setdefault(section.title, set()).update(names)
    return found
