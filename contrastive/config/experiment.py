"""What an experiment file may say. Frozen data, checked completely before anything starts; no torch, no side effects.

`Cell` holds exactly what decides a result. Everything else of an `Experiment` (title, show, evaluation, resources)
stays outside of it, so that changing it never trains again.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from contrastive.config import registry
from contrastive.config.base import Name, Positive, Seed, Settings, Weights, check_no_number, known
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.errors import brief_name


class Data(Settings):
    """Labelled texts and how they are split. `test` (or `validation`) may name a split or file of its own."""

    source: str = Field(
        pattern=r"^(package|hf|file):.+",
        description="package:NAME (shipped by a package), hf:OWNER/NAME@REVISION, file:PATH (csv, tsv, jsonl, parquet)",
    )
    text: str = Field("text", min_length=1, description="column that holds the text")
    label: str = Field("label", min_length=1, description="column that holds the label")
    positive: str | None = Field(None, min_length=1, description="column with a text that means the same (view pair)")
    negative: str | None = Field(None, min_length=1, description="column with one that does not (loss simcse_sup)")
    train: Positive | None = Field(None, description="number of training texts; all the rest when left out")
    validation: Annotated[int, Field(ge=0)] | str = Field(0, description="number of texts, or a split or file")
    test: Positive | str = Field(description="number of texts, or the name of a split or file of its own")
    max_length: int = Field(128, ge=4, le=8192, description="tokens kept of a text, special tokens included")

    @field_validator("validation", "test")
    @classmethod
    def _no_number_as_text(cls, value: int | str) -> int | str:
        check_no_number(value)
        return value

    @model_validator(mode="after")
    def _pairs(self) -> "Data":
        if self.negative is not None and self.positive is None:
            raise ValueError(f"`negative` is the column `{self.negative}`; name the column of the `positive` too")
        return self

    def partners(self) -> dict[str, str]:
        """The columns with texts that belong to a training text: `positive`, or `positive` and `negative`."""
        return {name: value for name in ("positive", "negative") if (value := getattr(self, name)) is not None}


class Lora(Settings):
    r: Positive = 8
    alpha: float = Field(16.0, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: tuple[str, ...] = Field((), description="module names; left out: the query and value projections")


class Tune(Settings):
    """Which parameters of the encoder train: all (`full`), the last n blocks, LoRA adapters (of all blocks, or of the
    last n). The head always does."""

    last_blocks: Annotated[int, Field(ge=0)] | None = Field(None, description="blocks that train; all when left out")
    lora: Lora | None = Field(None, description="adapters in these blocks, in the place of their own weights")
    frozen_dropout: bool = Field(
        True,
        description="dropout in the blocks that last_blocks leaves frozen; false: what they give for a text is always "
        "the same, and computed once for all cells, epochs and seeds",
    )

    @model_validator(mode="before")
    @classmethod
    def _full(cls, value: Any) -> Any:
        return {} if value == "full" else value

    @model_validator(mode="after")
    def _fitting(self) -> "Tune":
        if self.last_blocks == 0 and self.lora is not None:
            raise ValueError(
                "adapters in the last 0 blocks train nothing: give last_blocks a number, or leave out lora"
            )
        if not self.frozen_dropout and self.last_blocks is None:
            raise ValueError("frozen_dropout is about blocks that are frozen; say with last_blocks how many train")
        return self


class Scratch(Settings):
    """Size of a `scratch:` encoder, which starts at random with a tokenizer trained on the training texts."""

    layers: Positive = 2
    hidden: Positive = 64
    heads: Positive = 2
    vocabulary: int = Field(4000, ge=64)

    @model_validator(mode="after")
    def _shared(self) -> "Scratch":
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is no multiple of heads {self.heads}")
        return self


class Encoder(Settings):
    model: str = Field(
        pattern=r"^((package|hf|file):.+|scratch:(bert|deberta-v2))$",
        description="package:NAME, hf:OWNER/NAME@REVISION, file:FOLDER, scratch:bert or scratch:deberta-v2",
    )
    tune: Tune = Tune()
    pooling: Literal["cls", "mean"] = "cls"
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the head and of views made by dropout")
    attention_dropout: float | None = Field(
        None, ge=0, lt=1, description="of attention's weights; left out: the model's own; 0 opens the fast path"
    )
    scratch: Scratch | None = None

    @model_validator(mode="after")
    def _sizes(self) -> "Encoder":
        if self.scratch is not None and not self.model.startswith("scratch:"):
            raise ValueError(f"`scratch` sets the size of a scratch: encoder; the model here is {self.model}")
        return self


class Objective(Settings):
    """What is minimised, on which views. A setting that neither loss nor view reads does not matter to the cell."""

    loss: str = Field("ce", description="names of losses joined by +; `ce+supcon` is CE + alpha · SupCon")
    view: str | None = Field(None, description="how a sample becomes several vectors; left out: the loss's usual one")
    alpha: float = Field(1.0, ge=0, description="weight of the terms after `ce`")
    mlm_weight: float = Field(0.1, gt=0, description="weight of the term `mlm`")
    temperature: float | None = Field(None, gt=0, description="left out: the loss's own")
    beta: float | None = Field(None, ge=0, description="dscl: class mates weigh β times as much as the own other view")
    sigma: float | None = Field(None, gt=0, description="dclw: sharpness of the weight on the positive")
    rate: float | None = Field(None, gt=0, lt=1, description="share of a text that word_delete, consert … change")
    change: (
        Literal["token_cutoff", "feature_cutoff", "span_cutoff", "position_shuffle", "dropout", "adversarial"] | None
    ) = Field(None, description="consert: what happens to the embeddings")
    queue: Positive | None = Field(None, description="moco: keys of earlier batches that are negatives")
    projector: Positive | None = Field(None, description="width of a loss's own projector (byol, swav, barlow, vicreg)")
    projection: Positive | None = Field(None, description="dimensions of what the projector gives (byol, swav, sccl)")
    prototypes: int | None = Field(None, ge=2, le=100_000, description="swav: prototypes that share the batch")
    redundancy: float | None = Field(None, ge=0, description="barlow: weight of correlations between dimensions")
    chunk: Positive | None = Field(None, description="rows of the similarity matrix held at a time; left out: all")
    k: Positive = Field(30, description="tokens a sample (topk_tokens, cluster, layers at token level)")
    clusters: Positive = Field(5, description="k-means centres: of a sample (cluster), of the texts (sccl)")
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, min_length=1, description="blocks, from 0")
    level: Literal["sentence", "token"] = "sentence"
    middle: Annotated[int, Field(ge=0)] | None = Field(None, description="middle block of multiview; default: half way")
    translators: tuple[Weights, Weights] | None = Field(
        None,
        description="two models that translate there and back (view backtranslation), each package:NAME, "
        "hf:OWNER/NAME@REVISION or file:FOLDER",
    )

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, value: str) -> str:
        for name in value.split("+"):
            known("loss", brief_name(name), registry.entries("contrastive.losses", "LOSSES"))
        if {"ce", "rdrop"} <= set(value.split("+")):
            rest = "+".join(name for name in value.split("+") if name != "ce")
            raise ValueError(f"rdrop already contains the cross-entropy; write `{brief_name(rest)}`")
        if len(set(value.split("+"))) < len(value.split("+")):
            raise ValueError(f"`{brief_name(value)}` names a loss twice")
        # one name for one sum: ce+… and …+mlm, what is between them by the alphabet
        return "+".join(sorted(value.split("+"), key=lambda name: (name not in ("ce", "rdrop"), name == "mlm", name)))

    @field_validator("layers")
    @classmethod
    def _in_order(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"{list(value)} names a block twice")
        return None if value is None else tuple(sorted(value))

    @field_validator("view")
    @classmethod
    def _known_view(cls, value: str | None) -> str | None:
        if value is not None:
            known("view", brief_name(value), registry.entries("contrastive.views", "VIEWS"))
        return value

    @model_validator(mode="after")
    def _fitting(self) -> "Objective":
        losses = registry.entries("contrastive.losses", "LOSSES")
        follows = any("targets" in losses[name].settings for name in self.terms())
        if self.view == "momentum" and not follows and self.compares():
            raise ValueError(f"no loss of `{self.loss}` reads the slow copy that the view `momentum` keeps")
        view = (self.view or self.usual_view()) if self.compares() else ""
        for name in self.terms() if view else ():
            if reason := _unfit(losses[name], view, self.level):
                raise ValueError(reason if self.view else f"no view fits all terms of `{self.loss}`: {reason}")
        if self.view == "layers" and self.layers is None and self.compares():
            raise ValueError("the view `layers` needs `layers`, for example [8, 9, 10, 11]")
        if (self.view, self.change) == ("consert", "adversarial") and self.compares() and "ce" not in self.terms():
            raise ValueError(
                "consert's adversarial change follows the cross-entropy, which "
                f"`{self.loss}` has not: write `ce+{self.loss}`, or take another change"
            )
        if self.view == "backtranslation" and self.translators is None and self.compares():
            raise ValueError(
                "the view `backtranslation` needs `translators`, two models that translate there and back, "
                'for example ["file:models/en-de", "file:models/de-en"]'
            )
        return self

    def terms(self) -> dict[str, float]:
        """Loss name → weight. Cross-entropy weighs 1, and R-Drop contains it."""
        named = tuple(self.loss.split("+"))
        names = ("ce", *named) if "rdrop" in named else named
        weight = {"ce": 1.0, "mlm": self.mlm_weight}
        return {name: weight.get(name, self.alpha if "ce" in names else 1.0) for name in names}

    def compares(self) -> bool:
        """Whether a term compares vectors or predictions, so that the view matters."""
        return not set(self.terms()) <= {"ce", "mlm"}

    def reads_logits(self) -> bool:
        """Whether a term reads the head's predictions; without one there is no head."""
        losses = registry.entries("contrastive.losses", "LOSSES")
        return any(losses[name].first == "logits" for name in self.terms())

    def has_heads(self) -> bool:
        """Whether anything trains at the rate of heads: the classifier, or what a loss brings with it."""
        losses = registry.entries("contrastive.losses", "LOSSES")
        return self.reads_logits() or any(losses[name].is_module or name == "mlm" for name in self.terms())

    def canonical(self) -> "Objective":
        """The same objective with every setting that it does not read back at its default."""
        terms, losses = self.terms(), registry.entries("contrastive.losses", "LOSSES")
        used = {"loss"} | {setting for name in terms for setting in losses[name].settings}
        settings: dict[str, Any] = {}
        if "mlm" in terms:
            used.add("mlm_weight")
        if self.compares():
            view = self.view or self.usual_view()
            settings["view"] = view
            used |= set(registry.entries("contrastive.views", "VIEWS")[view].settings)
            if view == "layers" and self.level == "sentence":
                used.discard("k")
            if "ce" in terms:
                used.add("alpha")
        settings |= {name: getattr(self, name) for name in used & set(Objective.model_fields)}
        chosen = Objective.model_construct(loss=self.loss, view=settings.get("view"))
        for name, value in settings.items():
            if Objective.model_fields[name].default is None and chosen.taken(name) == {value}:
                settings[name] = None
        return Objective(**settings)

    def taken(self, name: str) -> set[Any]:
        """What the losses and the view that read a setting take by themselves, where the cell leaves it out."""
        losses, views = (registry.entries(f"contrastive.{kind}", kind.upper()) for kind in ("losses", "views"))
        readers = [losses[term] for term in self.terms()] + ([views[self.view]] if self.view else [])
        return {reader.defaults.get(name) for reader in readers if name in reader.settings}

    def usual_view(self) -> str:
        """The view of a loss that has one; else one vector where that is enough, and two passes where it is not."""
        losses = [registry.entries("contrastive.losses", "LOSSES")[name] for name in self.terms()]
        usual = registry.literal("contrastive.losses", "USUAL_VIEW")
        own = [str(usual[loss.name]) for loss in losses if loss.name in usual]
        candidates = [*own, *(("two_stage",) if own else ("cls", "two_stage"))]
        fitting = [view for view in candidates if not any(_unfit(loss, view, self.level) for loss in losses)]
        return fitting[0] if fitting else candidates[0]


