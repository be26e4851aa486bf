"""What a section's numbers show, and what they cannot."""

import math

import numpy as np
import pytest
from scipy import stats

from reports.compare import compare
from tests.reports.made import made, put

NAME = "test.accuracy"
CE = [0.70, 0.71, 0.69, 0.705, 0.695]


def verdicts(values: dict[str, list[float]], **more) -> dict[str, str]:
    part, results = made({label: {NAME: found} for label, found in values.items()}, **more)
    return dict(compare(part, results).frame[["label", "verdict"]].itertuples(index=False))


def test_a_clear_difference_is_called_and_its_numbers_are_scipys():
    ours = [0.80, 0.812, 0.789, 0.805, 0.797]
    part, results = made({"ce": {NAME: CE}, "new": {NAME: ours}})
    found = compare(part, results)
    line = found.frame.iloc[1]
    test = stats.ttest_rel(ours, CE)
    assert line["verdict"] == "better" and line["against"] == "ce" and found.hypotheses == 1
    assert line["p"] == pytest.approx(test.pvalue) and line["difference"] == pytest.approx(np.mean(ours) - np.mean(CE))
    low, high = test.confidence_interval()
    assert line["difference_half_width"] == pytest.approx((high - low) / 2)
    assert found.frame["bold"].tolist() == [False, True]


def test_holm_goes_over_all_rows_and_values_of_the_family():
    near = [one + 0.01 + noise for one, noise in zip(CE, (0.004, -0.004, 0.003, -0.002, 0.0), strict=True)]
    assert verdicts({"ce": CE, "near": near})["near"] == "better"
    noise = np.random.default_rng(0).normal(0, 0.01, (20, 5))
    others = {f"o{i}": list(np.array(CE) + one) for i, one in enumerate(noise)}
    assert verdicts({"ce": CE, "near": near, **others})["near"] == "not shown"
    part, results = made(
        {label: {NAME: found, "test.macro_f1": found} for label, found in {"ce": CE, "near": near}.items()}
    )
    assert compare(part, results).hypotheses == 2
    put(part.show.table, family=(NAME,))
    found = compare(part, results)
    assert found.hypotheses == 1 and not found.frame.loc[found.frame["value"] == "test.macro_f1", "bold"].any()


def test_less_is_better_of_what_counts_down():
    more = [one + 0.1 + noise for one, noise in zip(CE, (0.001, 0, -0.001, 0.002, 0), strict=True)]
    assert verdicts({"ce": CE, "more": more}, worse_is_more=(NAME,))["more"] == "worse"


def test_one_seed_shows_nothing_and_nothing_is_bold():
    part, results = made({"ce": {NAME: [0.70]}, "new": {NAME: [0.99]}})
    found = compare(part, results)
    assert found.frame["verdict"].tolist() == ["baseline", "impossible"]
    assert not found.frame["bold"].any() and not found.ranked and found.detectable == {NAME: None}


def test_where_no_difference_has_room_not_shown_is_not_said():
    assert verdicts({"ce": [0.90, 0.99], "new": [0.99, 0.91]})["new"] == "impossible"


def test_a_missing_value_stops_the_ranking_and_not_the_pairs_that_are_whole():
    new, other = [0.80, 0.812, 0.789, 0.805, 0.797], [0.5, math.nan, 0.5, 0.52, 0.51]
    part, results = made({"ce": {NAME: CE}, "new": {NAME: new}, "other": {NAME: other}})
    found = compare(part, results)
    assert found.frame["verdict"].tolist() == ["baseline", "better", "not comparable"]
    assert not found.frame["bold"].any() and not found.pairs


def test_where_a_guard_forbids_it_nothing_is_compared():
    part, results = made({"ce": {NAME: CE}, "new": {NAME: [0.80, 0.812, 0.789, 0.805, 0.797]}})
    found = compare(part, results, may_compare=False)
    assert found.frame["verdict"].tolist() == ["baseline", "not comparable"] and found.hypotheses == 0
    assert not found.frame["bold"].any() and found.frame["p_holm"].isna().all()


def test_equal_seeds_are_no_evidence_but_for_rounding():
    assert verdicts({"ce": [0.7] * 3, "new": [0.8] * 3})["new"] == "impossible"
    assert verdicts({"ce": [0.70] * 3, "new": [0.71] * 3})["new"] == "impossible"


def test_a_score_of_counts_without_its_texts_does_not_agree_by_luck():
    name = "test.macro_f1"
    part, results = made({"ce": {name: [0.70, 0.71]}, "new": {name: [0.75, 0.76000001]}})
    put(results.kinds[name], count=100)
    assert compare(part, results).frame["verdict"].tolist() == ["baseline", "impossible"]


def test_a_guard_stops_the_ranking():
    part, results = made({"ce": {NAME: CE}, "new": {NAME: [0.80, 0.812, 0.789, 0.805, 0.797]}})
    assert compare(part, results).frame["bold"].any() and not compare(part, results, may_rank=False).frame["bold"].any()


def test_all_are_bold_that_nothing_was_shown_to_beat():
    values = {"ce": CE, "near": [one + 0.001 for one in CE[::-1]], "far": [0.3, 0.302, 0.297, 0.301, 0.299]}
    part, results = made({label: {NAME: found} for label, found in values.items()})
    assert compare(part, results).frame["bold"].tolist() == [True, True, False]


def test_rows_on_other_data_are_not_ranked_among_each_other():
    values = {"ce": CE, "far": [0.3, 0.302, 0.297, 0.301, 0.299]}
    part, results = made(
        {label: {NAME: found} for label, found in values.items()}, data={"ce": "tweets", "far": "reviews"}
    )
    put(part.rows[1], against=None)
    assert not compare(part, results).frame["bold"].any()


def test_the_texts_are_counted_seed_by_seed_and_widen_the_interval():
    """Two models that differ by the same two of 50 texts at both seeds: no spread of seeds, and still no certainty."""
    ce = np.zeros((2, 50), bool)
    ce[:, :30] = True
    new = ce.copy()
    new[:, 30:33], new[:, 0] = True, False
    part, results = made(
        {"ce": {NAME: list(ce.mean(1))}, "new": {NAME: list(new.mean(1))}}, texts={"ce": ce, "new": new}
    )
    line = compare(part, results).frame.iloc[1]
    assert (line["only_ours"], line["only_theirs"]) == ([3, 3], [1, 1]) and line["over_texts"]
    assert line["mcnemar"] == [0.625, 0.625] and line["verdict"] in ("not shown", "impossible") and line["p"] > 0.05


def test_texts_that_do_not_make_the_score_are_not_used():
    wrong = np.zeros((2, 50), bool)
    part, results = made({"ce": {NAME: [0.7, 0.8]}, "new": {NAME: [0.75, 0.8]}}, texts={"ce": wrong, "new": wrong})
    line = compare(part, results).frame.iloc[1]
    assert not line["over_texts"] and not isinstance(line["only_ours"], list)
