"""Compute the id of a cell, a hash of all that decides its result: settings, data and model content, and code.

Settings at their default are left out, so that a new option changes no id. In exchange, a default must not change:
`tests/contrastive/grid/test_identity.py` pins the defaults, and `VERSION` is raised when one must change.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from contrastive import data
from contrastive.config import registry
from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Data, Encoder, Training, add_plugin
from contrastive.config.evaluation import Evaluation
from contrastive.config.objective import Objective
from contrastive.data import locate, transfer_data
from contrastive.grid import deepspeed_file
from contrastive.runs import fingerprint
from contrastive.runs.fingerprint import code_digest

VERSION = 2
EVALUATION_VERSION = 4  # of scores.json; scores of another version are computed again, never mixed

STAGES = (
    "contrastive.data.tokens",
    "contrastive.models.frozen_store",
    "contrastive.training.train",
    "contrastive.evaluation.embed",
)  # modules that compute the result of a cell


def identity(cell: Cell) -> dict[str, Any]:
    """Return everything that decides the result of a canonical cell, as plain data."""
    return identities([cell])[cell]


def identities(cells: Iterable[Cell]) -> dict[Cell, dict[str, Any]]:
    """Return the identity of each cell; shared files are read once, so that all cells see one state of the disk."""
    cells = list(cells)
    members = list({member for cell in cells for member in cell.soup})
    id_of = {member: cell_id(document) for member, document in identities(members).items()} if members else {}
    for copy in {copy for cell in cells for copy in cell.plugins}:
        add_plugin(copy)
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
            "code": code_digest(stages(cell), registry_choices(cell)),
            **(
                {"soup": [code_digest(("contrastive.training.soup",)), *map(id_of.get, cell.soup)]} if cell.soup else {}
            ),
        }
        for cell in cells
    }


def _dump(part: Settings) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_defaults=True)


def _objective_content(part: Objective) -> dict[str, Any]:
    """Return the settings, the weights of the terms, and digests of the translators, the guide and WordNet if used.

    The weights are included because the code that computes them is not in any stage.
    """
    named = _dump(part) | {"terms": part.term_weights()}
    if part.translators is not None:
        named["translators"] = [locate.weights_digest(m, locate.TRANSLATOR_FILES) for m in part.translators]
    if part.guide is not None:
        named["guide"] = [locate.guide_digest(part.guide), code_digest(("contrastive.models.guide",))]
    if "lexicon" in part.view_entry().tools:
        named["wordnet"] = locate.files_digest(locate.wordnet_folder(), locate.WORDNET_FILES)
    return named


def _data_content(part: Data) -> dict[str, Any]:
    """Replace the paths of source and splits, which must not affect the identity, by a digest of the content."""
    splits = ("validation", "test")
    named = {k: "own" if k in splits and isinstance(v, str) else v for k, v in _dump(part).items() if k != "source"}
    return named | {"content": data.data_digest(part)}


def _training_content(part: Training) -> dict[str, Any]:
    """Replace the path of a DeepSpeed file by a digest of its content."""
    named = _dump(part)
    if deepspeed_file.uses_deepspeed(part):
        named["sharding"] = deepspeed_file.sharding_digest(named["sharding"])
    return named


def encoder_content(part: Encoder) -> dict[str, Any]:
    named = _dump(part)
    return named if part.model.startswith("scratch:") else named | {"model": locate.model_digest(part)}


def cell_id(document: dict[str, Any]) -> str:
    return fingerprint.key("cell", **document)


def evaluation_key(evaluation: Evaluation) -> str:
    """Digest the evaluation: its settings, the code of its metrics and transformations, and transfer data content."""
    posts = {post.partition(":")[0] for post in evaluation.post}
    named = (
        ("contrastive.evaluation.metrics", "METRICS", tuple(sorted(evaluation.metrics))),
        ("contrastive.evaluation.post", "POSTS", tuple(sorted(posts))),
    )
    return fingerprint.key(
        "evaluation",
        version=EVALUATION_VERSION,
        code=code_digest(("contrastive.evaluation.evaluate",), named),
        settings=evaluation.model_copy(update={"plugins": ()}),
        **({} if evaluation.test is None else {"test": code_digest(("contrastive.data.tokens",))}),
        transfer=[[transfer_data.transfer_key(transfer, ""), *transfer.scores()] for transfer in evaluation.transfer],
    )


def stages(cell: Cell) -> tuple[str, ...]:
    """Return the modules that compute the result of a cell."""
    return (*STAGES, "contrastive.models.registered") if own_encoder(cell.encoder) else STAGES


def own_encoder(encoder: Encoder) -> str:
    """Return the model type of an encoder whose class is in a user's file; empty for others."""
    if not registry.encoders() or encoder.model.startswith("scratch:"):
        return ""
    kind = str(locate.configuration(encoder).get("model_type"))
    return kind if kind in registry.encoders() else ""


def registry_choices(cell: Cell) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the registry entries that a cell uses, so that a new loss does not change the ids of other cells."""
    pooling, kind = cell.encoder.pooling, own_encoder(cell.encoder)
    own_pooling = registry.poolings()[pooling].module in registry.PLUGINS
    return (
        ("contrastive.losses", "LOSSES", tuple(sorted(cell.objective.term_weights()))),
        ("contrastive.views", "VIEWS", (cell.objective.chosen_view(),)),
        data.registry_choice(cell.data.source),
        *([("contrastive.models.pooling", "POOLINGS", (pooling,))] if own_pooling else []),
        *([("contrastive.models.registered", "ENCODERS", (kind,))] if kind else []),
    )


def text_settings(data: Data) -> Data:
    """Return the data settings that decide the texts and splits: all but max_length. If each seed draws its training
    texts, `Cell.train_sample_seed` decides them too."""
    return data.model_copy(update={"max_length": Data.model_fields["max_length"].default})


def token_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Return what decides the tokens of a cell on one machine: data, seed of the training texts, tokenizer and
    prompt."""
    encoder = cell.encoder
    return cell.data, cell.train_sample_seed(), encoder.model, encoder.scratch, encoder.prompt


def numeric_settings(cell: Cell) -> dict[str, Any]:
    """Return what decides the last digits of the output for the same weights and tokens."""
    return {"precision": cell.training.precision, "threads": cell.training.threads}


def initial_weight_settings(cell: Cell) -> dict[str, Any]:
    """Return what decides the initial weights of the encoder; the seed draws those of a scratch encoder."""
    scratch = cell.encoder.model.startswith("scratch:")
    return {"model": cell.encoder.model, "scratch": cell.encoder.scratch, "seed": cell.seed if scratch else None}


def untrained_output_settings(cell: Cell) -> dict[str, Any]:
    """Return what decides the output of the whole encoder for given tokens before training."""
    return {"encoder": cell.encoder} | initial_weight_settings(cell) | numeric_settings(cell)