class Training(Settings):
    epochs: Positive = 3
    batch_size: Positive = 16
    micro_batch: Positive | None = Field(
        None, description="texts encoded at a time (GradCache); a loss still sees the whole batch; left out: all of it"
    )
    accumulate: Positive = Field(1, description="batches an optimizer step; adds no negatives to a contrastive term")
    head_lr: float = Field(1e-4, gt=0, le=1e30)
    encoder_lr: float = Field(2e-5, gt=0, le=1e30)
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor on the learning rate, a block down from the top")
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps over which the learning rate rises")
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0 clips nothing")
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    bucket: Positive = Field(10, description="batches sorted by length together; 1 draws batches at random")
    token_budget: Positive | None = Field(
        None,
        description="most tokens of a batch, padding included: `bucket` times `batch_size` texts drawn together are "
        "sorted by length and become as few batches as this allows, of about equal tokens and at least two texts, so "
        "that a batch of short texts has more of them, and more negatives; left out: `batch_size` texts each",
    )
    order_seed: Seed | None = Field(
        None,
        description="seed of the order of the batches; left out: the cell's own. With one order for all seeds, their "
        "spread leaves out that of the order",
    )
    threads: int = Field(1, ge=1, le=1024, description="CPU threads a cell computes with; they decide the last bits")
    processes: int = Field(1, ge=1, le=1024, description="processes that share each batch, a device each (Accelerate)")
    sharding: str | None = Field(
        None,
        pattern=r"^(fsdp|deepspeed:.+\.json)$",
        description="how processes split the training state: fsdp, or deepspeed:FILE.json, e.g. "
        "deepspeed:configs/deepspeed/zero2.json; left out: each has all of it (DDP)",
    )

    def smallest_batch(self) -> int:
        """Texts that a batch has at least, where tokens fill it: two to tell apart, and one for each process."""
        return max(2, self.processes)


