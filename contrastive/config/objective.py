"""What a cell minimises, on which views, and which losses and views fit each other."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from contrastive.config import registry
from contrastive.config.base import Positive, Settings, Weights, known
from contrastive.errors import brief_name


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
