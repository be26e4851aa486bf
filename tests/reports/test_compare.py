"""What a section's numbers show, and what they cannot; one number over several data sets; studies that stop."""

import math
from dataclasses import replace

import numpy as np
import pytest

from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import RecordedGrid, RecordedSection, Stopping, StudyLook
from reports.compare import Section, compare
from reports.families import groups_of
from reports.findings import stopped, unequal_note
from reports.looks import check_looks, compare_section, replay_looks, rows_at
from reports.rows import rows_of
from reports.section_effects import explained
from reports.study import Results, study_of, with_all_seeds
from tests.recorded import SETTINGS
from tests.reports.made import made, put
from tests.reports.test_tables import NAME as FURTHER
from tests.reports.test_tables import measured
from tests.tiers import rest_is_full

NAME = "test.accuracy"
CE = [0.70, 0.71, 0.69, 0.705, 0.695]
GOOD, FAR = [0.80, 0.812, 0.789, 0.805, 0.797], [0.3, 0.302, 0.297, 0.301, 0.299]


def verdict_on_new(ce: list[float], new: list[float], **more) -> str:
    return compare(*made({"ce": {NAME: ce}, "new": {NAME: new}}, **more)).scores[1].verdict


def verdicts(section: Section) -> list[str]:
    return [score.verdict for score in section.scores]


def bold(section: Section) -> list[bool]:
    return [score.bold for score in section.scores]


def test_a_clear_difference_is_called_where_no_guard_forbids_it():
    part, results = made({"ce": {NAME: CE}, "new": {NAME: GOOD}})
    compared = compare(part, results)
    ((score, found),) = compared.comparisons
    assert score.verdict == "better" and found.against.label == "ce" and found.tested
    assert found.difference == pytest.approx(np.mean(GOOD) - np.mean(CE))
    assert bold(compared) == [False, True]
    # where a guard forbids it nothing is ranked, or nothing compared
    assert not any(bold(compare(part, results, may_rank=False)))
    nothing = compare(part, results, may_compare=False)
    assert verdicts(nothing) == ["baseline", "not comparable"]
    assert not any(bold(nothing)) and np.isnan(nothing.comparisons[0][1].p)


def test_all_comparisons_of_the_family_share_one_level():
    near = [score + 0.01 + noise for score, noise in zip(CE, (0.004, -0.004, 0.003, -0.002, 0.0), strict=True)]
    widths = []
    for names in ((NAME,), (NAME, "test.macro_f1")):
        part, results = made({"ce": dict.fromkeys(names, CE), "near": dict.fromkeys(names, near)})
        compared = compare(part, results)
        assert len(compared.comparisons) == len(names)
        widths.append(compared.comparisons[0][1].half_width)
    assert widths[1] > 1.1 * widths[0]
    put(results.study, families={part.title: [NAME]})
    compared = compare(part, results)
    ((score, found),) = compared.comparisons
    assert found.half_width == widths[0] and score.value == NAME
    assert not any(score.bold for score in compared.scores if score.value == "test.macro_f1")
    # the primary score is the family of each table that shows it
    more = [score + 0.1 for score in CE]
    part, results = made({"ce": dict.fromkeys(names, CE), "new": dict.fromkeys(names, more)})
    put(results.study, families={part.title: ["test.macro_f1"]}, primary="test.macro_f1")
    compared = compare(part, results)
    assert [score.value for score, _ in compared.comparisons] == ["test.macro_f1"]


def test_equivalent_is_what_lies_within_the_margin_and_better_may_be_so_too():
    noise = np.array([0.001, -0.001, 0.0005, -0.0005, 0.0])
    values = {"ce": CE, "alike": list(np.array(CE) + noise), "little": list(np.array(CE) + 0.005 + noise)}
    part, results = made({label: {NAME: scores} for label, scores in values.items()})
    put(results.study, margins={"accuracy": 0.01})
    section = compare(part, results)
    assert verdicts(section) == ["baseline", "equivalent", "equivalent"]
    assert [comparison.side for _, comparison in section.comparisons] == [0, 1]
    put(results.study, margins={NAME: 0.0001})
    section = compare(part, results)
    assert verdicts(section) == ["baseline", "undecided", "better"]
    assert [comparison.side for _, comparison in section.comparisons] == [0, 1]


def test_what_is_undecided_says_how_many_seeds_would_decide_it():
    noise = np.random.default_rng(1).normal(0, 0.01, (2, 5))
    part, results = made({"ce": {NAME: list(0.7 + noise[0])}, "new": {NAME: list(0.71 + noise[1])}})
    ((score, found),) = compare(part, results).comparisons
    assert score.verdict == "undecided" and 5 < found.needs.seeds <= 64 and found.needs_seconds > 0