class Cell(Settings):
    """One fully resolved training configuration: what decides a result, and nothing else."""

    data: Data
    encoder: Encoder
    objective: Objective
    training: Training
    seed: Seed

    @model_validator(mode="after")
    def _fitting(self) -> "Cell":
        if reason := misfit(self.data, self.encoder, self.objective, self.training):
            raise ValueError(reason)
        return self

    def canonical(self) -> "Cell":
        """The same cell with every setting that cannot matter back at its default."""
        ignored = set()
        if self.encoder.tune.lora is not None or self.encoder.tune.last_blocks == 0:
            ignored.add("layer_decay")
        if self.encoder.tune.last_blocks == 0:
            ignored.add("encoder_lr")
        if not self.objective.has_heads():
            ignored.add("head_lr")
        training = Training(**self.training.model_dump(exclude=ignored))
        usual_size = self.encoder.scratch == Scratch()
        encoder = self.encoder.model_copy(update={"scratch": None}) if usual_size else self.encoder
        return self.model_copy(
            update={"encoder": encoder, "objective": self.objective.canonical(), "training": training}
        )


def misfit(data: Data, encoder: Encoder, objective: Objective, training: Training) -> str:
    """Why an objective cannot be computed on these data and this encoder; empty where it can."""
    losses, view = registry.entries("contrastive.losses", "LOSSES"), objective.view or objective.usual_view()
    if reason := _ill_filled(training, data.max_length):
        return reason
    if training.sharding is not None and training.micro_batch is not None:
        return "micro_batch encodes each text twice, which sharding cannot: leave one of the two out"
    if training.sharding is not None and training.precision == "fp16":
        return "precision fp16 scales the loss, which sharding does in other ways: take bf16 or fp32"
    on_encoder = [name for name in objective.terms() if losses[name].first != "logits"]
    if encoder.tune.last_blocks == 0 and on_encoder:
        return f"with last_blocks 0 the encoder is frozen, and {on_encoder[0]} trains nothing but the encoder"
    if not objective.compares():
        return ""
    alone = [name for name in on_encoder if name not in ("mlm", "moco")]
    if training.batch_size == 1 and training.token_budget is None and alone:
        return f"{alone[0]} compares the texts of a batch, and batch_size is 1"
    if "sccl" in on_encoder and data.train is not None and data.train < objective.clusters:
        return f"sccl has {objective.clusters} clusters, and there are {data.train} training texts"
    hard = [name for name in objective.terms() if "negatives" in losses[name].settings]
    if view == "pair" and data.positive is None:
        return "the view pair compares a text with its positive: name the column that holds it, data.positive"
    if hard and data.negative is None:
        return f"{hard[0]} needs a hard negative of each text: name the column that holds it, data.negative"
    scratch = encoder.model.startswith("scratch:")
    if view == "contextual" and scratch and "mlm" not in objective.terms():
        return (
            f"the guesses of {encoder.model} are random; train them with `{objective.loss}+mlm`, or take another view"
        )
    if (view, objective.change, encoder.model) == ("consert", "position_shuffle", "scratch:deberta-v2"):
        return "position_shuffle needs an encoder that is told positions; scratch:deberta-v2 only knows distances"
    return ""


