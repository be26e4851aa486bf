"""The order of cells, and makespans that can be counted on fingers, with the bounds that hold for any."""

import random

from contrastive.config.cell import Cell, Data, Encoder, Training
from contrastive.config.evaluation import Evaluation
from contrastive.config.experiment import Speed
from contrastive.config.objective import Objective
from contrastive.grid.estimate import CostEstimator, in_order, makespan


def cell(alpha: float, source: str = "a", **training: object) -> Cell:
    return Cell(
        data=Data(source=f"file:{source}.csv", test=4),
        encoder=Encoder(model="scratch:bert", scratch={"layers": 3}),
        objective=Objective(loss="ce+supcon", alpha=alpha),
        training=Training(**training),
        seed=0,
    ).canonical()


class Known(CostEstimator):
    """A cell takes α seconds; those above 100 are unknown."""

    def seconds(self, cell: Cell) -> float | None:
        return None if cell.objective.alpha > 100 else cell.objective.alpha

    def work(self, cell: Cell) -> float:
        return cell.objective.alpha


def test_cells_of_the_same_data_follow_one_another_longest_first_and_unknown_ones_before():
    cells = [cell(3, "a"), cell(2, "b"), cell(1, "a"), cell(9, "b"), cell(5, "c"), cell(101, "c"), cell(102, "d")]
    fit = Known(Evaluation(), Speed())
    order = [(one.data.source[5], one.objective.alpha) for one in in_order(cells, fit)]
    assert order == [("c", 101), ("c", 5), ("d", 102), ("b", 9), ("b", 2), ("a", 3), ("a", 1)]


def test_the_next_cell_begins_where_one_has_ended():
    assert makespan([], 2) == 0
    parts = [(6.0, 1), (5.0, 1), (4.0, 1)]
    assert makespan(parts, 1) == 15
    assert makespan(parts, 2) == 9  # 5 + 4


def test_a_cell_of_several_devices_waits_for_all_of_them():
    assert makespan([(4.0, 1), (3.0, 2), (1.0, 1)], 2) == 8
    assert makespan([(4.0, 4)], 2) == 4


def test_never_shorter_than_the_work_divided_nor_than_the_longest_cell():
    chance = random.Random(0)
    for _ in range(200):
        work = sorted((chance.uniform(1, 11) for _ in range(12)), reverse=True)
        slots = chance.randint(1, 5)
        found = makespan([(seconds, 1) for seconds in work], slots)
        lower = max(sum(work) / slots, max(work))
        assert lower - 1e-9 <= found <= sum(work) / slots + max(work)
