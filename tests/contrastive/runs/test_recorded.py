"""What is declared beforehand stays, with what is changed after there are results beside it; what is recorded is read.

What is damaged is refused.
"""

import json
from dataclasses import replace

import pytest

from contrastive.errors import UserError
from contrastive.grid.plan import declaration_file, declare, recorded_declarations
from contrastive.runs import store
from contrastive.runs.recorded import Declaration, parse_grid, parse_provenance
from tests import recorded

pytestmark = pytest.mark.usefixtures("home")

FIRST = Declaration(0, {"test.accuracy": 0.01}, {"A": ["test.accuracy"]}, {"A": ["ce", "new"]}, [0, 1])


def test_before_there_are_results_all_may_be_changed_and_afterwards_a_change_is_noted():
    declare("x", replace(FIRST, margins={"test.accuracy": 0.03}))
    declare("x", FIRST)
    declare("x", replace(FIRST, finished=3))
    assert recorded_declarations("x") == [FIRST]
    changed = replace(FIRST, finished=3, margins={"test.accuracy": 0.02})
    declare("x", changed)
    declare("x", replace(changed, finished=4))
    assert recorded_declarations("x") == [FIRST, changed]


def test_results_of_cells_that_are_planned_no_more_count_too():
    declare("x", FIRST, ["a", "b"])
    store.run_folder("a").mkdir(parents=True)
    store.mark_finished(store.run_folder("a"), "DONE")
    changed = replace(FIRST, margins={"test.accuracy": 0.09}, seeds=[77])
    declare("x", changed, ["c"])
    assert recorded_declarations("x") == [FIRST, replace(changed, finished=1)]


def test_a_damaged_file_is_named():
    declaration_file("x").parent.mkdir(parents=True)
    declaration_file("x").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        recorded_declarations("x")


def test_a_grid_is_read_as_it_was_recorded():
    read = parse_grid(json.dumps(recorded.grid()).encode(), "small")
    assert parse_grid(json.dumps(read.document()).encode(), "small") == read
    assert [row.label for row in read.sections[0].rows] == ["ce", "ce+supcon"]


def test_a_grid_that_cannot_be_read_says_where_and_what_to_do():
    document = recorded.grid()
    document["sections"][0]["rows"][1]["cells"] = 7
    with pytest.raises(UserError, match=r"grid of small .*sections.0.rows.1.cells.*`ablate sync`"):
        parse_grid(json.dumps(document).encode(), "small")


def test_provenance_that_says_nothing_is_none_and_damage_is_refused():
    assert parse_provenance(b"{}", "c0") is None
    assert parse_provenance(json.dumps(recorded.provenance()).encode(), "c0") == recorded.noted()
    with pytest.raises(UserError, match=r"provenance.json of the cell c0 is damaged .*--mend"):
        parse_provenance(b'{"wall_seconds": 1', "c0")
