"""Which cells train together: each once, in order, in parts that keep the devices busy, and only those that share.

Makespans of them that can be counted on fingers, and the bounds that hold for any.
"""

import math
import random
from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.experiment import Speed
from contrastive.config.objective import Objective
from contrastive.data.locate import separable_blocks
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.groups import AT_MOST, CellTime, group_cells, makespan

TUNES = (
    {},
    {"last_blocks": 1},
    {"last_blocks": 2},
    {"last_blocks": 1, "frozen_dropout": False},
    {"last_blocks": 1, "lora": {"r": 2}},
    {"last_blocks": 3},  # of as many: nothing is frozen
)
VIEWS = ({"view": "two_stage"}, {"view": "topk_tokens"}, {"view": "layers", "layers": (0, 2)})


@cache
def cell(alpha: float = 0.1, tune: int = 1, view: int = 0, seed: int = 0, **training: object) -> Cell:
    return Cell(
        data=Data(source="file:nowhere.csv", test=4),
        encoder=Encoder(model="scratch:bert", tune=TUNES[tune], scratch={"layers": 3}),
        objective=Objective(loss="ce+supcon", alpha=alpha, **VIEWS[view]),
        training=Training(**training),
        seed=seed,
    ).canonical()


# Of each, eight cells that differ in α alone.
SETTINGS = [*({"tune": number} for number in range(6)), {"view": 1}, {"view": 2}, {"seed": 1}, {"batch_size": 8}]
SETTINGS += [{"processes": 2}, {"processes": 2, "sharding": "fsdp"}]
POOL = [cell(number / 10, **settings) for settings in SETTINGS for number in range(1, 9)]
CELLS = st.lists(st.sampled_from(POOL), max_size=40, unique=True)
SPEEDS = st.builds(Speed, together=st.none() | st.integers(1, 9), reuse=st.sampled_from(["full", "half"]))
SPEEDS |= st.sampled_from([Speed(reuse="none"), Speed(reuse="none", together=1)])
OWN, SHARED = 10, 5  # bytes


class Known(CostEstimator):
    """Every cell takes α seconds, 10 bytes of its own and 5 that it shares."""

    def __init__(self, **speed) -> None:
        super().__init__(speed=Speed(**speed))

    def seconds(self, cell: Cell, together: int = 1) -> float:
        return cell.objective.alpha

    def own(self, cell: Cell) -> int:
        return OWN

    def shared(self, cell: Cell) -> int:
        return SHARED


def seconds(group: list[Cell]) -> float:
    return sum(one.objective.alpha for one in group)


@given(CELLS, SPEEDS, st.integers(1, 6), st.none() | st.integers(0, 100))
@settings(max_examples=40)
def test_every_cell_is_in_one_group_with_those_it_shares_a_pass_with(
    cells: list[Cell], speed: Speed, slots: int, room: int | None
):
    found = group_cells(cells, Known(**speed.model_dump()), slots, room)
    assert Counter(one for group in found for one in group) == Counter(cells)
    place = {one: number for number, one in enumerate(cells)}
    assert all([place[one] for one in group] == sorted(place[one] for one in group) for group in found)
    assert found == sorted(found, key=seconds, reverse=True)  # the longest begin first
    most = speed.together or AT_MOST
    if room is not None:
        most = min(most, max(1, (room - SHARED) // OWN))
    assert all(1 <= len(group) <= most for group in found)
    if speed.together is None:
        assert len(found) >= min(slots, len(cells))
    for group in (group for group in found if len(group) > 1):
        assert len({one.model_copy(update={"objective": Objective()}) for one in group}) == 1
        assert {separable_blocks(one) for one in group} == {separable_blocks(group[0])} != {0}
        assert all(one.training.processes == 1 and one.training.sharding is None for one in group)
        assert speed.reuse != "none" and all(one.encoder.tune.frozen_dropout for one in group)


def alike(count: int) -> list[Cell]:
    return [cell(1 + number / 100) for number in range(count)]


@given(st.integers(1, 30), st.integers(1, 9))
@settings(max_examples=15)
def test_parts_of_one_group_are_as_few_as_can_be_and_nearly_equal(count: int, most: int):
    sizes = [len(group) for group in group_cells(alike(count), Known(together=most), 1, None)]
    assert len(sizes) == math.ceil(count / most) and max(sizes) - min(sizes) <= 1


def test_what_cells_must_have_in_common():
    """Everything but the objective; and of that, what decides how many blocks are apart."""
    for apart in ({"view": 2}, {"seed": 1}, {"batch_size": 8}, {"tune": 2}):
        assert len(group_cells([cell(), cell(**apart)], Known(), 1, None)) == 2, apart
    for other in (cell(0.2), cell(view=1)):  # another α, a view cut alike
        assert group_cells([cell(), other], Known(), 1, None) == [[cell(), other]]


def test_groups_leave_a_part_for_each_slot_and_have_room_in_it():
    sizes = {1: 2, 2: 2, 3: 3, 4: 4, 6: 6, 12: 12, 20: 12}
    assert {slots: len(group_cells(alike(12), Known(), slots, None)) for slots in sizes} == sizes
    for count, slots in product(range(1, 13), range(1, 8)):
        assert len(group_cells(alike(count), Known(), slots, None)) >= min(count, slots), (count, slots)
    assert [len(group_cells(alike(6), Known(), 1, room)) for room in (0, 15, 24, 25, 35, 64, 65)] == [
        6,
        6,
        6,
        3,
        2,
        2,
        1,
    ]


def test_cells_that_read_a_store_or_are_to_share_nothing_stay_alone():
    still, dropping = ([cell(alpha, tune) for alpha in (0.1, 0.2)] for tune in (3, 1))
    for reuse, cells, count in (("full", still, 2), ("half", still, 2), ("full", dropping, 1), ("none", dropping, 2)):
        assert len(group_cells(cells, Known(reuse=reuse), 1, None)) == count, reuse


def test_sharing_passes_and_computing_each_exclude_one_another():
    with pytest.raises(ValueError, match="together: 8 shares passes of frozen blocks, but reuse: none turns that off"):
        Speed(reuse="none", together=8)


def test_the_next_cell_begins_where_one_has_ended():
    assert makespan([], 2) == 0 and makespan([], 2, 1) == 0
    parts = [CellTime(5, 1), CellTime(4, 1), CellTime(3, 1)]
    assert makespan(parts, 1) == 15
    assert makespan(parts, 2) == 9  # 6, and 5 + 4


def test_evaluation_on_cores_of_its_own_lies_beside_the_next_training():
    parts = [CellTime(5, 3), CellTime(5, 3), CellTime(5, 3)]
    assert makespan(parts, 1, 1) == 18
    assert makespan([CellTime(1, 10)] * 3, 1, 2) == 21  # the third one waits for who measures


def test_a_cell_of_several_devices_waits_for_all_of_them():
    assert (
        makespan([CellTime(4, 0), CellTime(2, 1, 2), CellTime(1, 0)], 2) == 7
    )  # one ends at 4, two begin; the third after 6
    assert makespan([CellTime(3, 1, 4)], 2) == 4


def test_never_shorter_than_the_work_divided_nor_than_the_longest_cell():
    chance = random.Random(0)
    for _ in range(200):
        parts = sorted((CellTime(chance.uniform(1, 9), chance.uniform(0, 2)) for _ in range(12)), reverse=True)
        slots = chance.randint(1, 5)
        found, work = makespan(parts, slots), [part.train + part.evaluate for part in parts]
        lower = max(sum(work) / slots, max(work))
        assert lower - 1e-9 <= found <= sum(work) / slots + max(work)
