"""VIEWS: the registry of views, which turn one sample into several vectors. To add one, see CONTRIBUTING.md."""

from collections.abc import Callable

from contrastive.views.consert import consert
from contrastive.views.passes import (
    cls,
    cluster,
    copies,
    layers,
    momentum,
    multicrop,
    multiview,
    one_stage,
    pair,
    topk_tokens,
    two_stage,
)
from contrastive.views.types import View
from contrastive.views.words import backtranslation, contextual, eda, reorder, span, span_delete, synonym, word_delete

VIEWS: dict[str, Callable[..., View]] = {
    "cls": cls,
    "one_stage": one_stage,
    "two_stage": two_stage,
    "multiview": multiview,
    "multicrop": multicrop,
    "topk_tokens": topk_tokens,
    "cluster": cluster,
    "layers": layers,
    "momentum": momentum,
    "copies": copies,
    "consert": consert,
    "word_delete": word_delete,
    "span_delete": span_delete,
    "reorder": reorder,
    "span": span,
    "pair": pair,
    "contextual": contextual,
    "synonym": synonym,
    "eda": eda,
    "backtranslation": backtranslation,
}

USUAL_VIEWS = ("cls", "two_stage")  # defaults for losses without a view of their own: the first that fits
