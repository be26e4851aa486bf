"""A study that stops by itself: which rows get more seeds follows from the results alone."""

import math
from dataclasses import replace

import numpy as np

from contrastive.runs.recorded import RecordedSection, Stopping, StudyLook
from reports.load import Results
from reports.looks import check_looks, follow, rows_at
from tests.reports.made import made, put

NAME = "test.accuracy"


APART = {"ce": 0.0, "far": 0.2, "alike": 0.0, "near": 0.012}  # rows far off, alike and near, and their baseline


def study(seeds: int = 8, apart: dict[str, float] = APART, start: int = 5) -> tuple[RecordedSection, Results]:
    random = np.random.default_rng(start)
    shared = 0.01 * random.normal(size=seeds)
    return made(
        {label: {NAME: list(0.6 + d + shared + 0.004 * random.normal(size=seeds))} for label, d in apart.items()}
    )


def until(section: RecordedSection, results: Results, seeds: int) -> Results:
    """As MLflow holds them while no row has more seeds."""
    kept = {cell for row in rows_at(section, [seeds] * len(section.rows)).rows for cell in row.cells}
    return replace(results, cells={name: run for name, run in results.cells.items() if name in kept})


def lose(results: Results, cell: str) -> None:
    results.scores.loc[cell, NAME] = math.nan
    put(results.cells[cell], status="failed", error="out of luck")


def test_what_is_decided_stops_and_what_is_not_goes_on_with_its_baseline():
    section, results = study()
    followed = follow(section, results, 8)
    assert followed.looks[0].seeds == 2 and followed.ended in ("decided", "most seeds")
    seeds = dict(zip([row.label for row in section.rows], followed.seeds, strict=True))
    assert seeds["far"] < seeds["ce"] == max(seeds.values())
    assert followed.looks[-1].verdicts[f"far, {NAME}"] == "better"


def test_a_study_that_is_interrupted_wants_what_the_whole_one_had():
    section, results = study()
    whole = follow(section, results, 8)
    for seeds in (0, 2, 3, 4):
        partly = follow(section, until(section, results, seeds), 8)
        assert partly.looks == whole.looks[: len(partly.looks)] and not partly.ended
        assert len(partly.looks) == {0: 0, 2: 1, 3: 2, 4: 3}[seeds]
    # a verdict stands whatever other rows measure later
    for name in whole.looks[0].verdicts:
        said = [look.verdicts[name] for look in whole.looks]
        first = next((n for n, verdict in enumerate(said) if verdict != "undecided"), len(said))
        assert len(set(said[first:])) <= 1


def test_a_cell_without_a_result_ends_its_row_and_no_other_and_without_baselines_nothing_is_decided():
    section, results = study()
    lose(results, "near-1")
    followed = follow(section, results, 8)
    assert followed.looks[0].verdicts[f"near, {NAME}"] == "not comparable"
    assert followed.seeds[3] == 2 and followed.looks[-1].verdicts[f"far, {NAME}"] == "better"
    for seed in range(8):
        lose(results, f"ce-{seed}")
    followed = follow(section, results, 8)
    assert followed.ended == "not comparable" and followed.seeds == [2, 2, 2, 2]


def test_a_row_that_fails_later_takes_no_verdict_of_another_back():
    section, results = study(4, {"ce": 0.0, "far": 0.06, "near": 0.004}, start=0)
    sound = follow(section, results, 4)
    assert [look.verdicts[f"far, {NAME}"] for look in sound.looks] == ["better"] * 3
    lose(results, "near-3")
    followed = follow(section, results, 4)
    assert followed.looks[:2] == sound.looks[:2]
    assert followed.looks[2].verdicts == {f"far, {NAME}": "better", f"near, {NAME}": "not comparable"}
    assert followed.ended == "not comparable" and followed.seeds == [4, 2, 4]


def test_the_record_is_held_against_the_results_of_which_some_may_have_come_after_an_interruption():
    section, results = study()
    followed = follow(section, results, 8)

    def found(looks: list[StudyLook], ended: str = "") -> list:
        stopping = Stopping(8, {section.title: looks}, {section.title: ended} if ended else {})
        grid = replace(results.grid, sections=[rows_at(section, followed.seeds)], stopping=stopping)
        return check_looks(replace(results, grid=grid))

    assert found(followed.looks, ended=followed.ended) == found(followed.looks[:1]) == []
    assert found(followed.looks[:1], ended="decided")
    assert found([StudyLook(2, {}), *followed.looks[1:]], ended=followed.ended)
