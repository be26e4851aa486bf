"""Schema of a cell, everything that determines one result: data, encoder, objective, training, seed. Imports no
torch."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic.fields import FieldInfo

from contrastive.config import registry
from contrastive.config.base import Area, Column, Count, Dropout, Positive, Seed, Settings, Share, check_name
from contrastive.config.facts import ViewFacts
from contrastive.config.objective import Objective, requires
from contrastive.errors import UserError, brief_name

IMAGE_ENCODERS = ("scratch:convnet", "scratch:vit")
WORD_TOOLS = frozenset({"lexicon", "guess", "rephrase"})


def _known_pooling(value: str) -> str:
    check_name("pooling", brief_name(value), registry.poolings())
    return value


class Images(Settings):
    """The data are images: resized to a square, so that the shorter side fits, and cut at the centre."""

    size: int = Field(ge=4, le=1024, description="height and width in pixels")
    channels: Literal[1, 3] = Field(3, description="3: red, green and blue; 1: grey")

    def values(self) -> int:
        """Return the number of values of an image."""
        return self.channels * self.size**2


class Augment(Settings):
    """Random changes of an image, drawn anew in every pass of training, in the order of these settings.

    A setting that is left out changes nothing.
    """

    crop: Area = Field(None, description="least and most of the area that a crop keeps; SimCLR: [0.08, 1]")
    flip: bool = Field(False, description="mirror every second image, left to right")
    shift: Share = Field(0.0, description="move by up to this part of the side, in both directions")
    rotate: float = Field(0.0, ge=0, le=180, description="turn by up to so many degrees, to both sides")
    color: Share = Field(0.0, description="strength of changes of brightness, contrast, saturation and hue; SimCLR: 1")
    gray: Share = Field(0.0, description="part of the images that lose their colours")
    blur: float = Field(0.0, ge=0, le=10, description="blur every second image by up to so many pixels (sigma)")
    erase: Share = Field(0.0, description="blacken one rectangle of up to this part of the area")

    def conflict(self) -> str:
        if not any(value for _, value in self):
            return "augment changes nothing: name a change, such as crop: [0.2, 1], or leave augment out"
        return ""


class Data(Settings):
    """Labelled texts or images and how they are split. `test` and `validation` are a number of them, or name a split or
    file."""

    source: str = Field(
        pattern=r"^(package|hf|file):.+",
        description="package:NAME (shipped by a package), hf:OWNER/NAME@REVISION, file:PATH (csv, tsv, jsonl, parquet; "
        "for images also a folder with one folder per class, or npz)",
    )
    images: Images | None = Field(None, description="the data are images of this size; left out: texts")
    text: Column = Field("text", description="column of the text, or of the path of an image; of an npz, the array")
    label: Column = Field("label", description="column that holds the label")
    positive: Column | None = Field(None, description="column with a text of the same meaning")
    negative: Column | None = Field(None, description="column with a text of a different meaning (hard negative)")
    train: Positive | None = Field(None, description="number of training texts; left out: all that remain")
    validation: Count | str = Field(0, description="number of texts, or the name of a split or file")
    test: Positive | str = Field(description="number of texts, or the name of a split or file")
    max_length: int = Field(128, ge=4, le=8192, description="most tokens kept per text, special tokens included")
    resample: bool = Field(
        False,
        description="each seed draws its own `train` training texts from all texts outside test and validation, so "
        "that conclusions hold for more than one choice of training texts; test and validation stay the same",
    )

    def conflict(self) -> str:
        if self.images is not None and (self.positive is not None or self.source.startswith("hf:")):
            what = "come from package: or file:" if self.positive is None else "have no pairs: leave `positive` out"
            return f"images {what}"
        if self.negative is not None and self.positive is None:
            return f"`negative` is the column `{self.negative}`, but `positive` is missing; name its column too"
        return ""

    def longest(self) -> int:
        """Return the most tokens of a text, or the number of values of an image."""
        return self.max_length if self.images is None else self.images.values()

    def partners(self) -> dict[str, str]:
        """Return the columns of partner texts by name: none, `positive`, or `positive` and `negative`."""
        return {name: value for name in ("positive", "negative") if (value := getattr(self, name)) is not None}


class Lora(Settings):
    r: Positive = 8
    alpha: float = Field(16.0, gt=0)
    dropout: Dropout = 0.0
    targets: tuple[str, ...] = Field((), description="module names; left out: the query and value projections")
    dora: bool = Field(False, description="DoRA: also train the length of each column of the adapted weights")
    rslora: bool = Field(False, description="rsLoRA: scale the adapters by alpha/√r instead of alpha/r")


class Tune(Settings):
    """Which encoder parameters train: all (`full`), the last n blocks, or LoRA adapters (in all blocks or the last n).
    The head always trains."""

    last_blocks: Count | None = Field(None, description="number of last blocks that train; left out: all")
    lora: Lora | None = Field(None, description="train adapters in these blocks instead of their weights")
    frozen_dropout: bool = Field(
        True,
        description="apply dropout in the blocks that last_blocks leaves frozen; false: their output for a text "
        "never changes and is computed once for all cells, epochs and seeds",
    )

    @model_validator(mode="before")
    @classmethod
    def _full(cls, value: Any) -> Any:
        return {} if value == "full" else value

    def conflict(self) -> str:
        if self.last_blocks == 0 and self.lora is not None:
            return "with last_blocks: 0 no block is left for adapters; raise last_blocks, or leave out lora"
        if not self.frozen_dropout and self.last_blocks is None:
            return "frozen_dropout: false needs frozen blocks; set last_blocks to the number of blocks that train"
        return ""


class Scratch(Settings):
    """Size of a `scratch:` encoder: random weights, and for texts a tokenizer trained on the training texts."""

    layers: Positive = 2
    hidden: Positive = 64
    heads: Positive = 2
    vocabulary: int = Field(4000, ge=64, description="of an encoder of texts")
    patch: Positive = Field(4, description="of an encoder of images: side of the squares that become tokens")

    def conflict(self) -> str:
        if self.hidden % self.heads:
            return f"hidden is {self.hidden}, which is not a multiple of heads ({self.heads})"
        return ""


class Encoder(Settings):
    model: str = Field(
        pattern=r"^((package|hf|file):.+|scratch:(bert|deberta-v2|convnet|vit))$",
        description="package:NAME, hf:OWNER/NAME@REVISION, file:FOLDER, scratch:bert or scratch:deberta-v2; for images "
        "scratch:convnet or scratch:vit",
    )
    tune: Tune = Tune()
    pooling: Annotated[str, AfterValidator(_known_pooling)] = Field(
        "cls",
        description="how tokens become a vector: cls, mean, last, weighted (later tokens count more), echo (the text "
        "twice, and the mean of the second)",
    )
    attention: Literal["causal", "bidirectional"] | None = Field(
        None, description="what a token of a causal language model sees; left out: the model's own"
    )
    prompt: str = Field("", max_length=1000, description="put before each text, such as `query: `")
    dropout: Dropout = Field(0.1, description="dropout of the head and of views made by dropout")
    attention_dropout: Dropout | None = Field(None, description="left out: the model's own; 0 allows the fast kernel")
    scratch: Scratch | None = None

    def conflict(self) -> str:
        if self.scratch is not None and not self.model.startswith("scratch:"):
            return f"`scratch` sets the size of a scratch: encoder, but the model is {self.model}; leave `scratch` out"
        if self.attention is not None and self.model.startswith("scratch:"):
            return f"`attention` is of causal language models, and {self.model} is none: leave it out"
        return ""


class Training(Settings):
    epochs: Positive = 3
    batch_size: Positive = 16
    micro_batch: Positive | None = Field(None, description="texts encoded at a time (GradCache); left out: the batch")
    accumulate: Positive = Field(1, description="batches per optimizer step; adds no negatives to a contrastive term")
    head_lr: float = Field(1e-4, gt=0, le=1e30)
    encoder_lr: float = Field(2e-5, gt=0, le=1e30)
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor on the learning rate per block, from the top down")
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps over which the learning rate rises")
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0: no clipping")
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    bucket: Positive = Field(10, description="number of batches sorted by length together; 1: random batches")
    order_seed: Seed | None = Field(
        None,
        description="seed of the order of the batches; left out: the cell's seed. With one order for all seeds, the "
        "spread over seeds excludes the effect of the order",
    )
    threads: int = Field(1, ge=1, le=1024, description="CPU threads per cell; they change the last bits of results")
    processes: int = Field(1, ge=1, le=1024, description="processes that share a batch, a device each (Accelerate)")
    augment: Augment | None = Field(None, description="how each pass of training changes its images")
    sharding: str | None = Field(
        None,
        pattern=r"^(fsdp|deepspeed:.+\.json)$",
        description="how processes split the training state: fsdp, or deepspeed:FILE.json, e.g. "
        "deepspeed:configs/deepspeed/zero2.json; left out: each holds all of it (DDP)",
    )


class Cell(Settings):
    """One fully resolved training configuration: all that decides a result, and nothing else."""

    data: Data
    encoder: Encoder
    objective: Objective
    training: Training
    seed: Seed
    plugins: tuple[str, ...] = ()  # copies of the users' files that it uses
    soup: tuple["Cell", ...] = ()  # cells whose mean weights it has; the other parts are those of the first

    @model_validator(mode="before")
    @classmethod
    def _know_plugins(cls, values: Any) -> Any:
        copies = values.get("plugins") if isinstance(values, dict) else None
        for copy in copies or ():
            add_plugin(copy)
        # the validator that is at work knows no settings that have just been added
        return values | {"objective": Objective.model_validate(values["objective"])} if copies else values

    def conflict(self) -> str:
        """Return why the settings of different parts cannot be combined; empty if they can."""
        data, encoder, objective, training = self.data, self.encoder, self.objective, self.training
        if reason := _images_error(self) or resample_error(data):
            return reason
        if training.processes > training.batch_size:
            return f"{training.processes} processes cannot share batches of {training.batch_size} texts"
        if training.sharding is not None and training.micro_batch is not None:
            return "micro_batch encodes each text twice, which does not work with sharding: leave one of them out"
        if training.sharding is not None and training.precision == "fp16":
            return "precision fp16 scales the loss, which does not work with sharding: take bf16 or fp32"
        on_encoder = [entry.name for entry in objective.loss_entries() if entry.input_name != "logits"]
        if encoder.tune.last_blocks == 0 and on_encoder:
            return f"last_blocks 0 freezes the encoder, but {on_encoder[0]} only trains the encoder"
        if not objective.compares():
            return ""
        return _too_few_texts(data, objective, training) or _missing_requirement(data, encoder, objective)

    def train_sample_seed(self) -> int | None:
        """Return the seed that draws the training texts, or None if all seeds share them."""
        return self.seed if self.data.resample else None

    def canonical(self) -> "Cell":
        """Return the cell with every setting that cannot affect its result reset to its default."""
        idle = idle_rates(self.encoder.tune, self.objective)
        training = self.training.model_copy(update={name: Training.model_fields[name].default for name in idle})
        usual_size = self.encoder.scratch == Scratch()
        encoder = self.encoder.model_copy(update={"scratch": None}) if usual_size else self.encoder
        update = {"encoder": encoder, "objective": self.objective.canonical(), "training": training}
        if self.data.images is not None:  # which have no tokens
            longest = {"max_length": Data.model_fields["max_length"].default}
            update["data"] = self.data.model_copy(update=longest)
        return self.model_copy(update=update)


def idle_rates(tune: Tune, objective: Objective) -> set[str]:
    """Return the names of the learning-rate settings that apply to no parameter."""
    frozen = tune.last_blocks == 0
    idle = {"layer_decay": frozen or tune.lora is not None, "encoder_lr": frozen, "head_lr": not objective.has_heads()}
    return {name for name, is_idle in idle.items() if is_idle}


def _images_error(cell: Cell) -> str:
    """Return why images and these settings do not fit, or why only images would; empty if all fit."""
    images, encoder, objective, training = cell.data.images, cell.encoder, cell.objective, cell.training
    shown = ", ".join(IMAGE_ENCODERS)
    if images is None:
        if encoder.model in IMAGE_ENCODERS:
            return f"{encoder.model} reads images: set data.images, such as {{size: 32}}; scratch:bert reads texts"
        if training.augment is not None:
            return "training.augment changes images, but the data are texts: leave it out, and choose a view of texts"
        if objective.compares() and "small" in objective.view_entry().tools:
            return f"the view {objective.view_entry().name} cuts images, but the data are texts: choose a view of texts"
        return ""
    if encoder.model.startswith("scratch:") and encoder.model not in IMAGE_ENCODERS:
        return f"{encoder.model} reads texts, but the data are images (data.images): take {shown}"
    if encoder.model in IMAGE_ENCODERS and images.size % (patch := (encoder.scratch or Scratch()).patch):
        return f"images of {images.size} pixels cannot be divided into patches of {patch}: change scratch.patch"
    if images.channels == 1 and training.augment is not None and training.augment.gray:
        return "training.augment.gray takes the colours away, but the images are grey (channels: 1): leave it out"
    if encoder.pooling == "echo" or encoder.prompt:
        return "images have no words to repeat or to prompt: leave `prompt` out, and take another pooling than echo"
    if objective.reads_guesses():
        return f"`{objective.loss}` guesses hidden words, which images do not have: leave that loss out"
    if not objective.compares():
        return ""
    facts, tools, view = objective.view_facts(), objective.view_entry().tools, objective.view_with_variant()
    if _needs_words(facts, tools):
        every = registry.views().items()
        fitting = ", ".join(name for name, entry in every if not _needs_words(entry.facts, entry.tools))
        return f"the view {view} needs words, which images do not have: set training.augment, and take {fitting}"
    if "small" in tools and training.augment is None:
        return f"the view {view} cuts and changes images: set training.augment"
    twice = facts.passes + facts.slow_passes > 1
    if twice and training.augment is None and encoder.model == "scratch:convnet":
        return f"the view {view} compares passes, but scratch:convnet has no dropout: set training.augment"
    return ""


def _needs_words(facts: ViewFacts, tools: tuple[str, ...]) -> bool:
    return bool(facts.attention or facts.changed_passes or facts.partners or WORD_TOOLS & {*tools})


def resample_error(data: Data) -> str:
    """Return why training texts cannot be drawn per seed; empty if they can, or need not be."""
    if data.resample and data.train is None:
        return "data.resample draws data.train texts for each seed, but data.train is left out: give it a number"
    return ""


def _too_few_texts(data: Data, objective: Objective, training: Training) -> str:
    """Return why a loss has too few texts in a batch or in all; empty if there are enough."""
    for entry in objective.loss_entries():
        in_batch = entry.input_name != "logits" and entry.facts.compares and entry.facts.needs_batch
        if training.batch_size == 1 and in_batch:
            return f"{entry.name} compares the texts of a batch, but batch_size is 1: raise it"
        least = getattr(objective, entry.facts.least_texts) if entry.facts.least_texts is not None else 0
        if data.train is not None and data.train < least:
            return f"{entry.name} has {least} {entry.facts.least_texts}, but there are only {data.train} training texts"
    return ""


def _missing_requirement(data: Data, encoder: Encoder, objective: Objective) -> str:
    """Return what the data or encoder lack that the losses or the view need; empty if nothing."""
    view, facts, shown = objective.view_entry(), objective.view_facts(), objective.view_with_variant()
    if facts.partners and data.positive is None:
        return f"the view {shown} compares a text with its positive: name its column in data.positive"
    hard = [entry.name for entry in objective.loss_entries() if requires(entry, "negatives")]
    if hard and data.negative is None and not objective.mine:
        advice = "name its column in data.negative, or set `mine: true` and a `guide`"
        return f"{hard[0]} needs a hard negative for each text: {advice}"
    if objective.mine and not facts.partners:
        return f"`mine` takes positives of other texts as hard negatives, which the view {shown} does not read"
    if objective.mine and data.negative is not None:
        return "data.negative gives hard negatives, and `mine` finds them: leave one of them out"
    if objective.guide is not None and data.images is not None:
        return "a guide reads texts, but the data are images: leave out the losses that need one"
    if "guess" in view.tools and encoder.model.startswith("scratch:") and not objective.reads_guesses():
        trains = next(entry.name for entry in registry.loss_entries().values() if entry.input_name == "surprise")
        return f"{encoder.model} guesses at random: train it with `{objective.loss}+{trains}`, or take another view"
    if encoder.pooling == "echo" and (facts.attention or facts.positions):
        return f"the view {shown} reads or moves the places of tokens, which echo doubles: take another pooling"
    if facts.positions and encoder.model == "scratch:deberta-v2":
        return f"the view {shown} needs position embeddings; scratch:deberta-v2 only has relative distances"
    return ""


# Setting → the part of a cell that holds it. The `base`, rows, `axes` and `exclude` of sections use these names.
PARTS: dict[str, type[Settings]] = {"data": Data, "encoder": Encoder, "objective": Objective, "training": Training}
SETTINGS: dict[str, str] = {name: part for part, model in PARTS.items() for name in model.model_fields}
RESERVED = {"axes", "exclude", "soup", "by", "seed", "seeds"}  # names in the maps of an experiment that are no settings


def add_plugin(name: str) -> str:
    """Make the entries of a user's file known, and their keyword parameters settings of `objective`; return its
    module. `name`: DIGEST/NAME.py of its copy in the home."""
    module, file = registry.add_plugin(name), Path(name).name
    readers: list[registry.RegistryEntry[Any]] = [*registry.loss_entries().values(), *registry.views().values()]
    own = [(entry, name) for entry in readers if entry.module == module for name in entry.settings]
    new = {name: entry.kinds[name] for entry, name in own if name not in {*Objective.model_fields, *registry.GIVEN}}
    for name, kind in new.items():
        if name in SETTINGS or name in RESERVED or hasattr(Objective, name):
            raise UserError(f"{file}: `{name}` is another setting of experiments; give the parameter another name")
        if kind not in registry.KINDS:
            kinds = ", ".join(registry.KINDS)
            raise UserError(f"{file}: annotate the setting `{name}` with its type, one of {kinds}")
    for entry, name in own:
        if name in new and not _is_of(kind := entry.kinds[name], default := entry.defaults.get(name)):
            raise UserError(f"{file}: the default of `{name}` is {default!r}, and its type {kind}")
    for name, kind in new.items():
        optional: Any = registry.KINDS[kind] | None
        Objective.model_fields[name] = FieldInfo(annotation=optional, default=None)
        setattr(Objective, name, None)  # of objectives that were made before
        SETTINGS[name] = "objective"
    if new:
        Objective.model_rebuild(force=True)
        for model in Settings.__subclasses__():
            if "objective" in model.model_fields:
                model.model_rebuild(force=True)
    return module


def _is_of(kind: str, default: Any) -> bool:
    """Return whether a default is of a setting's type, or left out."""
    if default is None or (kind == "float" and type(default) in (int, float)):
        return default is None or math.isfinite(default)
    return type(default) is registry.KINDS[kind]
