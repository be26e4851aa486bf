"""What is declared beforehand stays, and what is changed after there are results is kept beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from contrastive.errors import UserError
from contrastive.runs import store
from contrastive.runs.declared import declaration_file, declarations, declare
from contrastive.runs.recorded import Declaration

FIRST = Declaration(0, {"test.accuracy": 0.01}, {"A": ["test.accuracy"]}, {"A": ["ce", "new"]}, [0, 1])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))


def test_before_there_are_results_all_may_be_changed():
    declare("x", FIRST)
    declare("x", replace(FIRST, margins={"test.accuracy": 0.02}))
    assert declarations("x") == [replace(FIRST, margins={"test.accuracy": 0.02})]


def test_after_there_are_results_a_change_is_noted_and_the_same_is_not():
    declare("x", FIRST)
    declare("x", replace(FIRST, finished=3))
    assert declarations("x") == [FIRST]
    changed = replace(FIRST, finished=3, margins={"test.accuracy": 0.02})
    declare("x", changed)
    declare("x", replace(changed, finished=4))
    assert declarations("x") == [FIRST, changed]


def test_results_of_cells_that_are_planned_no_more_count_too():
    declare("x", FIRST, ["a", "b"])
    store.run_folder("a").mkdir(parents=True)
    store.mark_finished(store.run_folder("a"), "DONE")
    changed = replace(FIRST, margins={"test.accuracy": 0.09}, seeds=[77])
    declare("x", changed, ["c"])
    assert declarations("x") == [FIRST, replace(changed, finished=1)]


def test_a_damaged_file_is_named():
    declaration_file("x").parent.mkdir(parents=True)
    declaration_file("x").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        declarations("x")
