"""What decides the result of one cell: its data, encoder, objective, training and seed. No torch, no side effects."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from contrastive.config import registry
from contrastive.config.base import Positive, Seed, Settings, check_no_number
from contrastive.config.objective import Objective


class Data(Settings):
    """Labelled texts and how they are split. `test` (or `validation`) may name a split or file of its own."""

    source: str = Field(
        pattern=r"^(package|hf|file):.+",
        description="package:NAME (shipped by a package), hf:OWNER/NAME@REVISION, file:PATH (csv, tsv, jsonl, parquet)",
    )
    text: str = Field("text", min_length=1, description="column that holds the text")
    label: str = Field("label", min_length=1, description="column that holds the label")
    positive: str | None = Field(None, min_length=1, description="column with a text that means the same")
    negative: str | None = Field(None, min_length=1, description="column with one that does not")
    train: Positive | None = Field(None, description="number of training texts; all the rest when left out")
    validation: Annotated[int, Field(ge=0)] | str = Field(0, description="number of texts, or a split or file")
    test: Positive | str = Field(description="number of texts, or the name of a split or file of its own")
    max_length: int = Field(128, ge=4, le=8192, description="tokens kept of a text, special tokens included")
    resample: bool = Field(
        False,
        description="each seed draws its own `train` training texts from all that test and validation leave, so that "
        "what is concluded holds for more than one choice of them; test and validation stay the same",
    )

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
        if reason := incompatibility(self.data, self.encoder, self.objective, self.training):
            raise ValueError(reason)
        return self

    def train_sample_seed(self) -> int | None:
        """The seed of the training texts, where each seed draws its own."""
        return self.seed if self.data.resample else None

    def canonical(self) -> "Cell":
        """The same cell with every setting that cannot matter back at its default."""
        idle = idle_rates(self.encoder.tune, self.objective)
        training = Training(**self.training.model_dump(exclude=idle))
        usual_size = self.encoder.scratch == Scratch()
        encoder = self.encoder.model_copy(update={"scratch": None}) if usual_size else self.encoder
        return self.model_copy(
            update={"encoder": encoder, "objective": self.objective.canonical(), "training": training}
        )


def idle_rates(tune: Tune, objective: Objective) -> set[str]:
    """The learning rates by which nothing trains."""
    frozen = tune.last_blocks == 0
    idle = {"layer_decay": frozen or tune.lora is not None, "encoder_lr": frozen, "head_lr": not objective.has_heads()}
    return {name for name, is_idle in idle.items() if is_idle}


def incompatibility(data: Data, encoder: Encoder, objective: Objective, training: Training) -> str:
    """Why an objective cannot be computed on these data and this encoder; empty where it can."""
    if reason := _ill_filled(training, data.max_length):
        return reason
    if reason := resample_error(data):
        return reason
    if training.sharding is not None and training.micro_batch is not None:
        return "micro_batch encodes each text twice, which sharding cannot: leave one of the two out"
    if training.sharding is not None and training.precision == "fp16":
        return "precision fp16 scales the loss, which sharding does in other ways: take bf16 or fp32"
    on_encoder = [line.name for line in objective.lines() if line.first != "logits"]
    if encoder.tune.last_blocks == 0 and on_encoder:
        return f"with last_blocks 0 the encoder is frozen, and {on_encoder[0]} trains nothing but the encoder"
    if not objective.compares():
        return ""
    return _too_few_texts(data, objective, training) or _lacking(data, encoder, objective)


def resample_error(data: Data) -> str:
    """Why no training texts can be drawn; empty where they can, or need not be."""
    if data.resample and data.train is None:
        return (
            "data.resample draws data.train training texts anew with each seed, and data.train is left out, so that "
            "every seed would train on all there are: give data.train a number"
        )
    return ""


def _too_few_texts(data: Data, objective: Objective, training: Training) -> str:
    """Why a loss has too few texts, in a batch or at all; empty where they are enough."""
    for line in objective.lines():
        in_batch = line.first != "logits" and line.facts.compares and line.facts.needs_batch
        if training.batch_size == 1 and training.token_budget is None and in_batch:
            return f"{line.name} compares the texts of a batch, and batch_size is 1"
        least = getattr(objective, line.facts.least_texts) if line.facts.least_texts is not None else 0
        if data.train is not None and data.train < least:
            return f"{line.name} has {least} {line.facts.least_texts}, and there are {data.train} training texts"
    return ""


def _lacking(data: Data, encoder: Encoder, objective: Objective) -> str:
    """What the data or the encoder lack that the losses or the view read; empty where they have all."""
    view, facts = objective.line_of_view(), objective.view_facts()
    if facts.partners and data.positive is None:
        return (
            f"{objective.said_of_view()} compares a text with its positive: name the column that holds it, "
            "data.positive"
        )
    hard = [line.name for line in objective.lines() if "negatives" in line.settings]
    if hard and data.negative is None:
        return f"{hard[0]} needs a hard negative of each text: name the column that holds it, data.negative"
    if "guess" in view.tools and encoder.model.startswith("scratch:") and not objective.reads_guesses():
        trains = next(line.name for line in registry.loss_entries().values() if line.first == "surprise")
        return (
            f"the guesses of {encoder.model} are random; train them with `{objective.loss}+{trains}`, or take another "
            "view"
        )
    if facts.positions and encoder.model == "scratch:deberta-v2":
        return (
            f"{objective.said_of_view()} needs an encoder that is told positions; scratch:deberta-v2 only knows "
            "distances"
        )
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