@pytest.mark.parametrize(("rows", "count"), rest_is_full([(3, 10), (3, 20), (2, 20), (6, 20)], [(3, 10)]))
def test_a_verdict_and_bold_never_contradict_each_other(rows: int, count: int):
    """Nothing worse than its baseline is bold, and no baseline that something is better than; the best one is."""
    random = np.random.default_rng(3)
    for _ in range(count):
        seeds = random.choice([2, 4])  # few numbers, as each needs cut-offs of its own
        scores = random.normal(0, 0.01, (rows, seeds)) + random.choice([0, 0.02, 0.05], (rows, 1)) + 0.5
        part, results = made({f"r{i}": {NAME: list(row)} for i, row in enumerate(scores)})
        found = compare(part, results).scores
        assert not any(score.bold for score in found if score.verdict == "worse")
        assert not (found[0].bold and any(score.verdict == "better" for score in found))
        assert max(found, key=lambda score: score.mean).bold or not any(score.bold for score in found)


def test_a_row_that_varies_otherwise_makes_no_pool_with_the_rest():
    random = np.random.default_rng(0)
    scores = {f"r{i}": list(0.5 + 0.001 * random.normal(size=8)) for i in range(6)}
    scores["wild"] = list(0.5 + 0.05 * random.normal(size=8))
    part, results = made({label: {NAME: values} for label, values in scores.items()})
    compared = compare(part, results)
    assert compared.unequal == ["wild"] and "wild" in next(unequal_note(compared))
    half = {score.row.label: comparison.half_width for score, comparison in compared.comparisons}
    assert half["wild"] > 10 * half["r1"]


def test_nothing_is_bold_beside_one_seed_or_a_missing_value():
    part, results = made({"ce": {NAME: [0.70]}, "new": {NAME: [0.99]}})
    found = compare(part, results)
    assert verdicts(found) == ["baseline", "one seed"]
    assert not any(bold(found)) and not found.ranked
    other = [0.5, math.nan, 0.5, 0.52, 0.51]
    part, results = made({"ce": {NAME: CE}, "new": {NAME: GOOD}, "other": {NAME: other}})
    found = compare(part, results)
    assert verdicts(found) == ["baseline", "better", "not comparable"]
    assert not any(bold(found))


def test_equal_seeds_are_no_evidence_but_for_rounding_and_less_is_better_of_what_counts_down():
    assert verdict_on_new([0.7] * 3, [0.8] * 3) == verdict_on_new([0.70] * 3, [0.71] * 3) == "no spread"
    assert verdict_on_new(CE, GOOD, worse_is_more=(NAME,)) == "worse"

    # and a score of counts without its texts does not agree by luck
    name = "test.macro_f1"
    part, results = made({"ce": {name: [0.70, 0.71]}, "new": {name: [0.75, 0.76000001]}})
    put(results.kinds[name], count=100)
    assert verdicts(compare(part, results)) == ["baseline", "undecided"]


def test_all_are_bold_that_nothing_was_shown_to_beat_but_nothing_among_rows_on_other_data():
    values = {"ce": CE, "near": [one + 0.001 for one in CE[::-1]], "far": FAR}
    part, results = made({label: {NAME: found} for label, found in values.items()})
    assert bold(compare(part, results)) == [True, True, False]
    part, results = made({"ce": {NAME: CE}, "far": {NAME: FAR}}, data={"ce": "tweets", "far": "reviews"})
    put(part.rows[1], against=None)
    assert not any(bold(compare(part, results)))
    name = "transfer.reviews.accuracy"  # of the same texts, whatever trained
    part, results = made({"ce": {name: CE}, "far": {name: FAR}}, data={"ce": "tweets", "far": "others"})
    assert bold(compare(part, results)) == [True, False]


def test_the_texts_widen_the_interval():
    """Two models that differ by the same two of 50 texts at both seeds: no spread of seeds, and still no certainty."""
    ce = np.zeros((2, 50), bool)
    ce[:, :30] = True
    new = ce.copy()
    new[:, 30:33], new[:, 0] = True, False
    texts = {"ce": ce, "new": new}
    part, results = made({label: {NAME: list(each.mean(1))} for label, each in texts.items()}, texts=texts)
    ((score, found),) = compare(part, results).comparisons
    assert found.by_text and score.verdict == "undecided" and found.p > 0.05
    # texts that do not make the score are not used
    wrong = np.zeros((2, 50), bool)
    part, results = made({"ce": {NAME: [0.7, 0.8]}, "new": {NAME: [0.75, 0.8]}}, texts={"ce": wrong, "new": wrong})
    ((_, found),) = compare(part, results).comparisons
    assert not found.by_text