def _ill_filled(training: Training, longest: int) -> str:
    """Why batches cannot be filled as the settings say; empty where they can."""
    drawn, budget, least = training.bucket * training.batch_size, training.token_budget, training.smallest_batch()
    if budget is None:
        too_many = training.processes > training.batch_size
        return f"{training.processes} processes cannot share batches of {training.batch_size} texts" if too_many else ""
    room = 2 * least - 1  # with one text less, a full batch could not give the next one what it lacks
    if budget < room * longest:
        return (
            f"token_budget is {budget}, and for batches of at least {least} texts of up to {longest} tokens "
            f"(data.max_length) it must be at least {room * longest}: raise it, or cut the texts shorter"
        )
    if drawn < room:
        return (
            f"token_budget fills batches from bucket × batch_size = {drawn} texts, and for at least {least} texts in "
            f"each it needs {room} or more: raise bucket"
        )
    return ""


class Table(Settings):
    """A list (a row a cell) of `values`, or, with `columns`, a pivot of each value."""

    rows: str | None = Field(None, description="axis that names the rows; all axes when left out")
    columns: str | None = Field(None, description="axis that names the columns of a pivot")
    values: tuple[str, ...] = Field(("test.accuracy",), min_length=1, description="SPLIT.METRIC, e.g. test.accuracy")
    family: tuple[str, ...] | None = Field(
        None, description="those of the values that are tested, p-values corrected over all of them; left out: all"
    )

    @model_validator(mode="after")
    def _tested(self) -> "Table":
        if self.family is not None and (missing := [name for name in self.family if name not in self.values]):
            raise ValueError(f"`family` names `{missing[0]}`, which is none of the values: {', '.join(self.values)}")
        return self


