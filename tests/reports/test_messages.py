"""Every text of a report is in each catalogue, with the same values; no entry of a catalogue is of no text."""

import ast
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from reports import messages
from reports.messages import _, n_, using

REPORTS = Path(messages.__file__).parent


def texts() -> set[str]:
    """Those in the code, of which the first stands for both counts, and in the templates."""
    found = {
        call.args[0].value
        for path in REPORTS.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("_", "n_", "N_")
        if isinstance(call.args[0], ast.Constant)
    }
    templates = "".join(path.read_text(encoding="utf-8") for path in REPORTS.rglob("*.j2"))
    return {*found, *re.findall(r'\b_\("([^"]*)"', templates), *re.findall(r'n_\("([^"]*)"', templates)} - {""}


def names(text: str) -> set[str]:
    return {name for _literal, name, *_rest in Formatter().parse(text) if name}


@pytest.mark.parametrize("language", [name for name in get_args(messages.Language) if name != "en"])
def test_every_text_is_translated_with_its_values_and_no_entry_is_of_no_text(language: messages.Language):
    catalogue = messages.catalogue(language)
    assert catalogue.keys() == texts() and all(catalogue.values())
    for text, translation in catalogue.items():
        assert names(translation) <= {*names(text), "count"}, text


def test_a_text_is_translated_where_it_is_made():
    assert n_("and {count} more row", "and {count} more rows", 2) == "and 2 more rows"
    assert n_("{count} row", "{count} rows", 1) == "1 row" and _("{ce}") == "{ce}"
    with using("zh"):
        rows = n_("and {count} more row", "and {count} more rows", 2)
        said = _("{where}: {why}", where=_("; ").join(["{ce}", rows]), why=_("failed"))
        assert said == "{ce}；另有 2 行：失败" and _("not translated") == "not translated"
    assert _("failed") == "failed"