APART = {"ce": 0.0, "far": 0.2, "alike": 0.0, "near": 0.012}  # rows far off, alike and near, and their baseline


def study(seeds: int = 8, apart: dict[str, float] = APART, start: int = 5) -> tuple[RecordedSection, Results]:
    random = np.random.default_rng(start)
    shared = 0.01 * random.normal(size=seeds)
    scores = {label: 0.6 + d + shared + 0.004 * random.normal(size=seeds) for label, d in apart.items()}
    return made({label: {NAME: list(values)} for label, values in scores.items()})


def until(section: RecordedSection, results: Results, seeds: int) -> Results:
    """As MLflow holds them while no row has more seeds."""
    kept = {cell for row in rows_at(section, [seeds] * len(section.rows)).rows for cell in row.cells}
    return replace(results, cells={name: run for name, run in results.cells.items() if name in kept})


def lose(results: Results, cell: str) -> None:
    results.scores.loc[cell, NAME] = math.nan
    put(results.cells[cell], status="failed", error="out of luck")


def test_what_is_decided_stops_and_what_is_not_goes_on_with_its_baseline():
    section, results = study()
    followed = replay_looks(section, results, 8)
    assert followed.looks[0].seeds == 2 and followed.ended in ("decided", "most seeds")
    seeds = dict(zip([row.label for row in section.rows], followed.seeds, strict=True))
    assert seeds["far"] < seeds["ce"] == max(seeds.values())
    assert followed.looks[-1].verdicts[f"far, {NAME}"] == "better"

    # a study that is interrupted wants what the whole one had
    for seeds in (0, 2, 3, 4):
        partly = replay_looks(section, until(section, results, seeds), 8)
        assert partly.looks == followed.looks[: len(partly.looks)] and not partly.ended
        assert len(partly.looks) == {0: 0, 2: 1, 3: 2, 4: 3}[seeds]
    # a verdict stands whatever other rows measure later
    for name in followed.looks[0].verdicts:
        said = [look.verdicts[name] for look in followed.looks]
        first = next((n for n, verdict in enumerate(said) if verdict != "undecided"), len(said))
        assert len(set(said[first:])) <= 1


def test_a_row_that_seeds_will_hardly_decide_is_given_up_unless_asked_to_go_on():
    section, results = study(apart={"ce": 0.0, "far": 0.2, "open": 0.009}, start=4)
    regardless = replay_looks(section, results, 8, gives_up=False)
    given_up = replay_looks(section, results, 8)
    assert regardless.ended == "most seeds" and regardless.seeds[2] == 8
    assert given_up.ended == "futile" and given_up.seeds[2] < 8
    assert given_up.looks == regardless.looks[: len(given_up.looks)]


def test_a_cell_without_a_result_ends_its_row_and_no_other_and_without_baselines_nothing_is_decided():
    section, results = study()
    lose(results, "near-1")
    followed = replay_looks(section, results, 8)
    assert followed.looks[0].verdicts[f"near, {NAME}"] == "not comparable"
    assert followed.seeds[3] == 2 and followed.looks[-1].verdicts[f"far, {NAME}"] == "better"
    for seed in range(8):
        lose(results, f"ce-{seed}")
    followed = replay_looks(section, results, 8)
    assert followed.ended == "not comparable" and followed.seeds == [2, 2, 2, 2]


def test_a_row_that_fails_later_takes_no_verdict_of_another_back():
    section, results = study(4, {"ce": 0.0, "far": 0.06, "near": 0.004}, start=0)
    sound = replay_looks(section, results, 4, gives_up=False)
    assert [look.verdicts[f"far, {NAME}"] for look in sound.looks] == ["better"] * 3
    lose(results, "near-3")
    followed = replay_looks(section, results, 4, gives_up=False)
    assert followed.looks[:2] == sound.looks[:2]
    assert followed.looks[2].verdicts == {f"far, {NAME}": "better", f"near, {NAME}": "undecided"}
    assert followed.ended == "not comparable" and followed.seeds == [4, 2, 4]


# accuracies on definitions and on Chinese reviews, in each case of a row to which another question gave eight seeds
CE_8 = {"definitions": [0.5945, 0.631, 0.6585, 0.6595, 0.6195, 0.6145, 0.622, 0.597]}
CE_8["reviews"] = [0.7525, 0.748, 0.7485, 0.757, 0.743, 0.7595, 0.756, 0.757]
ROW_8 = {"definitions": [0.61, 0.6215, 0.6385, 0.652, 0.607, 0.646, 0.624, 0.6155]}
ROW_8["reviews"] = [0.755, 0.7575, 0.751, 0.751, 0.7565, 0.753, 0.7465, 0.7485]
LOGITS = {"definitions": [0.4845, 0.4435, 0.503], "reviews": [0.733, 0.698, 0.7205, 0.727, 0.7155]}


