"""What a cell minimises, on which views, and which losses and views fit each other."""

import json
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from contrastive.config import registry
from contrastive.config.base import Positive, Settings, Weights, check_name
from contrastive.config.facts import FactsVariant, LossFacts, ViewFacts
from contrastive.config.registry import RegistryEntry
from contrastive.errors import brief_name


class Objective(Settings):
    """What is minimised, on which views. A setting that neither loss nor view reads does not matter to the cell."""

    loss: str = Field(
        registry.literal("contrastive.losses", "USUAL_LOSS"),
        description="names of losses joined by +, the terms after the cross-entropy weighed by alpha",
    )
    view: str | None = Field(None, description="how a sample becomes several vectors; left out: the loss's usual one")
    alpha: float = Field(1.0, ge=0, description="weight of the terms after the cross-entropy")
    mlm_weight: float = Field(0.1, gt=0, description="weight of the guesses of hidden words")
    temperature: float | None = Field(None, gt=0, description="left out: the loss's own")
    beta: float | None = Field(None, ge=0, description="class mates weigh β times as much as the own other view")
    sigma: float | None = Field(None, gt=0, description="sharpness of the weight on the positive")
    rate: float | None = Field(None, gt=0, lt=1, description="share of a text that is changed")
    change: (
        Literal["token_cutoff", "feature_cutoff", "span_cutoff", "position_shuffle", "dropout", "adversarial"] | None
    ) = Field(None, description="what happens to the embeddings")
    queue: Positive | None = Field(None, description="keys of earlier batches that are negatives")
    projector: Positive | None = Field(None, description="width of a loss's own projector")
    projection: Positive | None = Field(None, description="dimensions of what the projector gives")
    prototypes: int | None = Field(None, ge=2, le=100_000, description="prototypes that share the batch")
    redundancy: float | None = Field(None, ge=0, description="weight of correlations between dimensions")
    chunk: Positive | None = Field(None, description="rows of the similarity matrix held at a time; left out: all")
    k: Positive = Field(30, description="tokens a sample")
    clusters: Positive = Field(5, description="k-means centres: of a sample (a view), of the texts (a loss)")
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(
        None, min_length=1, description="numbers of blocks, from 0", examples=[[8, 9, 10, 11]]
    )
    level: Literal["sentence", "token"] = "sentence"
    middle: Annotated[int, Field(ge=0)] | None = Field(None, description="the block between; left out: half way up")
    translators: tuple[Weights, Weights] | None = Field(
        None,
        description="two models that translate there and back, each package:NAME, "
        "hf:OWNER/NAME@REVISION or file:FOLDER",
        examples=[["file:models/en-de", "file:models/de-en"]],
    )

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, value: str) -> str:
        names, losses = value.split("+"), registry.loss_entries()
        for name in names:
            check_name("loss", brief_name(name), losses)
        for name in names:
            if within := set(losses[name].facts.contains) & set(names):
                rest = "+".join(other for other in names if other not in within)
                raise ValueError(f"{name} already contains {within.pop()}; write `{brief_name(rest)}`")
        if len(set(names)) < len(names):
            raise ValueError(f"`{brief_name(value)}` names a loss twice")
        return "+".join(sorted(names, key=_rank))

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
            check_name("view", brief_name(value), registry.views())
        return value

    @model_validator(mode="after")
    def _fitting(self) -> "Objective":
        if self.compares() and (reason := self._misfit()):
            raise ValueError(reason)
        return self

    def _misfit(self) -> str:
        """Why losses and view do not go together, or lack a setting; empty where nothing is wrong."""
        view = self.line_of_view()
        if "slow" in view.tools and self.view and not any("targets" in line.settings for line in self.lines()):
            return f"no loss of `{self.loss}` reads the slow copy that the view `{self.view}` keeps"
        if reason := next(filter(None, (_unfit(line, view.name, self) for line in self.lines())), ""):
            return reason if self.view else f"no view fits all terms of `{self.loss}`: {reason}"
        for name in view.settings:
            if name not in view.defaults and getattr(self, name) is None:
                return f"the view `{view.name}` needs `{name}` {_said_of_setting(name)}"
        if self.view_facts().judged and not self.supervised():
            supervised = next(name for name, line in registry.loss_entries().items() if line.facts.supervised)
            return (
                f"{self.said_of_view()} follows the cross-entropy, which `{self.loss}` has not: "
                f"write `{supervised}+{self.loss}`, or choose otherwise"
            )
        return ""

    def lines(self) -> tuple[RegistryEntry[LossFacts], ...]:
        """What is registered of each term."""
        return _lines_of(self.loss)

    def terms(self) -> dict[str, float]:
        """Loss name → weight. Cross-entropy weighs 1."""
        return {line.name: self._weight(line.facts) for line in self.lines()}

    def _weight(self, facts: LossFacts) -> float:
        name = _weight_of(facts, self.supervised())
        return 1.0 if name is None else float(getattr(self, name))

    def supervised(self) -> bool:
        """Whether a term is the cross-entropy, against which the others are weighed."""
        return any(line.facts.supervised for line in self.lines())

    def compares(self) -> bool:
        """Whether a term compares vectors or predictions, so that the view matters."""
        return any(line.facts.compares for line in self.lines())

    def reads_logits(self) -> bool:
        """Whether a term reads the head's predictions; without one there is no head."""
        return any(line.first == "logits" for line in self.lines())

    def reads_guesses(self) -> bool:
        """Whether a term reads the encoder's guesses of hidden words, so that these train."""
        return any(line.first == "surprise" for line in self.lines())

    def guessing(self) -> list[str]:
        """The losses and the view for which the encoder guesses hidden words."""
        names = [line.name for line in self.lines() if line.first == "surprise"]
        view = self.line_of_view()
        return [*names, *([view.name] if self.compares() and "guess" in view.tools else [])]

    def has_heads(self) -> bool:
        """Whether anything trains at the rate of heads: the classifier, or what a loss brings with it."""
        return self.reads_logits() or self.reads_guesses() or any(line.is_module for line in self.lines())

    def canonical(self) -> "Objective":
        """The same objective with every setting that it does not read back at its default."""
        settings: dict[str, Any] = {name: getattr(self, name) for name in self.read()}
        if self.compares():
            settings["view"] = self.chosen_view()
        chosen = Objective.model_construct(loss=self.loss, view=settings.get("view"))
        for name, value in settings.items():
            if Objective.model_fields[name].default is None and chosen.taken(name) == {value}:
                settings[name] = None
        return Objective(**settings)

    def read(self) -> set[str]:
        """Names of the settings that decide something, `loss` among them."""
        weights = [_weight_of(line.facts, self.supervised()) for line in self.lines()]
        names = {"loss", *(setting for line in self.lines() for setting in line.settings), *filter(None, weights)}
        if self.compares():
            names |= {"view", *self.line_of_view().settings} - set(self.view_facts().unread)
        return names & set(Objective.model_fields)

    def taken(self, name: str) -> set[Any]:
        """What the losses and the view that read a setting take by themselves, where the cell leaves it out."""
        readers: list[RegistryEntry[Any]] = [*self.lines(), *([self.line_of_view()] if self.view else [])]
        return {reader.defaults.get(name) for reader in readers if name in reader.settings}

    def chosen_view(self) -> str:
        """The view, or where none is named the usual one."""
        return self.view or self.usual_view()

    def line_of_view(self) -> RegistryEntry[ViewFacts]:
        return registry.views()[self.chosen_view()]

    def view_facts(self) -> ViewFacts:
        """What the view says of itself, with the settings that are chosen."""
        return _facts_of(self.chosen_view(), self)

    def said_of_view(self) -> str:
        """The view in an error, with the setting that makes a variant of it."""
        return f"the view {_said_of_view(self.chosen_view(), self)}"

    def usual_view(self) -> str:
        """The view of a loss that has one; else the first of the usual ones that fits all terms."""
        own = [line.facts.usual_view for line in self.lines() if line.facts.usual_view is not None]
        candidates = [*own, *registry.literal("contrastive.views", "USUAL_VIEWS")]
        fitting = (view for view in candidates if not any(_unfit(line, view, self) for line in self.lines()))
        return str(next(fitting, candidates[0]))


