"""Each key changes with every setting that it is to follow from, and with no other; what has one key is one thing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from contrastive.config.cell import Cell
from contrastive.config.experiment import Speed
from contrastive.data import tokens
from contrastive.grid import frozen_readers, identity
from contrastive.models import frozen_store
from tests.contrastive.grid.mutations import MUTATIONS, make, mutated

SIZES = {
    "encoder.scratch",
    *(f"encoder.scratch.{name}" for name in ("layers", "hidden", "heads", "vocabulary", "patch")),
}
DATA = {field for field in MUTATIONS if field.startswith("data.")}
ENCODER = {field for field in MUTATIONS if field.startswith("encoder.")}
ARITHMETIC = {"training.precision", "training.threads"}
TOKENS = DATA | {"encoder.scratch.vocabulary", "encoder.prompt"}
BEGUN = {"encoder.model", "seed"} | SIZES
CUT = {"objective.layers", "objective.level"}  # of the blocks that are computed apart
TUNED = {"encoder.tune", "encoder.tune.last_blocks", "encoder.tune.lora"}  # where other blocks train than before
FROZEN = BEGUN | ARITHMETIC | {"encoder.attention_dropout", "encoder.attention"} | CUT | TUNED | {"training.sharding"}
FULL = Speed()


def token_key(cell: Cell) -> str:
    return tokens.token_key(cell.data, cell.encoder, cell.train_sample_seed())


# What a key is called, how it is made, and every setting that it is to follow from.
KEYS: dict[str, tuple[Callable[[Cell], object], set[str]]] = {
    "tokens": (token_key, TOKENS),
    "same texts": (lambda cell: identity.text_settings(cell.data), DATA - {"data.max_length"}),
    "token settings": (identity.token_settings, DATA | BEGUN - {"seed"} | {"encoder.prompt"}),
    "arithmetic": (identity.numeric_settings, ARITHMETIC),
    "begun weights": (identity.initial_weight_settings, BEGUN),
    "frozen output": (frozen_readers.frozen_output_settings, FROZEN),
    "frozen store": (lambda cell: frozen_store.store_folder(token_key(cell), cell, FULL), TOKENS | FROZEN),
    "its reader": (lambda cell: frozen_readers.store_identity(cell, FULL, "train", token_key(cell)), TOKENS | FROZEN),
    "untrained output": (identity.untrained_output_settings, ENCODER | BEGUN | ARITHMETIC),
}
# Under these a view's settings, and sharding, decide how many blocks are computed apart.
PARTLY_FROZEN = {"encoder__tune": {"last_blocks": 1}, "encoder__scratch": {"layers": 3}}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_changes_with_what_it_follows_from_and_with_nothing_else(name: str, source: str):
    key, settings = KEYS[name]
    for field in MUTATIONS:
        base = {} if field.startswith("encoder.") else PARTLY_FROZEN
        before, after = mutated(source, field, **base)
        assert (key(before) != key(after)) == (field in settings), field

    drawn = {"data__train": 20, "data__resample": True}  # with which the seed draws the texts
    first, second = (make(source, **drawn, seed=seed) for seed in (0, 1))
    follows = "seed" in settings or ("data.train" in settings and name != "same texts")
    assert (key(first) != key(second)) == follows


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npy")}


def test_cells_with_one_key_of_tokens_have_the_same_tokens(source: str, tmp_path: Path):
    one = make(source, data__train=20)
    changes = {"encoder__model": "scratch:deberta-v2", "encoder__pooling": "mean", "encoder__scratch": {"layers": 1}}
    other = make(source, data__train=20, seed=1, objective__loss="ce", training__epochs=1, **changes)
    assert token_key(one) == token_key(other)
    first, second = (
        tokens.prepare_tokens(cell.data, cell.encoder, tmp_path / name)
        for cell, name in ((one, "one"), (other, "other"))
    )
    assert contents(first) == contents(second) != {}


def test_cells_with_one_frozen_store_have_the_same_bytes_in_it(source, tmp_path, monkeypatch):
    frozen = {"data__train": 20, "encoder__scratch": {"layers": 3}}
    one = make(source, **frozen, encoder__tune={"last_blocks": 1, "frozen_dropout": False})
    changes = {"encoder__pooling": "mean", "encoder__dropout": 0.4, "objective__loss": "ce"}
    changes |= {"training__batch_size": 4, "training__order_seed": 5}
    lora = {"last_blocks": 1, "lora": {"r": 2}, "frozen_dropout": False}
    other = make(source, **frozen, **changes, encoder__tune=lora)
    made = []
    for name, cell in (("one", one), ("other", other)):
        monkeypatch.setenv("ABLATE_HOME", str(tmp_path / name))
        prepared = tokens.open_tokens(tokens.prepare_tokens(cell.data, cell.encoder, tmp_path / name))
        folder = frozen_store.make_store(prepared, "train", cell, FULL)
        assert folder is not None
        made.append(folder)
    assert made[0].relative_to(tmp_path / "one") == made[1].relative_to(tmp_path / "other")
    assert contents(made[0]) == contents(made[1]) != {}