@pytest.mark.parametrize(
    ("data", "seeds", "own", "size"), [("definitions", 3, -0.0047, 0.0023), ("reviews", 4, 0.0021, -0.0003)]
)
def test_a_comparison_uses_the_seeds_that_another_question_added(data, seeds, own, size):
    values = {"ce": {NAME: CE_8[data]}, "row": {NAME: ROW_8[data]}, "logits": {NAME: LOGITS[data]}}
    section, results = made(values)
    asked = rows_at(section, [8, seeds, len(LOGITS[data])])
    other = replace(section, title="Another question", rows=[replace(section.rows[1], against=None)])
    put(results.study, stopping=Stopping(8))
    before, same = (pair for _score, pair in compare_section(asked, results)[1].comparisons)
    row, logits = (pair for _score, pair in compare_section(with_all_seeds([asked, other])[0], results)[1].comparisons)
    assert (before.seeds, before.difference) == (seeds, pytest.approx(own, abs=1e-4))
    assert (row.seeds, row.difference) == (8, pytest.approx(size, abs=1e-4))
    assert row.half_width < before.half_width / 2 and logits.verdict == same.verdict == "worse"


def test_the_seeds_of_another_section_are_in_the_study_of_a_recorded_grid_that_adds_seeds():
    section, _ = study()
    asked, other = rows_at(section, [2, 2, 2, 2]), replace(rows_at(section, [6, 3, 2, 2]), title="Another question")
    experiment = Experiment(name="small", sections=[{"title": "A section", "rows": {"ce": {"loss": "ce"}}}], **SETTINGS)
    grid = RecordedGrid(experiment, [asked, other], [], stopping=Stopping(8))
    assert [[len(row.cells) for row in part.rows] for part in study_of(grid).sections] == [[6, 3, 2, 2]] * 2
    fixed = study_of(replace(grid, stopping=None))
    assert fixed.sections == grid.sections


def test_what_seeds_of_other_sections_left_open_again_is_said():
    section, results = made({"ce": {NAME: [0.7, 0.7, 0.72, 0.76]}, "row": {NAME: [0.8, 0.801, 0.70, 0.77]}})
    put(results.study, stopping=Stopping(4, ended={section.title: "decided"}))
    compared = compare_section(section, results)[1]
    assert verdicts(compared)[1] == "undecided" and "open again" in str(next(stopped(compared)))


def test_a_row_that_lacks_a_result_counts_up_to_the_look_before():
    section, results = study(4, {"ce": 0.0, "far": 0.06, "near": 0.004}, start=0)
    lose(results, "far-3")
    put(results.study, stopping=Stopping(4))
    far, near = (pair for _score, pair in compare_section(section, results)[1].comparisons)
    assert (far.seeds, far.verdict, near.seeds) == (3, "better", 4)


def test_the_record_is_held_against_the_results_of_which_some_may_have_come_after_an_interruption():
    section, results = study()
    followed = replay_looks(section, results, 8)

    def found(looks: list[StudyLook], ended: str = "") -> list:
        stopping = Stopping(8, {section.title: looks}, {section.title: ended} if ended else {})
        study = replace(results.study, sections=[rows_at(section, followed.seeds)], stopping=stopping)
        return check_looks(replace(results, study=study))

    assert found(followed.looks, ended=followed.ended) == found(followed.looks[:1]) == []
    assert found(followed.looks[:1], ended="decided")
    assert found([StudyLook(2, {}), *followed.looks[1:]], ended=followed.ended)


def test_axes_that_change_together_explain_nothing():
    values = {"a": {NAME: [0.5, 0.6, 0.7]}, "b": {NAME: [0.6, 0.7, 0.81]}}
    part, results = made(values, axes={"a": {"k": 1, "alpha": 0.1}, "b": {"k": 2, "alpha": 0.2}})
    assert explained(compare(part, results), results) == []


def test_trained_vectors_form_one_group_and_those_of_each_configuration_another_without_repeats():
    section, results = measured()
    rows = rows_of(section, [FURTHER], results)
    groups = list(groups_of(rows, FURTHER, compare(section, results).measured, results.study))
    labels = [[rows[i].label for i in members] for _, members, _ in groups]
    assert sorted(labels[0]) == ["ce", "new", "other"] and len(labels) == 4
    assert all(len({*group}) == len(group) > 1 for group in labels)
    assert all(len({*pairs}) == len(pairs) for *_, pairs in groups)
