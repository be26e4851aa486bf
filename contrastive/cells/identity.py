"""The id of a cell: a hash of what decides its result (settings, data and model content, code), and of nothing else.

A setting at its default is left out, so that a new option changes no id; in exchange a default may never change its
meaning silently: `tests/contrastive/cells/test_identity.py` pins them, and `VERSION` is raised when one must change.
"""

from collections.abc import Callable, Iterable
from typing import Any

from contrastive import data
from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.objective import Objective
from contrastive.data import transfer_data
from contrastive.runs import fingerprint
from contrastive.runs.fingerprint import code_digest
from contrastive.sources import deepspeed_file, locate

VERSION = 1
EVALUATION_VERSION = 2  # of scores.json; scores of another version are measured again, never mixed

STAGES = (
    "contrastive.data.tokens",
    "contrastive.reuse.frozen_store",
    "contrastive.training.train",
    "contrastive.evaluation.embed",
)  # what computes a cell's result


def identity(cell: Cell) -> dict[str, Any]:
    """Everything that decides the result of a (canonical) cell, as plain data."""
    return identities([cell])[cell]


def identities(cells: Iterable[Cell]) -> dict[Cell, dict[str, Any]]:
    """The identity of each cell; what cells share is looked at once, so that all see one state of the disk."""
    shared: dict[tuple[str, Settings], Any] = {}

    def once(make: Callable[[Any], Any], part: Settings) -> Any:
        key = (make.__name__, part)
        if key not in shared:
            shared[key] = make(part)
        return shared[key]

    return {
        cell: {
            "data": once(_data_content, cell.data),
            "encoder": once(encoder_content, cell.encoder),
            "objective": once(_objective_content, cell.objective),
            "training": once(_training_content, cell.training),
            "seed": cell.seed,
            "version": VERSION,
            "code": code_of(cell),
        }
        for cell in cells
    }


def _dump(part: Settings) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_defaults=True)


def _objective_content(part: Objective) -> dict[str, Any]:
    """With the weights of its terms: what they follow from is no code of a stage. Words of others are their content."""
    named = _dump(part) | {"terms": part.terms()}
    if part.translators is not None:
        named["translators"] = [locate.weights_digest(m, locate.TRANSLATOR_FILES) for m in part.translators]
    if "lexicon" in part.line_of_view().tools:
        named["wordnet"] = locate.files_digest(locate.wordnet_folder(), locate.WORDNET_FILES)
    return named


def _data_content(part: Data) -> dict[str, Any]:
    """Splits of their own are in the content's digest; their paths, like the source's, decide nothing."""
    own = ("validation", "test")
    named = {k: "own" if k in own and isinstance(v, str) else v for k, v in _dump(part).items() if k != "source"}
    return named | {"content": data.data_digest(part)}


def _training_content(part: Training) -> dict[str, Any]:
    """What DeepSpeed is told is its file's content, wherever that lies."""
    named = _dump(part)
    return (
        named | {"sharding": deepspeed_file.sharding_digest(named["sharding"])}
        if deepspeed_file.names_file(part)
        else named
    )


def encoder_content(part: Encoder) -> dict[str, Any]:
    named = _dump(part)
    return named if part.model.startswith("scratch:") else named | {"model": locate.model_digest(part)}


def cell_id(document: dict[str, Any]) -> str:
    return fingerprint.key("cell", **document)


def code_of(cell: Cell) -> str:
    return code_digest(STAGES, chosen_entries(cell))


def evaluation_key(evaluation: Evaluation) -> str:
    """Digest of how embeddings are measured: the settings, the code of what they name, and transfer data's content."""
    posts = {how.partition(":")[0] for how in evaluation.post}
    named = (
        ("contrastive.evaluation.metrics", "METRICS", tuple(sorted(evaluation.metrics))),
        ("contrastive.evaluation.post", "POSTS", tuple(sorted(posts))),
    )
    return fingerprint.key(
        "evaluation",
        version=EVALUATION_VERSION,
        code=code_digest(("contrastive.evaluation.evaluate",), named),
        settings=evaluation,
        **({} if evaluation.test is None else {"test": code_digest(("contrastive.data.larger_test",))}),
        transfer=[[transfer_data.transfer_key(transfer, ""), *transfer.scores()] for transfer in evaluation.transfer],
    )


def chosen_entries(cell: Cell) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The lines of each registry that this cell uses, so that a new loss leaves the others' cells alone."""
    kind, _, name = cell.data.source.partition(":")
    return (
        ("contrastive.losses", "LOSSES", tuple(sorted(cell.objective.terms()))),
        ("contrastive.views", "VIEWS", (cell.objective.chosen_view(),)),
        ("contrastive.data", "DATASETS", (name,) if kind == "package" else ()),
    )
