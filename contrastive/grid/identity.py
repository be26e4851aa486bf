"""The id of a cell: a hash of what decides its result (settings, data and model content, code), and of nothing else.

A setting at its default is left out, so that a new option changes no id; in exchange a default may never change its
meaning silently: `tests/contrastive/grid/test_identity.py` pins them, and `VERSION` is raised when one must change.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from contrastive import data
from contrastive.config import registry
from contrastive.config.base import Settings
from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.objective import Objective
from contrastive.data import locate, transfer_data
from contrastive.data.locate import separable_blocks
from contrastive.grid import deepspeed_file
from contrastive.runs import fingerprint
from contrastive.runs.fingerprint import code_digest

VERSION = 1
EVALUATION_VERSION = 3  # of scores.json; scores of another version are measured again, never mixed

STAGES = (
    "contrastive.data.tokens",
    "contrastive.grid.deepspeed_file",
    "contrastive.grid.frozen_readers",
    "contrastive.models.frozen_store",
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
            "code": cell_code_digest(cell),
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
        if deepspeed_file.uses_deepspeed(part)
        else named
    )


def encoder_content(part: Encoder) -> dict[str, Any]:
    named = _dump(part)
    return named if part.model.startswith("scratch:") else named | {"model": locate.model_digest(part)}


def cell_id(document: dict[str, Any]) -> str:
    return fingerprint.key("cell", **document)


def cell_code_digest(cell: Cell) -> str:
    return code_digest(STAGES, registry_choices(cell))


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
        **({} if evaluation.test is None else {"test": code_digest(("contrastive.data.tokens",))}),
        transfer=[[transfer_data.transfer_key(transfer, ""), *transfer.scores()] for transfer in evaluation.transfer],
    )


def registry_choices(cell: Cell) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The lines of each registry that this cell uses, so that a new loss leaves the others' cells alone."""
    kind, _, name = cell.data.source.partition(":")
    return (
        ("contrastive.losses", "LOSSES", tuple(sorted(cell.objective.terms()))),
        ("contrastive.views", "VIEWS", (cell.objective.chosen_view(),)),
        ("contrastive.data", "DATASETS", (name,) if kind == "package" else ()),
    )


def text_settings(data: Data) -> Data:
    """Decides which texts there are and how they are divided: all of the data but how long a text may be. Where each
    seed draws its training texts, `Cell.train_sample_seed` decides them too."""
    return data.model_copy(update={"max_length": Data.model_fields["max_length"].default})


def token_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the tokens of a cell on one machine: the data, with the draw of its training texts, and of the encoder
    whose tokenizer it has."""
    return cell.data, cell.train_sample_seed(), cell.encoder.model, cell.encoder.scratch


def batch_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide how many tokens the batches of a training have."""
    training = cell.training
    filled = training.batch_size, training.bucket, training.token_budget
    return *token_settings(cell), *filled


def numeric_settings(cell: Cell) -> dict[str, Any]:
    """Decides the last digits of what the same weights give for the same tokens."""
    return {"precision": cell.training.precision, "threads": cell.training.threads}


def initial_weight_settings(cell: Cell) -> dict[str, Any]:
    """Decide the weights of the encoder before any training: those of a scratch encoder are drawn by the seed."""
    scratch = cell.encoder.model.startswith("scratch:")
    return {"model": cell.encoder.model, "scratch": cell.encoder.scratch, "seed": cell.seed if scratch else None}


def frozen_output_settings(cell: Cell) -> dict[str, Any]:
    """Decides what the blocks below the cut give for given tokens without dropout: not what happens above them."""
    attention = {"attention_dropout": cell.encoder.attention_dropout}  # 0 is computed in another way than the rest
    return initial_weight_settings(cell) | numeric_settings(cell) | attention | {"cut": separable_blocks(cell)}


def untrained_output_settings(cell: Cell) -> dict[str, Any]:
    """Decides what the whole encoder gives for given tokens before any training."""
    return {"encoder": cell.encoder} | initial_weight_settings(cell) | numeric_settings(cell)


def pass_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the texts and random numbers that frozen blocks are given step by step: all but the objective, of which
    only the cut matters."""
    return cell.data, cell.encoder, cell.training, cell.seed, separable_blocks(cell)


def calibration_settings(cell: Cell) -> dict[str, Any]:
    """Decide which calibration says how long an amount of work takes: the size of the encoder, and how it computes."""
    return {"model": cell.encoder.model, "scratch": cell.encoder.scratch} | numeric_settings(cell)


def work_settings(cell: Cell) -> tuple[Hashable, ...]:
    """Decide the amounts of work and memory of a cell: all but the numbers that weigh an objective, and the seed as
    far as it draws no texts."""
    names = ("loss", "view", "layers", "middle", *registry.variant_settings())
    return (
        cell.data,
        cell.train_sample_seed(),
        cell.encoder,
        cell.training,
        *(getattr(cell.objective, name) for name in names),
    )


def similarity_keys(cell: Cell) -> tuple[Hashable, ...]:
    """Decide what finished cells a cell is expected to take as long as, the most alike first."""
    how = cell.training.threads, cell.training.precision, cell.training.processes
    return (
        cell.model_copy(update={"seed": 0}),
        (cell.encoder, cell.objective.loss, cell.objective.view, *how),
        (cell.encoder, *how),
        cell.encoder.model,
    )
