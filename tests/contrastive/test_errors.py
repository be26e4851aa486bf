"""What of a value a message may repeat."""

import json

import pytest

from contrastive.errors import LONGEST, brief, printable

COMMANDS = ["\x00", "\x07", "\x1b", "\r", "\x85", "\u200b", "\u2028", "\u202e", "\udc80", "\ueda6"]


@pytest.mark.parametrize("character", COMMANDS)
def test_what_commands_a_terminal_is_escaped(character):
    shown = f"a\\u{ord(character):04x}b"
    assert printable(f"a{character}b") == brief(f"a{character}b") == shown
    assert shown.isprintable() and shown.encode()


@pytest.mark.parametrize("text", ["plain", "好书 — «ça»", "\U0001f469\u200d\U0001f4bb", "می\u200cخواهم", "C:\\u001b"])
def test_what_people_write_stays_as_it_is(text):
    assert printable(text) == brief(text) == text


def test_lines_stay_lines_and_a_value_becomes_one():
    assert printable("one\n\ttwo") == "one\n\ttwo"
    assert brief("one\n\ttwo") == "one\\u000a\\u0009two"
    document = {f"k{character}": [character, "\n", 1.5] for character in COMMANDS}
    assert json.loads(printable(json.dumps(document, ensure_ascii=False, indent=1))) == document


def test_of_a_long_value_the_beginning_and_the_end_are_kept():
    assert brief("a" * LONGEST) == "a" * LONGEST
    shown = brief("begin" + "x" * 5_000_000 + "end")
    assert shown.startswith("beginx") and shown.endswith("xend")
    assert len(brief("\x1b" * 5_000_000)) < 7 * LONGEST