class Show(Settings):
    table: Table = Table()
    tsne: bool = Field(False, description="a grid of t-SNE (or UMAP) pictures, one a cell, at the first seed")
    curves: bool = Field(False, description="loss and gradient-norm curves")
    transfer: bool = Field(False, description="a table of further data, each by what it is known for, and their mean")


class Section(Settings):
    """One table of the report: a product of axes over the base, and how to show it."""

    title: str = Field(min_length=1)
    note: str = ""
    base: Mapping[str, Any] = Field(default_factory=dict, description="settings of this section's cells")
    axes: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict, description="setting → its values")
    include: tuple[Mapping[str, Any], ...] = Field((), description="further cells, each a map of settings")
    exclude: tuple[Mapping[str, Any], ...] = Field((), description="combinations to drop")
    baseline: Mapping[str, Any] = Field(default_factory=lambda: {"loss": "ce"}, description="settings of the baseline")
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
    """What a report says of money; decides no number."""

    price_per_hour: float | None = Field(
        None, ge=0, description="of a GPU, or of a machine without one; left out: none"
    )
    currency: str = Field("USD", min_length=1)


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


def _unfit(loss: registry.Entry, view: str, level: str) -> str:
    """Why a loss cannot be computed on a view; empty where it can."""
    twice = registry.literal("contrastive.views", "TWICE")
    if loss.first == "logits" and loss.shape == "n 2 c" and view not in twice:
        return f"{loss.name} compares two predictions of a text: its view is {' or '.join(twice)}, not {view}"
    if loss.first != "views":
        return ""
    if "targets" in loss.settings and view != "momentum":
        return f"{loss.name} needs the view momentum, which keeps a slow copy of the encoder, not {view}"
    if "negatives" in loss.settings and view != "pair":
        return f"{loss.name} needs the view pair, which has positives and hard negatives from the data, not {view}"
    counts = registry.literal("contrastive.views", "VECTORS")
    count = 2 if (view, level) == ("layers", "sentence") else counts.get(view)
    number = loss.shape.split()[1]
    if number.isdigit() and count != int(number):
        fitting = [name for name, vectors in counts.items() if vectors == int(number) and name != "momentum"]
        return f"{loss.name} compares {number} views of a text, as {', '.join(fitting)} give; {view} does not"
    if "labels" not in loss.settings and count == 1:
        return f"{loss.name} compares the views of a text, and {view} gives only one"
    return ""
