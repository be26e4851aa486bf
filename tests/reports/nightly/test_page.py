"""The nightly report of nights made by hand, each with a document of its own."""

import re
from typing import Any

import numpy as np

from reports.nightly.history import night
from reports.nightly.measured import Night, rules_of
from reports.nightly.page import since_good, text
from reports.nightly.settings import TIMINGS
from reports.nightly.verdict import judge_by_documents

LIMITS = {"practical": 0.01, "widest": 0.9}


def document(number: int, configurations: list[str], epoch: str = "one", **changed: Any) -> Night:
    row = [0.70, 0.72, 0.69, 0.71]
    names = ["test.accuracy", *(f"test.accuracy @ {one}" for one in configurations), *TIMINGS]
    scale = np.random.default_rng(number).uniform(0.99, 1.01, size=4)
    values = {name: list(row * scale) if name in TIMINGS else row for name in names}
    content = {
        "version": 1, "when": f"2026-01-{number:02}", "commit": f"c{number}", "commits": [[f"c{number}", "work"]],
        "environment": {"panel": epoch}, "epoch": epoch, "configurations": configurations,
        "directions": {"test.accuracy": True}, "runs": [{"values": values, "failed": []}],
        "settings": {"window": 2, "quality": {"test.accuracy": LIMITS}, "speed": LIMITS},
    }  # fmt: skip
    return night(content | changed)


def test_a_configuration_that_is_added_does_not_change_what_was_said_of_earlier_nights():
    earlier = [document(number, ["ce", "rdrop"]) for number in (1, 2, 3)]
    nights = [*earlier, document(4, ["ce", "rdrop", "simcse"], epoch="two")]
    judged = judge_by_documents(nights)
    assert str(judged[:3]) == str(judge_by_documents(earlier))  # NaN is not equal to itself
    page = text(nights, judged, rules_of(nights[-1]), "en")
    assert "measured nothing" not in page
    assert since_good(nights, judged) == ["c4 work"]


def test_settings_that_change_do_not_change_what_was_said_of_earlier_nights():
    other = {"window": 5, "quality": {"test.macro_f1": LIMITS}, "speed": LIMITS}
    nights = [*(document(number, ["ce"]) for number in (1, 2, 3)), document(4, ["ce"], settings=other)]
    judged = judge_by_documents(nights)
    assert judged[2][0].metric.name == "test.accuracy" and judged[2][0].verdict == "unchanged"
    assert judged[3][0].metric.name == "test.macro_f1" and judged[3][0].verdict == "measured nothing"


def test_no_sentence_has_two_spaces():
    nights = [document(1, ["ce"]), document(2, ["ce"])]
    for language in ("en", "zh"):
        assert not re.search(
            r"[^|\s]  +[^|\s]", text(nights, judge_by_documents(nights), rules_of(nights[-1]), language)
        )
