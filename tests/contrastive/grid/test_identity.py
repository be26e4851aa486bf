"""The id of a cell follows what decides its result, and nothing else."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Experiment
from contrastive.config.objective import Objective
from contrastive.data import locate
from contrastive.errors import UserError
from contrastive.grid import identity as identities
from contrastive.grid.identity import cell_id, identity
from contrastive.runs import fingerprint
from tests.contrastive.grid.mutations import MUTATIONS, make, mutated


def id_of(cell: Cell) -> str:
    return cell_id(identity(cell))


def test_the_weights_of_the_terms_are_part_of_it(source: str, monkeypatch: pytest.MonkeyPatch):
    before = id_of(make(source))
    monkeypatch.setattr(Objective, "term_weights", lambda self: {"ce": 1.0, "supcon": 100 * self.alpha})
    assert id_of(make(source)) != before


def test_the_files_of_wordnet_are_part_of_it_where_a_view_reads_them(source, tmp_path, monkeypatch):
    lexical = {"objective__loss": "clear", "objective__view": "synonym"}
    before, other = id_of(make(source, **lexical)), id_of(make(source))
    dictionary = tmp_path / "wordnet"
    dictionary.mkdir()
    for name in locate.WORDNET_FILES:
        (dictionary / name).write_bytes((locate.wordnet_folder() / name).read_bytes())
    monkeypatch.setattr(locate, "wordnet_folder", lambda: dictionary)
    assert id_of(make(source, **lexical)) == before
    (dictionary / "data.adj").write_text("")
    assert id_of(make(source, **lexical)) != before and id_of(make(source)) == other


# Where the text lies is not what decides; its content is (tested below).
ELSEWHERE = {"data.source", "plugins", "soup"}  # tests/contrastive/test_plugins.py


def fields(model: type[BaseModel], prefix: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        found.append(prefix + name)
        nested = [t for t in (field.annotation, *getattr(field.annotation, "__args__", ())) if isinstance(t, type)]
        for kind in nested:
            if issubclass(kind, BaseModel) and kind is not Cell:  # the members of a soup
                found += fields(kind, f"{prefix}{name}.")
    return found


def test_every_field_of_the_schema_is_mutated():
    parts = {"data", "encoder", "objective", "training"}
    assert set(fields(Cell)) - parts == set(MUTATIONS) | ELSEWHERE


@pytest.mark.parametrize("field", MUTATIONS)
def test_a_changed_setting_changes_the_id_and_changing_it_back_restores_it(field: str, source: str):
    before, changed = mutated(source, field)
    assert id_of(before) != id_of(changed)
    assert id_of(mutated(source, field)[0]) == id_of(before)


LAYERS = {"objective__view": "layers"}
CE, HIDDEN = {"objective__loss": "ce"}, {"objective__loss": "ce+mlm"}
SUPCON, BYOL = {"objective__loss": "supcon"}, {"objective__loss": "byol"}
# Settings of two cells that are one.
ONE_CELL: list[tuple[dict[str, object], dict[str, object]]] = [
    ({}, {"objective__k": 5}),  # no tokens in a sentence view
    ({}, {"objective__level": "token"}),
    ({}, {"objective__translators": ["file:nowhere", "file:nowhere"]}),
    ({}, {"objective__temperature": 0.1}),  # SupCon's own
    ({}, {"encoder__tune": "full"}),
    ({}, {"encoder__scratch": {"layers": 2}}),
    ({}, {"training__epochs": 3.0}),
    ({}, {"data__max_length": 128}),
    (CE, {"objective__alpha": 0.3, "objective__view": "two_stage"}),
    (HIDDEN, {"objective__alpha": 0.3, "objective__view": "pair"}),
    (SUPCON, {"training__head_lr": 0.5}),
    (LAYERS | {"objective__layers": [0, 1]}, {"objective__layers": [1, 0]}),
    ({"objective__loss": "ce+supcon+mlm"}, {"objective__loss": "supcon+mlm+ce"}),
]


@pytest.mark.parametrize(("settings", "changes"), ONE_CELL, ids=str)
def test_what_does_not_matter_changes_no_id(settings: dict[str, object], changes: dict[str, object], source: str):
    assert id_of(make(source, **settings | changes)) == id_of(make(source, **settings))


def test_the_rate_of_the_head_matters_to_a_loss_with_a_projector(source: str):
    assert id_of(make(source, training__head_lr=0.5, **BYOL)) != id_of(make(source, **BYOL))


def test_the_place_of_a_file_changes_no_id_and_its_content_does(source: str, tmp_path: Path):
    elsewhere = tmp_path / "deeper" / "renamed.csv"
    elsewhere.parent.mkdir()
    texts = Path(source.removeprefix("file:")).read_text()
    elsewhere.write_text(texts)
    assert id_of(make(f"file:{elsewhere}")) == id_of(make(source))
    elsewhere.write_text(texts.replace(" 7,", " seven,", 1))
    assert id_of(make(f"file:{elsewhere}")) != id_of(make(source))


def test_the_place_of_a_translator_changes_no_id_and_its_content_and_the_order_do(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("en-de", "de-en", "elsewhere"):
        Path(folder).mkdir()
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            Path(folder, name).write_text("" if folder == "de-en" else "{}")

    def id_with(*names: str) -> str:
        translators = [f"file:{name}" for name in names]
        cell = make(source, objective__view="backtranslation", objective__translators=translators)
        assert "de-en" not in json.dumps(identity(cell))
        return id_of(cell)

    there_and_back = id_with("en-de", "de-en")
    assert id_with("elsewhere", "de-en") == there_and_back != id_with("de-en", "en-de")
    for name in ("model.safetensors", "generation_config.json", "source.spm"):
        before = id_with("elsewhere", "de-en")
        Path("elsewhere", name).write_text("changed")
        assert id_with("elsewhere", "de-en") not in (before, there_and_back)
    with pytest.raises(UserError, match="there is no folder"):
        id_with("nowhere", "de-en")


def test_the_place_of_what_deepspeed_is_told_changes_no_id_and_its_content_does(source: str, tmp_path: Path):
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 2, "overlap_comm": true}}')
    elsewhere = tmp_path / "renamed.json"
    elsewhere.write_text('{"zero_optimization":\n {"overlap_comm": true, "stage": 2}}')

    def sharded(path: Path) -> str:
        cell = make(source, training__sharding=f"deepspeed:{path}")
        assert str(tmp_path) not in json.dumps(identity(cell)["training"])
        return id_of(cell)

    assert sharded(elsewhere) == sharded(tmp_path / "zero.json") != id_of(make(source))
    elsewhere.write_text('{"zero_optimization": {"overlap_comm": true, "stage": 1}}')
    assert sharded(elsewhere) != sharded(tmp_path / "zero.json")
    elsewhere.unlink()
    with pytest.raises(UserError, match="there is no file"):
        sharded(elsewhere)


def test_nothing_outside_of_the_cell_can_reach_the_id(source: str):
    """What only reports, evaluations and machines are told is not part of a cell; its document names no path."""
    assert set(Experiment.model_fields) - set(Cell.model_fields) == {
        "name", "description", "seeds", "settings", "choose", "sections", "evaluation", "resources", "speed", "report",
    }  # fmt: skip
    assert str(Path(source.removeprefix("file:")).parent) not in json.dumps(identity(make(source)))


def test_defaults_are_pinned():
    """An id leaves out a setting at its default: with another default, old results would answer for new settings.

    To change a default, raise contrastive.grid.identity.VERSION and update this table.
    """
    assert identities.VERSION == 2
    defaults = {}
    for part, model in {"data": Data, "encoder": Encoder, "objective": Objective, "training": Training}.items():
        for name, field in model.model_fields.items():
            if not field.is_required():
                value = field.get_default(call_default_factory=True)
                shown = value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
                defaults[f"{part}.{name}"] = shown
    assert defaults == {
        "data.text": "text", "data.label": "label", "data.positive": None, "data.negative": None,
        "data.images": None, "data.train": None, "data.validation": 0, "data.max_length": 128,
        "data.resample": False,
        "encoder.tune": {"frozen_dropout": True}, "encoder.pooling": "cls", "encoder.dropout": 0.1,
        "encoder.scratch": None, "encoder.attention_dropout": None, "encoder.attention": None, "encoder.prompt": "",
        "objective.loss": "ce", "objective.view": None, "objective.alpha": 1.0, "objective.mlm_weight": 0.1,
        "objective.temperature": None,
        "objective.k": 30, "objective.clusters": 5, "objective.layers": None, "objective.level": "sentence",
        "objective.middle": None, "objective.beta": None, "objective.sigma": None, "objective.chunk": None,
        "objective.rate": None, "objective.translators": None, "objective.matryoshka": None,
        "objective.guide": None, "objective.guide_margin": 0.0, "objective.guide_margin_strategy": "absolute",
        "objective.mine": False,
        "objective.change": None, "objective.queue": None, "objective.projector": None, "objective.projection": None,
        "objective.decay": None, "objective.prototypes": None, "objective.redundancy": None,
        "objective.crops": None, "objective.area": None,
        "training.micro_batch": None,
        "training.epochs": 3, "training.batch_size": 16, "training.accumulate": 1, "training.head_lr": 1e-4,
        "training.encoder_lr": 2e-5, "training.layer_decay": 1.0, "training.weight_decay": 0.01, "training.warmup": 0.1,
        "training.schedule": "linear", "training.clip": 1.0, "training.precision": "fp32", "training.bucket": 10,
        "training.order_seed": None,
        "training.threads": 1, "training.processes": 1, "training.augment": None, "training.sharding": None,
    }  # fmt: skip


def test_a_cell_depends_on_the_code_of_its_own_loss_and_view_only(source: str):
    def files(cell: Cell) -> set[str]:
        return set(fingerprint.code_digests(identities.STAGES, identities.registry_choices(cell)))

    plain, contrast = files(make(source, objective__loss="ce")), files(make(source, objective__view="topk_tokens"))
    assert "contrastive.losses.supcon.supcon" in contrast - plain
    assert "contrastive.views.passes.top_tokens" in contrast - plain
    always = ("training.train", "training.terms", "evaluation.embed", "losses.cross_entropy.ce", "grid.frozen_readers")
    assert {f"contrastive.{name}" for name in always} <= plain
    assert not any(name.startswith("contrastive.evaluation.metrics") for name in contrast)


def test_evaluation_key_follows_settings_and_metrics():
    asked = ({}, {"folds": 5}, {"folds": 4}, {"metrics": ("accuracy",)})
    plain, same, *others = (identities.evaluation_key(Evaluation(**values)) for values in asked)
    assert plain == same and plain not in others


def test_a_guide_and_a_soup_are_in_the_id_and_not_in_the_code_by_which_rows_are_compared(source: str, tmp_path: Path):
    path = tmp_path / "vectors.parquet"
    path.write_bytes(b"vectors")
    pairs = {"data__positive": "text", "objective__loss": "simcse_sup", "objective__view": "pair"}
    given = make(source, data__negative="label", **pairs)
    mined = make(source, objective__mine=True, objective__guide=f"file:{path}", **pairs)
    soup = given.model_copy(update={"soup": (given, given.model_copy(update={"seed": 1}))})
    documents = [identity(cell) for cell in (given, mined, soup)]
    assert len({cell_id(document) for document in documents}) == 3
    assert len({document["code"] for document in documents}) == 1
    path.write_bytes(b"other vectors")
    assert cell_id(identity(mined)) != cell_id(documents[1])
