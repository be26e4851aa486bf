"""From a sound grid no guard fires; of cells dropped, swapped or edited each fires the guard that is meant for it."""

import copy
import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import synthetic
from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import Declaration
from reports.guards import Guard, changed_declarations, general, guards, tuning
from reports.load import load
from reports.looks import compare_section
from reports.study import Results
from tests.reports.made import made, put

Spoil = Callable[[Results], None]
SEEDS = 3
LOSSES = {"ce": {}, "{loss}": {"axes": {"loss": ["ce+supcon", "rdrop"]}}}
TUNES = ["full", {"last_blocks": 0}, {"lora": {}}]
TUNED = {
    "ce · {tune}": {"axes": {"tune": TUNES}},
    "{tune} · {loss}": {"axes": {"tune": TUNES, "loss": ["ce+supcon", "rdrop"]}},
}
SIZES = {
    "{train} · {threads} · {batch_size}": {"axes": {"train": [300, 600], "threads": [1, 2], "batch_size": [8, 16]}}
}
TOKENS = {"loss": "ce+supcon", "view": "topk_tokens", "axes": {"k": [2, 3, 4], "alpha": [0.2, 0.5]}}
LISTED = {"ce": {}, "rdrop": {"loss": "rdrop", "epochs": 2}, "simcse": {"loss": "simcse", "micro_batch": 4}}
PIVOT = {"table": {"rows": "k", "columns": "alpha"}}
SECTIONS = [
    {"title": "Losses", "rows": LOSSES, "show": {"table": {"values": ["test.accuracy", "test.ari", "test.nmi"]}}},
    {"title": "Tokens", "rows": {"ce": {}, "k={k} · α={alpha}": TOKENS}, "show": PIVOT},
    {"title": "Tuned", "rows": TUNED},
    {"title": "Size", "rows": SIZES, "baseline": "none"},
    {"title": "Listed", "rows": LISTED},
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Results]:
    """The results of an experiment in which nothing is wrong, read from a real store."""
    home = tmp_path_factory.mktemp("sound")
    shutil.copy(empty_store, home / "mlflow.db")
    settings = synthetic.experiment(2).model_dump(mode="json") | {"sections": SECTIONS, "seeds": list(range(SEEDS))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        uri = synthetic.write(home, Experiment.model_validate(settings))
    yield load("synthetic", uri)


@pytest.fixture
def results(sound: Results) -> Results:
    """A copy to spoil."""
    return copied(sound)


def copied(sound: Results) -> Results:
    frames = {"scores": sound.scores.copy(), "measured": sound.measured.copy()}
    parts = {name: copy.deepcopy(getattr(sound, name)) for name in ("study", "cells")}
    return dataclasses.replace(sound, notes={}, **parts, **frames)


def at(results: Results, row: int = 2, seed: int = 1, section: int = 1) -> str:
    """A cell; what is spoilt is that of row 2 and seed 1 where nothing else is said."""
    return results.study.sections[section].rows[row].cells[seed]


def provenance(path: str, value: Any, seeds: str = "one") -> Spoil:
    """Note something else of the cell, or of all rows at its seed."""

    def spoil(results: Results) -> None:
        *parts, last = path.split("/")
        for row in range(len(results.study.sections[1].rows)) if seeds == "all" else (2,):
            noted: Any = results.provenance(at(results, row))
            for part in parts:
                noted = noted[part] if isinstance(noted, dict) else getattr(noted, part)
            if isinstance(noted, dict):
                noted[last] = value
            else:
                put(noted, **{last: value})

    return spoil


def of_run(**changes: Any) -> Spoil:
    return lambda results: put(results.cells[at(results)], **changes)


def measured(score: str = "test.accuracy", **changes: Any) -> Spoil:
    """Another entry for a score of the cell; a value also where scores are read."""

    def spoil(results: Results) -> None:
        for column, value in changes.items():
            results.measured.loc[entry(results, score), column] = value
        results.scores.loc[at(results), score] = changes.get("value", results.scores.loc[at(results), score])

    return spoil


def entry(results: Results, score: str = "test.accuracy") -> Any:
    held = results.measured
    return held.index[(held["cell"] == at(results)) & (held["score"] == score)][0]


def param(name: str, value: str) -> Spoil:
    return lambda results: results.cells[at(results)].params.update({name: value})


def cut(seeds: int, *rows: int) -> Spoil:
    def spoil(results: Results) -> None:
        for number, row in enumerate(results.study.sections[1].rows):
            if number in rows or not rows:
                put(row, cells=row.cells[:seeds], seeds=row.seeds[:seeds])

    return spoil


def without(results: Results, cells: list[str]) -> None:
    put(results, cells={name: run for name, run in results.cells.items() if name not in cells})


def drop(results: Results) -> None:
    without(results, [at(results)])
    put(results, scores=results.scores.drop(index=at(results)))


def no_score(results: Results) -> None:
    results.scores.loc[at(results), "test.accuracy"] = math.nan


def no_score_and_why(results: Results) -> None:
    no_score(results)
    results.notes[at(results)] = {"test.svm": "all 9 texts are of one class", "train.svm": "of another split"}


def other_row(results: Results) -> None:
    """A row of other epochs, in the grid and in its runs."""
    row = results.study.sections[1].rows[2]
    row.settings["training.epochs"] = "9"
    for cell in row.cells:
        results.cells[cell].params["training.epochs"] = "9"


def alarm_of_mean(results: Results) -> None:
    results.scores.loc[at(results), "mean/test.collapsed"] = 1.0


def idle(results: Results) -> None:
    one, *others = results.study.sections[1].rows[2].cells
    for cell in others:
        results.scores.loc[cell] = results.scores.loc[one]


def at_chance(results: Results) -> None:
    for cell in results.study.sections[1].rows[2].cells:
        results.scores.loc[cell, "test.accuracy"] = 250 / 600


def fired(results: Results, number: int = 1) -> dict[str, Guard]:
    return {guard.kind: guard for guard in guards(results.study.sections[number], results)}


def test_a_sound_grid_fires_nothing(sound: Results):
    assert [guards(section, sound) for section in sound.study.sections] == [[]] * len(SECTIONS)
    assert general(sound) == []


SPOILED: dict[str, tuple[Spoil, str, bool, str]] = {
    "dropped": (drop, "missing", True, "k=2 · α=0.5, seed 1: not in MLflow"),
    "failed": (of_run(status="failed", error="it broke"), "missing", True, "k=2 · α=0.5, seed 1: failed: it broke"),
    "diverged": (of_run(status="diverged", error="NaN"), "missing", True, "diverged: NaN"),
    "at work": (of_run(status="running", error=""), "missing", True, "seed 1: running"),
    "without a score": (no_score, "missing score", True, "without test.accuracy"),
    "left out": (no_score_and_why, "missing score", True, "without test.accuracy: all 9 texts are of one class"),
    "row apart": (other_row, "settings", True, "epochs is 3, but 9 in k=2 · α=0.5, seeds 0, 1 and 2"),
    "package": (provenance("packages/torch", "9.9"), "packages", True, "Versions of torch differ: 1.0, but 9.9 in k=2"),
    "package of a seed": (provenance("packages/torch", "9.9", "all"), "packages", False, "at each seed it is the same"),
    "data": (provenance("data_digest", "f" * 64), "data", True, "ffffffffffff in k=2"),
    "data of a seed": (provenance("data_digest", "f" * 64, "all"), "data", True, "ffffffffffff in"),
    "test texts": (provenance("class_counts/test/neutral", 249), "test data", True, "249 neutral"),
    "training texts": (provenance("class_counts/train/neutral", 249), "training data", True, "249 neutral"),
    "processor": (provenance("hardware/cpu", "another CPU"), "hardware", True, "cpu (another CPU)"),
    "device of a seed": (provenance("hardware/device", "H200", "all"), "hardware", False, "H200 (a CPU)"),
    "threads": (provenance("threads", 2), "threads", True, "2 in k=2"),
    "processes": (provenance("processes", 2), "processes", True, "2 in k=2"),
    "parameters": (provenance("trained_parameters", 7), "parameters", True, "7 in k=2"),
    "code": (provenance("code", "f" * 16), "code", True, "ffff"),
    "evaluation": (of_run(evaluation="another"), "evaluation", True, "another in k=2"),
    "nothing noted": (of_run(provenance=None), "provenance", True, "k=2 · α=0.5, seed 1"),
    "above one": (measured("test.knn_accuracy", value=1.2), "range", True, "test.knn_accuracy"),
    "below minus one": (measured("test.ari", value=-1.5), "range", True, "test.ari"),
    "no number": (measured("test.ece", value=math.nan), "range", True, "test.ece"),
    "infinite": (measured("test.alignment_class", value=math.inf), "range", True, "test.alignment_class"),
    "idle seeds": (idle, "idle seeds", False, "k=2 · α=0.5"),
    "chance": (at_chance, "chance", False, "predicting the largest class: k=2 · α=0.5."),
    "collapse": (provenance("collapsed_since", 40), "collapsed", False, "collapsed, since from step 40 on"),
    "alarm": (measured("test.collapsed", value=1.0), "collapsed", False, "all test embeddings have one direction"),
    "alarm of others": (alarm_of_mean, "collapsed", False, "embeddings (mean) have"),
    "one seed": (cut(1), "one seed", True, "One seed per row"),
    "row alone": (lambda held: put(held.study.sections[1].rows[2], against=None),
                    "baseline", False, "These rows have no baseline: k=2 · α=0.5."),
}  # fmt: skip


# of which no other guard says anything
ALONE = ("dropped", "package", "data", "test texts", "processor", "threads", "parameters", "code",
         "evaluation", "collapse", "row alone")  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_wrong_is_said_by_its_guard(name: str, results: Results):
    spoil, kind, blocks, said = SPOILED[name]
    spoil(results)
    found = fired(results)
    assert kind in found and found[kind].blocks_ranking == blocks and said in found[kind].words
    assert name not in ALONE or set(found) == {kind}


def test_other_texts_of_the_same_number_are_seen(results: Results, tmp_path: Path):
    cell = at(results)
    np.savez_compressed(tmp_path / "examples.npz", **{"test.ids": np.arange(1, 601, dtype=np.uint64)})
    put(results.cells[cell], artifact_uri=tmp_path.as_uri())
    assert "test.ids differ" in str(fired(results)["examples"].words)


def test_training_texts_that_each_seed_draws_may_differ_between_seeds_and_not_between_rows(results: Results):
    for row in results.study.sections[1].rows:
        put(row, settings=(row.settings or {}) | {"data.resample": "true"})
    provenance("class_counts/train/neutral", 249, "all")(results)
    assert "training data" not in fired(results)
    provenance("class_counts/train/neutral", 248)(results)
    assert "training data" in fired(results)


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_missing_cells_of_three_rows_are_named_and_further_rows_counted(results: Results, rows: int):
    without(results, [at(results, row, seed) for row in range(rows) for seed in range(1 + row % 2)])
    (found,) = [guard for guard in guards(results.study.sections[1], results) if guard.kind == "missing"]
    assert found.words.count("seed") == min(rows, 3) and ("more row" in found.words) == (rows > 3)


# What was changed of how results are judged, when there were some already
KNOWN = {"configurations": {"A": {"1": "ce", "2": "new", "3": "old"}}, "baselines": {"A": ["1"]}}
SCORES, ROWS = {"A": ["test.accuracy"]}, {"A": ["ce", "new", "old"]}
FIRST = Declaration(0, {"test.accuracy": 0.01}, SCORES, ROWS, [0, 1], test_texts=["200"], embeddings=[], **KNOWN)


def said(after: Declaration, first: Declaration = FIRST) -> list[str]:
    return [str(words) for words in changed_declarations(first, after)]


def test_what_changed_is_told_and_configurations_by_their_settings():
    labels = {"A": {"2": "new · k=4", "1": "ce · k=4", "3": "old · k=4"}}
    assert said(replace(FIRST, configurations=labels, finished=3)) == []
    other = {"A": {"1": "ce", "2": "new", "4": "more"}}
    assert said(replace(FIRST, configurations=other, baselines={"A": ["2"]})) == [
        "rows added to “A”: more",
        "rows removed from “A”: old",
        "the baseline of “A” from ce to new",
    ]

    # seeds, texts, sections and scores
    assert said(replace(FIRST, seeds=[0, 5])) == ["the seeds from 0, 1, fixed in advance to 0, 5, fixed in advance"]
    assert said(replace(FIRST, test_texts=["900"])) == ["the test examples from 200 to 900"]
    assert said(replace(FIRST, margins={})) == ["the margin of test.accuracy from 0.01 to none"]
    assert said(replace(FIRST, configurations={}, families={}, baselines={})) == [
        "the tested scores of “A” from test.accuracy to none",
        "rows removed from “A”: ce, new and old",
    ]
    names = ["test.accuracy", "test.macro_f1"]
    assert said(replace(FIRST, families={"A": names}), replace(FIRST, families={"A": names[::-1]})) == []

    told = "the compared embeddings from those that trained to those that trained / whiten:64"
    assert said(replace(FIRST, embeddings=["whiten:64"])) == [told]


def test_results_that_were_there_before_any_declaration_are_told():
    _, results = made({"ce": {"test.accuracy": [0.5, 0.6]}})
    put(results.study, declared=[FIRST])
    assert general(results) == []
    put(results.study, declared=[replace(FIRST, finished=2)])
    (guard,) = general(results)
    assert guard.words == "2 cells had results before the analysis was declared."


# What a finding leaves open

UNDECIDED = {f"{n}": {"test.accuracy": [0.5 + 0.01 * n, 0.9 - 0.01 * n, 0.6 + 0.05 * n]} for n in (1, 2, 3)}


def edge(blocks: list[int | None], best: int, *, tied: bool = False) -> list[str]:
    """Rows of so many tuned blocks (None: all), of which one is best, or two are."""
    names = {f"{n} blocks": n for n in blocks}
    values = {
        name: {"test.accuracy": [0.5 + 0.1 * (place == best or (tied and place == 1)) + 0.001 * s for s in (1, 2, 4)]}
        for place, name in enumerate(names)
    }
    for place, found in enumerate(values.values()):
        found["test.accuracy"] = [v + 0.0001 * place * s for s, v in enumerate(found["test.accuracy"])]
    part, results = made(values, axes={name: {"tune": name} for name in names})
    for row, count in zip(part.rows, blocks, strict=True):
        put(row, settings={"encoder.tune": json.dumps({"last_blocks": count}), "training.encoder_lr": "0.1"})
    return [guard.words for guard in tuning(compare_section(part, results)[1], results)]


def test_the_best_at_the_edge_of_what_was_tried_is_named_and_one_within_or_of_all_blocks_is_not():
    assert edge([0, 2, 4], 2) == ["Best at the edge of the tried range: 4 blocks (blocks 0, 2, 4)."]
    assert edge([2, 4, 6], 0) == ["Best at the edge of the tried range: 2 blocks (blocks 2, 4, 6)."]
    for blocks, best in (([0, 2, 4], 1), ([0, 2, 4], 0), ([2, 4], 1), ([2, 4, None], 2)):
        assert edge(blocks, best) == []
    assert edge([0, 2, 4], 2, tied=True) == []  # a row within is as good


KINDS = {"weights": ({}, "0.1"), "adapters": ({"lora": {"r": 8}}, "0.1"), "head": ({"last_blocks": 0}, "0.5")}


def of_kinds(**rates: str) -> list[str]:
    part, results = made({name: {"test.accuracy": [0.5, 0.6, 0.7]} for name in KINDS})
    for row in part.rows:
        tune, rate = KINDS[row.label]
        put(row, settings={"encoder.tune": json.dumps(tune), "training.encoder_lr": rates.get(row.label, rate)})
    return [guard.words for guard in tuning(compare_section(part, results)[1], results)]


def test_adapters_and_weights_that_share_one_learning_rate_were_not_tuned():
    assert of_kinds() == ["Not tuned: weights and adapters share one learning rate (0.1)."]
    assert of_kinds(adapters="0.3") == []


def test_losses_that_share_one_learning_rate_were_not_tuned():
    part, results = made(UNDECIDED)
    for rates, words in (
        ("111", ["Not tuned: 1, 2 and 3 share one learning rate (1)."]),
        ("112", ["Not tuned: 1 and 2 share one learning rate (1)."]),
        ("123", []),
    ):
        for row, rate in zip(part.rows, rates, strict=True):
            put(row, settings={"objective.loss": row.label, "training.encoder_lr": rate})
        assert [guard.words for guard in tuning(compare_section(part, results)[1], results)] == words
