"""Schema of `evaluation` and of transfer data. Changing these settings never trains a cell again."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from contrastive.config import registry
from contrastive.config.base import Column, Name, Positive, Settings, check_name
from contrastive.config.cell import Data, add_plugin
from contrastive.errors import brief_name

# echo needs another pass of the encoder: of a cell that is pooled so, mean is the same
POOLED = "|".join(name for name in registry.poolings() if name != "echo")
Vectors = Annotated[str, StringConstraints(pattern=rf"^({POOLED}|first_last|layer:(0|[1-9][0-9]{{0,2}}):({POOLED}))$")]
Post = Annotated[str, StringConstraints(pattern=r"^((first|whiten):[1-9][0-9]{0,5}|whiten|standardise|flow)$")]

# Official metric of each GLUE task; accuracy for the others.
KNOWN_FOR = {"cola": "matthews", "mrpc": "f1", "qqp": "f1", "stsb": "spearman"}


class Transfer(Settings):
    """Transfer data, on which finished encoders are evaluated: texts or pairs with labels, by logistic regression on
    their embeddings, or, without training, pairs with a similarity score, or queries with documents (ndcg)."""

    name: Name
    source: str = Field(
        pattern=r"^(package|hf|file):.+", description="package:NAME, hf:OWNER/NAME@REVISION, file:PATH, as for data"
    )
    text: Column = Field("text", description="column that holds the text")
    other: Column | None = Field(None, description="column that holds the second text of a pair")
    label: Column = Field("label", description="column that holds the label")
    score: Column | None = Field(
        None,
        description="column with a number: how similar a pair is, or how well `other` answers `text`",
    )
    train: Positive | None = Field(None, description="number of training texts; left out: all that remain")
    test: Positive | str | None = Field(
        None,
        description="number of texts, or the name of a split or file; all scored pairs of a split or file are used",
    )
    metric: Literal["accuracy", "f1", "matthews", "spearman", "pearson", "ndcg"] | None = Field(
        None, description="main metric; left out: the official one for GLUE tasks, else accuracy or spearman"
    )

    def conflict(self) -> str:
        scored = self.score is not None
        if self.metric == "ndcg" and not (scored and self.other):
            return "`ndcg` is of queries (text) and documents: name their column in `other`, and `score`"
        if self.test is None and (not scored or self.source.startswith("hf:")):
            return f"`test` is missing: give {'' if scored else 'a number of texts, or '}the name of a split or file"
        if isinstance(self.test, str) and self.source.startswith("package:"):
            return f"`test` must be a number of texts, not `{self.test}`: {self.source} has no test split"
        if scored and self.other is None:
            return "`score` is the similarity of two texts: name the column of the second text in `other` too"
        if scored and (self.train is not None or isinstance(self.test, int)):
            return "nothing is trained on pairs with a `score`, and all are used: leave `train` and numbers out"
        if scored != (self.main_metric() in ("spearman", "pearson", "ndcg")):
            suited = "spearman, pearson and ndcg" if scored else "accuracy, f1 and matthews"
            return f"`{self.main_metric()}` cannot be computed on such data; choose from {suited}"
        return ""

    def main_metric(self) -> str:
        """Return the main metric: the one set, or the official or usual one for the task."""
        if self.metric is not None:
            return self.metric
        task = self.source.partition("@")[0].rsplit("/", 1)[-1]
        return KNOWN_FOR.get(task, "accuracy" if self.score is None else "spearman")

    def scores(self) -> tuple[str, ...]:
        """Return the names of the scores to be computed, the main metric first."""
        first = self.main_metric()
        if first == "ndcg":
            return tuple(f"transfer.{self.name}.{name}_10" for name in ("ndcg", "mrr", "recall"))
        suffix, names = ("", (first, "accuracy")) if self.score is None else ("_all", (first, "spearman", "pearson"))
        return tuple(f"transfer.{self.name}.{name}{suffix}" for name in dict.fromkeys(names))


class Evaluation(Settings):
    """Settings of the evaluation of embeddings. Changing them never trains a cell again."""

    splits: tuple[Literal["train", "validation", "test"], ...] = Field(("test",), min_length=1)
    metrics: tuple[str, ...] = Field(
        ("accuracy", "macro_f1", "ece", "svm", "knn", "kmeans", "uniformity", "anisotropy", "retrieval"), min_length=1
    )
    folds: int = Field(5, ge=2)
    vectors: tuple[Vectors, ...] = Field(
        (), description="further vectors: cls, mean, last, weighted, first_last, layer:8:mean …"
    )
    post: tuple[Post, ...] = Field(
        (), description="post-processing: first:256 (numbers kept), whiten, whiten:256, standardise, flow"
    )
    transfer: tuple[Transfer, ...] = Field((), description="transfer data on which finished encoders are evaluated")
    test: Positive | None = Field(
        None,
        description="number of test texts to evaluate on, at least data.test: those of data.test, then texts that "
        "are not used for training; finished cells are evaluated on more texts without training again",
    )
    picture_points: int = Field(1000, ge=10, description="texts in a picture")
    plugins: SkipJsonSchema[tuple[str, ...]] = ()  # files with its metrics, named by the program itself

    @model_validator(mode="before")
    @classmethod
    def _name_plugins(cls, values: Any) -> Any:
        """Name the files that hold the metrics; from a record, enter them first."""
        if not isinstance(values, dict):
            return values
        for copy in registry.copies_to_add(values.get("plugins")):
            add_plugin(copy)
        metrics, named = registry.metrics(), values.get("metrics")
        names = [name for name in named if isinstance(name, str)] if isinstance(named, list | tuple) else []
        own = registry.plugins_with(metrics[name] for name in names if name in metrics)
        return values | {"plugins": own} if own else values

    def unmeasurable(self, data: Data) -> str:
        """Return why a cell with these data cannot be evaluated on validation or `test` texts; empty if it can."""
        if "validation" in self.splits and data.validation == 0:
            return "`validation` has no texts; set data.validation to a number, a split or a file"
        if self.test is None:
            return ""
        if isinstance(data.test, str):
            return f"data.test is `{brief_name(data.test)}`, and all its texts are evaluated: leave out evaluation.test"
        if data.resample:
            return "with data.resample, set data.test to this number, and leave out evaluation.test"
        if data.train is None:
            return "data.train is left out, so training uses all texts: give it a number"
        return f"{self.test} is less than data.test ({data.test}): give at least that" if self.test < data.test else ""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        metrics = registry.metrics()
        if unknown := [name for name in value if name not in metrics]:
            check_name("metric", "`, `".join(map(brief_name, unknown[:5])), metrics)
        return value

    def embedded(self) -> tuple[str, ...]:
        """Return the splits to embed: training texts only if they are evaluated or a transformation is fitted, test
        texts unless validation texts alone are evaluated."""
        train = ("train",) if "train" in self.splits or self.post else ()
        return (*train, "validation", *(() if self.splits == ("validation",) else ("test",)))
