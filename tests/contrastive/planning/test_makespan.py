"""Makespans that can be counted on fingers, and the bounds that hold for any."""

import random

from contrastive.planning.makespan import Part, makespan


def test_nothing_takes_no_time():
    assert makespan([], 2) == 0 and makespan([], 2, 1) == 0


def test_the_next_cell_begins_where_one_has_ended():
    parts = [Part(5, 1), Part(4, 1), Part(3, 1)]
    assert makespan(parts, 1) == 15
    assert makespan(parts, 2) == 9  # 6, and 5 + 4


def test_evaluation_on_cores_of_its_own_lies_beside_the_next_training():
    parts = [Part(5, 3), Part(5, 3), Part(5, 3)]
    assert makespan(parts, 1, 1) == 18
    assert makespan([Part(1, 10)] * 3, 1, 2) == 21  # the third one waits for who measures


def test_a_cell_of_several_devices_waits_for_all_of_them():
    assert makespan([Part(4, 0), Part(2, 1, 2), Part(1, 0)], 2) == 7  # one ends at 4, two begin; the third after 6
    assert makespan([Part(3, 1, 4)], 2) == 4


def test_never_shorter_than_the_work_divided_nor_than_the_longest_cell():
    chance = random.Random(0)
    for _ in range(200):
        parts = sorted((Part(chance.uniform(1, 9), chance.uniform(0, 2)) for _ in range(12)), reverse=True)
        slots = chance.randint(1, 5)
        found, work = makespan(parts, slots), [part.train + part.evaluate for part in parts]
        lower = max(sum(work) / slots, max(work))
        assert lower - 1e-9 <= found <= sum(work) / slots + max(work)
