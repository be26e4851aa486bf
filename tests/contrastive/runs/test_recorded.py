"""Grids and provenance are read as they were recorded, also by earlier versions; what is damaged is refused."""

import json

import pytest

from contrastive.errors import UserError
from contrastive.runs.recorded import grid_of, provenance_of
from tests import recorded


def test_a_grid_is_read_as_it_was_recorded():
    read = grid_of(json.dumps(recorded.grid()).encode(), "small")
    assert grid_of(json.dumps(read.document()).encode(), "small") == read
    assert [row.label for row in read.sections[0].rows] == ["ce", "ce+supcon"]


def test_a_grid_of_an_earlier_version_lacks_what_was_added_since():
    document = recorded.grid()
    for row in document["sections"][0]["rows"]:
        del row["against"], row["settings"]
    del document["experiment"]["report"], document["sections"][0]["show"]["transfer"]
    read = grid_of(json.dumps(document).encode(), "small")
    assert read.sections[0].rows[0].settings is None and read.data == []


def test_a_grid_that_cannot_be_read_says_where_and_what_to_do():
    document = recorded.grid()
    document["sections"][0]["rows"][1]["cells"] = 7
    with pytest.raises(UserError, match=r"grid of small .*sections.0.rows.1.cells.*`ablate sync`"):
        grid_of(json.dumps(document).encode(), "small")


def test_provenance_that_says_nothing_is_none_and_damage_is_refused():
    assert provenance_of(b"{}", "c0") is None
    assert provenance_of(json.dumps(recorded.provenance()).encode(), "c0") == recorded.noted()
    with pytest.raises(UserError, match=r"provenance.json of the cell c0 is damaged .*--mend"):
        provenance_of(b'{"wall_seconds": 1', "c0")
