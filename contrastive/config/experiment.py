"""What an experiment file may say. Frozen data, checked completely before anything starts.

A `Cell` holds exactly what decides a result. Everything else of an `Experiment` (title, show, evaluation, resources)
stays outside of it, so that changing it never trains again.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from contrastive.config import registry
from contrastive.config.base import Name, Positive, Seed, Settings
from contrastive.config.cell import Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.objective import Objective

USUAL_MARGIN = 0.01
# the last part of a score's name, and what lies between its least and its greatest value
WIDTHS = (
    (re.compile(r".*accuracy|.*f1|nmi|ece|precision_at_\d+|map_at_r"), 1.0),
    (re.compile(r"ari|silhouette|matthews|mean|(spearman|pearson)(_.*)?"), 2.0),
)


def score_width(score: str) -> float:
    """From the least to the greatest value that a score can have; infinite where it has no bounds, or none is known."""
    return next((size for kind, size in WIDTHS if kind.fullmatch(metric_of(score))), math.inf)


def margin_of(score: str, declared: Mapping[str, float]) -> float | None:
    """By its full name, its metric's, or what is usual; None of a score without bounds that nothing was declared of."""
    bare = score.rpartition("/")[2]
    if bare in declared or metric_of(score) in declared:
        return declared.get(bare, declared.get(metric_of(score)))
    return USUAL_MARGIN if math.isfinite(score_width(score)) else None


def metric_of(score: str) -> str:
    """`svm_accuracy` of whiten:64/test.svm_accuracy."""
    return score.rpartition("/")[2].partition(".")[2].rpartition(".")[2]


class Speed(Settings):
    reuse: Literal["none", "full", "half"] = Field(
        "full",
        description="what frozen blocks give for a text is computed once, for cells with tune.frozen_dropout: false, "
        "and kept in full or half precision; none: each pass is computed",
    )
    together: Positive | None = Field(
        None,
        description="cells that train in one process and share each pass of their frozen blocks; left out: as many as "
        "memory holds and devices leave",
    )

    @model_validator(mode="after")
    def _fitting(self) -> "Speed":
        if self.reuse == "none" and (self.together or 1) > 1:
            raise ValueError(f"together: {self.together} shares passes of frozen blocks, and reuse: none computes each")
        return self


USUAL = Speed()


class ShownTable(Settings):
    """A list (a row a cell) of `values`, or, with `columns`, a pivot of each value."""

    rows: str | None = Field(None, description="axis that names the rows; all axes when left out")
    columns: str | None = Field(None, description="axis that names the columns of a pivot")
    values: tuple[str, ...] = Field(("test.accuracy",), min_length=1, description="SPLIT.METRIC, e.g. test.accuracy")
    family: tuple[str, ...] | None = Field(
        None, description="those of the values that are tested, p-values corrected over all of them; left out: all"
    )

    @model_validator(mode="after")
    def _tested(self) -> "ShownTable":
        if self.family is not None and (missing := [name for name in self.family if name not in self.values]):
            raise ValueError(f"`family` names `{missing[0]}`, which is none of the values: {', '.join(self.values)}")
        return self


class Show(Settings):
    table: ShownTable = ShownTable()
    tsne: bool = Field(False, description="a grid of t-SNE (or UMAP) pictures, one a cell, at the first seed")
    curves: bool = Field(False, description="loss and gradient-norm curves")
    transfer: bool = Field(False, description="a table of transfer data, each by what it is known for, and their mean")
    pairs: bool = Field(False, description="a matrix of all pairs of rows, with a p-value each")
    spectra: bool = Field(False, description="the singular values of the embeddings")
    search: bool = Field(False, description="the best score to be expected of so many rows that are tried")


class Section(Settings):
    """One table of the report: a product of axes over the base, and how to show it."""

    title: str = Field(min_length=1)
    note: str = ""
    base: Mapping[str, Any] = Field(default_factory=dict, description="settings of this section's cells")
    axes: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict, description="setting → its values")
    include: tuple[Mapping[str, Any], ...] = Field((), description="further cells, each a map of settings")
    exclude: tuple[Mapping[str, Any], ...] = Field((), description="combinations to drop")
    baseline: Mapping[str, Any] = Field(
        default_factory=lambda: {"loss": registry.literal("contrastive.losses", "USUAL_LOSS")},
        description="settings of the baseline",
    )
    show: Show = Show()


class Resources(Settings):
    """Where and how the cells run; decides no number."""

    slots: Positive | None = Field(None, description="cells at a time; left out: as many as the devices hold")
    gpus_per_cell: float = Field(
        1.0, ge=0, le=1, description="share of a GPU of a cell, or of each of its processes; .5 packs two, 0 needs none"
    )
    most_cells: Positive = Field(100_000, description="most cells of a grid; a file with more is taken for a slip")
    checkpoint_every: Positive = Field(200, description="optimizer steps between two checkpoints of a cell")
    hung_after: Positive = Field(1800, description="seconds without a finished step after which a cell is begun again")


class Report(Settings):
    """What a report concludes from, and what it says of money; changes nothing that is trained or measured."""

    margin: Mapping[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="score or metric → the largest difference that does not matter, e.g. {accuracy: 0.01}; left out: "
        "0.01 of a score between 0 and 1 or −1 and 1, none of others",
    )
    primary: str | None = Field(
        None, description="the score that is tested, e.g. test.accuracy; left out: all that a table shows, together"
    )
    labels: Mapping[str, str] = Field(
        default_factory=dict,
        description="names that readers know: what a row, or a part of its name, would be called → what it is called, "
        "e.g. {head only: the head alone}",
    )
    price_per_hour: float | None = Field(
        None, ge=0, description="of a GPU, or of a machine without one; left out: none"
    )
    currency: str = Field("USD", min_length=1)

    def family(self, table: ShownTable) -> list[str]:
        """The scores of a table that are tested: those that it declares, the primary one where it shows it, or all."""
        if table.family is not None:
            return list(table.family)
        return [self.primary] if self.primary in table.values else list(table.values)


class Experiment(Settings):
    name: Name
    description: str = ""
    data: Data
    encoder: Encoder
    objective: Objective = Objective()
    training: Training = Training()
    seeds: tuple[Seed, ...] = Field((0, 1, 2), min_length=1)
    sections: tuple[Section, ...] = Field(min_length=1)
    evaluation: Evaluation = Evaluation()
    resources: Resources = Resources()
    speed: Speed = Speed()
    report: Report = Report()


# Setting → the part of a cell that holds it: the names that `base`, `axes`, `include` and their like may use.
PARTS: dict[str, type[Settings]] = {"data": Data, "encoder": Encoder, "objective": Objective, "training": Training}
SETTINGS: dict[str, str] = {name: part for part, model in PARTS.items() for name in model.model_fields}
