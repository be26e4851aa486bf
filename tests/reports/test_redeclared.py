"""What was changed of how results are judged, when there were some already."""

from dataclasses import replace

from contrastive.runs.recorded import Declaration
from reports.guards import general
from reports.guards.whole import changed_declarations
from tests.reports.made import made, put

KNOWN = {"configurations": {"A": {"1": "ce", "2": "new", "3": "old"}}, "baselines": {"A": ["1"]}}
SCORES, ROWS = {"A": ["test.accuracy"]}, {"A": ["ce", "new", "old"]}
FIRST = Declaration(0, {"test.accuracy": 0.01}, SCORES, ROWS, [0, 1], test_texts=["200"], **KNOWN)


def said(after: Declaration, first: Declaration = FIRST) -> list[str]:
    return [words.en for words in changed_declarations(first, after)]


def test_configurations_are_told_by_their_settings_and_not_by_their_labels():
    labels = {"A": {"2": "new · k=4", "1": "ce · k=4", "3": "old · k=4"}}
    assert said(replace(FIRST, configurations=labels, finished=3)) == []
    other = {"A": {"1": "ce", "2": "new", "4": "more"}}
    assert said(replace(FIRST, configurations=other, baselines={"A": ["2"]})) == [
        "rows added to A: more",
        "rows removed from A: old",
        "the baseline of A from ce to new",
    ]


def test_seeds_texts_sections_and_scores_are_told():
    assert said(replace(FIRST, seeds=[0, 5])) == ["the seeds from 0, 1, fixed beforehand to 0, 5, fixed beforehand"]
    assert said(replace(FIRST, test_texts=["900"])) == ["the test texts from 200 to 900"]
    assert said(replace(FIRST, families={"A": ["test.accuracy"], "B": []})) == ["the section B added"]
    assert said(replace(FIRST, families={})) == ["the section A removed"]
    names = ["test.accuracy", "test.macro_f1"]
    assert said(replace(FIRST, families={"A": names}), replace(FIRST, families={"A": names[::-1]})) == []


def test_further_embeddings_are_rows_that_were_added_and_labels_tell_rows_where_settings_were_not_noted():
    plain, whitened = replace(FIRST, embeddings=[]), replace(FIRST, embeddings=["whiten:64"])
    told = "the embeddings that are compared from those that trained to those that trained / whiten:64"
    assert said(whitened, plain) == [told] and said(whitened) == []  # the first versions noted none
    first = replace(FIRST, configurations={}, baselines={})
    after = replace(first, rows={"A": ["ce", "new", "simcse"]})
    assert said(after, first) == ["rows added to A: simcse", "rows removed from A: old"]


def test_results_that_were_there_before_any_declaration_are_told():
    _, results = made({"ce": {"test.accuracy": [0.5, 0.6]}})
    put(results.grid, declared=[FIRST])
    assert general(results) == []
    put(results.grid, declared=[replace(FIRST, finished=2)])
    assert [guard.words.en for guard in general(results)] == [
        "2 cells had results before it was declared how they are judged."
    ]
