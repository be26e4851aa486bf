"""VIEWS: the registry of views, which turn one sample into several vectors. To add one, see CONTRIBUTING.md."""

from collections.abc import Callable

from contrastive.views.backtranslation import backtranslation
from contrastive.views.cls import cls
from contrastive.views.cluster import cluster
from contrastive.views.consert import consert
from contrastive.views.contextual import contextual
from contrastive.views.copies import copies
from contrastive.views.eda import eda
from contrastive.views.layers import layers
from contrastive.views.momentum import momentum
from contrastive.views.multicrop import multicrop
from contrastive.views.multiview import multiview
from contrastive.views.one_stage import one_stage
from contrastive.views.pair import pair
from contrastive.views.reorder import reorder
from contrastive.views.span import span
from contrastive.views.span_delete import span_delete
from contrastive.views.synonym import synonym
from contrastive.views.topk_tokens import topk_tokens
from contrastive.views.two_stage import two_stage
from contrastive.views.types import View
from contrastive.views.word_delete import word_delete

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