@cache
def _lines_of(loss: str) -> tuple[RegistryEntry[LossFacts], ...]:
    """What is registered of the losses of a sum, and of those that one of them contains."""
    losses = registry.loss_entries()
    names = [inner for name in loss.split("+") for inner in (*losses[name].facts.contains, name)]
    return tuple(losses[name] for name in dict.fromkeys(names))


def _rank(name: str) -> tuple[bool, bool, str]:
    """One order for one sum: the cross-entropy first, guesses of words last, what is between them by the alphabet."""
    facts = registry.loss_entries()[name].facts
    return not (facts.supervised or facts.contains), not facts.compares, name


def _weight_of(facts: LossFacts, supervised: bool) -> str | None:
    """The setting that weighs a term; None for the cross-entropy, and for what has none beside it to be weighed by."""
    if facts.supervised or (facts.weight == "alpha" and not supervised):
        return None
    return facts.weight


def _variant_of(view: str, objective: Objective) -> FactsVariant | None:
    return next((variant for variant in registry.views()[view].facts.variants if variant.applies(objective)), None)


def _facts_of(view: str, objective: Objective) -> ViewFacts:
    variant = _variant_of(view, objective)
    return variant.facts if variant else registry.views()[view].facts


def _said_of_view(view: str, objective: Objective) -> str:
    variant = _variant_of(view, objective)
    return f"{view} with {variant.setting} {variant.value}" if variant else view


def _said_of_setting(name: str) -> str:
    field = Objective.model_fields[name]
    example = f", for example {json.dumps(field.examples[0])}" if field.examples else ""
    return f"({field.description}){example}"


def _unfit(loss: RegistryEntry[LossFacts], view: str, objective: Objective) -> str:
    """Why a loss cannot be computed on a view; empty where it can."""
    number, views, said = loss.facts.vectors, registry.views(), _said_of_view(view, objective)
    facts = _facts_of(view, objective)
    if loss.first == "logits":
        if number in (None, facts.predictions):
            return ""
        fitting = [
            name for name, line in views.items() if line.facts.predictions == number and "slow" not in line.tools
        ]
        return f"{loss.name} compares {number} predictions of a text: its view is {' or '.join(fitting)}, not {said}"
    if loss.first != "views":
        return ""
    if "targets" in loss.settings and "slow" not in views[view].tools:
        fitting = [name for name, line in views.items() if "slow" in line.tools]
        return f"{loss.name} needs the view {' or '.join(fitting)}, which keeps a slow copy of the encoder, not {said}"
    if "negatives" in loss.settings and not facts.partners:
        fitting = [name for name, line in views.items() if line.facts.partners]
        return (
            f"{loss.name} needs the view {' or '.join(fitting)}, which has positives and hard negatives from the data, "
            f"not {said}"
        )
    if number is not None and facts.vectors != number:
        fitting = [name for name, line in views.items() if line.facts.vectors == number and "slow" not in line.tools]
        return f"{loss.name} compares {number} views of a text, as {', '.join(fitting)} give; {said} does not"
    if "labels" not in loss.settings and facts.vectors == 1:
        return f"{loss.name} compares the views of a text, and {said} gives only one"
    return ""
