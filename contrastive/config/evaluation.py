"""How embeddings are measured: what an experiment file says of it. Changing it never trains again."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from contrastive.config import registry
from contrastive.config.base import Name, Positive, Settings, check_name, check_no_number
from contrastive.config.cell import Data
from contrastive.errors import brief_name

Vectors = Annotated[str, StringConstraints(pattern=r"^(cls|mean|first_last|layer:(0|[1-9][0-9]{0,2}):(cls|mean))$")]
Post = Annotated[str, StringConstraints(pattern=r"^(whiten|whiten:[1-9][0-9]{0,5}|standardise|flow)$")]

# What each task of GLUE is known for; the others are known for their accuracy.
KNOWN_FOR = {"cola": "matthews", "mrpc": "f1", "qqp": "f1", "stsb": "spearman"}


class Transfer(Settings):
    """Transfer data, on which finished encoders are tried. Labelled texts, or pairs of them, get a logistic regression
    on their embeddings; pairs with a score need none."""

    name: Name
    source: str = Field(
        pattern=r"^(package|hf|file):.+", description="package:NAME, hf:OWNER/NAME@REVISION, file:PATH, as for data"
    )
    text: str = Field("text", min_length=1, description="column that holds the text")
    other: str | None = Field(None, min_length=1, description="column that holds the other text of a pair")
    label: str = Field("label", min_length=1, description="column that holds the label")
    score: str | None = Field(None, min_length=1, description="column that says how alike a pair is, as a number")
    subset: str | None = Field(None, min_length=1, description="column that names the subset of a scored pair")
    train: Positive | None = Field(None, description="number of training texts; all the rest when left out")
    test: Positive | str | None = Field(None, description="number of texts, or a split or file; scored pairs: all")
    metric: Literal["accuracy", "f1", "matthews", "spearman", "pearson"] | None = Field(
        None, description="what the task is known for; left out: GLUE's for GLUE's tasks, else accuracy or spearman"
    )

    @field_validator("test")
    @classmethod
    def _no_number_as_text(cls, value: int | str | None) -> int | str | None:
        check_no_number(value)
        return value

    @model_validator(mode="after")
    def _fitting(self) -> "Transfer":
        if self.test is None and (self.score is None or self.source.startswith("hf:")):
            raise ValueError("`test` is missing: number of texts, or the name of a split or file of its own")
        if isinstance(self.test, str) and self.source.startswith("package:"):
            raise ValueError(f"`test` is a number of texts, not `{self.test}`: {self.source} has no split of its own")
        if self.score is not None and self.train is not None:
            raise ValueError("`train` does not fit: nothing is trained on pairs with a `score`")
        if self.score is not None and self.source.startswith("hf:") and not isinstance(self.test, str):
            raise ValueError(f"`test` is the name of a split of {self.source}, not {self.test}: all its pairs count")
        if self.score is None and self.subset is not None:
            raise ValueError("`subset` divides scored pairs; name the column of the `score` too")
        if self.score is not None and self.other is None:
            raise ValueError("`score` tells how alike two texts are; name the column of the `other` too")
        if (self.score is None) == (self.known_for() in ("spearman", "pearson")):
            suited = "accuracy, f1 and matthews" if self.score is None else "spearman and pearson"
            raise ValueError(f"`{self.known_for()}` does not fit: the metrics of such data are {suited}")
        return self

    def known_for(self) -> str:
        if self.metric is not None:
            return self.metric
        task = self.source.partition("@")[0].rsplit("/", 1)[-1]
        return KNOWN_FOR.get(task, "accuracy" if self.score is None else "spearman")

    def scores(self) -> tuple[str, ...]:
        """Names of the scores there will be, first what the task is known for."""
        first = self.known_for()
        if self.score is None:
            names = dict.fromkeys((first, "accuracy"))
        else:
            over = ("all", "mean") if self.subset is not None else ("all",)
            kinds = dict.fromkeys((first, "spearman", "pearson"))
            names = dict.fromkeys(f"{kind}_{pairs}" for pairs in over for kind in kinds)
        return tuple(f"transfer.{self.name}.{name}" for name in names)


class Evaluation(Settings):
    """How embeddings are measured. Changing it never trains again."""

    splits: tuple[Literal["train", "validation", "test"], ...] = Field(("test",), min_length=1)
    metrics: tuple[str, ...] = Field(
        ("accuracy", "macro_f1", "ece", "svm", "knn", "kmeans", "uniformity", "anisotropy", "retrieval"), min_length=1
    )
    folds: int = Field(5, ge=2)
    vectors: tuple[Vectors, ...] = Field(
        (), description="further vectors of a text, beside those that trained: cls, mean, first_last, layer:8:mean …"
    )
    post: tuple[Post, ...] = Field(
        (), description="what is done to vectors, beside nothing: whiten, whiten:256 (columns kept), standardise, flow"
    )
    transfer: tuple[Transfer, ...] = Field((), description="transfer data on which finished encoders are tried")
    test: Positive | None = Field(
        None,
        description="number of test texts to measure on, in the place of data.test and at least as many: the first are "
        "those of data.test, and the others are left over after training, so that finished cells are measured on more "
        "texts and never train again",
    )
    picture: Literal["tsne", "umap"] = "tsne"
    picture_points: int = Field(1000, ge=10, description="texts in a picture")

    def unmeasurable(self, data: Data) -> str:
        """Why a cell of these data cannot be measured on so many test texts; empty where it can."""
        if self.test is None:
            return ""
        if isinstance(data.test, str):
            return f"data.test is `{brief_name(data.test)}`, of which all texts are measured: leave out evaluation.test"
        if data.resample:
            return (
                "with data.resample, any text that is not a test text may train: how many test texts there are has to "
                "be decided before training, so give that number to data.test, and leave out evaluation.test"
            )
        if data.train is None:
            return "data.train is left out, so that all texts train, and none is left to measure on: give it a number"
        return f"{self.test} is less than data.test, {data.test}: give that or more" if self.test < data.test else ""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        metrics = registry.metrics()
        if unknown := [name for name in value if name not in metrics]:
            check_name("metric", "`, `".join(map(brief_name, unknown[:5])), metrics)
        return value

    def embedded(self) -> tuple[str, ...]:
        """The splits that are embedded: training texts where they are measured, or something is fitted on them."""
        train = ("train",) if "train" in self.splits or self.post else ()
        return (*train, "validation", "test")

    def drops_twice(self) -> bool:
        """Whether a metric reads vectors of two dropout masks of a text."""
        return any(registry.metrics()[name].facts.drops_twice for name in self.metrics)
