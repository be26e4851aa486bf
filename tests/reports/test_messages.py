"""Every text of a report is in each catalogue, with the same values; no entry of a catalogue is of no text."""

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

from reports import messages
from reports.messages import LANGUAGES, Message, _, about_images, catalogue, joined, n_, using

REPORTS = Path(messages.__file__).parent


def texts() -> set[str]:
    """Those in the code, of which the first stands for both counts, and in the templates."""
    found = {
        call.args[0].value
        for path in REPORTS.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("_", "n_")
        if isinstance(call.args[0], ast.Constant)
    }
    templates = "".join(path.read_text(encoding="utf-8") for path in REPORTS.rglob("*.j2"))
    return {*found, *re.findall(r'\b_\("([^"]*)"', templates), *re.findall(r'n_\("([^"]*)"', templates)} - {""}


def names(text: str) -> set[str]:
    return {name for _literal, name, *_rest in Formatter().parse(text) if name}


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_every_text_is_translated_with_its_values_and_no_entry_is_of_no_text(language: messages.Language):
    catalogue = messages.catalogue(language)
    assert catalogue.keys() == texts() and all(catalogue.values())
    for text, translation in catalogue.items():
        assert names(translation) <= {*names(text), "count"}, text


def test_a_message_is_translated_when_it_is_written_with_the_messages_that_are_its_values():
    rows = n_("and {count} more row", "and {count} more rows", 2)
    said = _("{where}: {why}", where=joined(["{ce}", rows], _("; ")), why=_("failed"))
    assert str(said) == "{ce}; and 2 more rows: failed" and f"{rows:>16}" == " and 2 more rows"
    with using("zh"):
        assert str(said) == "{ce}；另有 2 行：失败" and str(Message("not translated")) == "not translated"
    assert str(said).endswith("failed") and str(n_("{count} row", "{count} rows", 1)) == "1 row"


def test_sentences_about_texts_speak_of_images_where_the_data_are_images():
    sentence = _("{text} has the same {train} training texts, or one text").of(text="texts", train=600)
    with about_images(True):
        assert str(sentence) == "texts has the same 600 training images, or one image"
        with using("zh"):
            plain = [text for text in catalogue("zh") if "text" in text and "{" not in text]
            found = {messages.translated(Message(text)) for text in plain}
            assert found and not any("文本" in each or "text" in each for each in found)
    assert str(sentence).endswith("600 training texts, or one text")
