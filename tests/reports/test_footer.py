"""Time, energy and cost by hand, of a report and of one of its tables."""

from typing import Any

import pandas as pd

from contrastive.config.experiment import Experiment
from contrastive.runs.recorded import Hardware, Predicted, Provenance, RecordedGrid
from reports.load import Results
from reports.provenance import footer
from tests.recorded import SETTINGS
from tests.reports.made import cell_run, row, section

HARDWARE = Hardware("cpu", "a CPU", 2, 4)


def noted(**changed: Any) -> Provenance:
    known = {"commit": "abc", "packages": {"torch": "2"}, "hardware": HARDWARE, "wall_seconds": 3600.0}
    return Provenance(**known | {"gpu_seconds": 0.0, "peak_memory_mib": 100} | changed)


def results(*known: Provenance | None, **report: Any) -> Results:
    cells = {f"c{i}": cell_run(f"c{i}", {}, one) for i, one in enumerate(known)}
    rows = [row("one", ["c0"]), row("two", ["c1", "c9"])]
    experiment = Experiment(name="small", sections=[{"title": "A section"}], report=report, **SETTINGS)
    grid = RecordedGrid(experiment, [section(shown, ("test.accuracy",)) for shown in (rows[:1], rows)], [])
    return Results(grid, cells, pd.DataFrame(), pd.DataFrame(), {}, {}, {})


def test_hours_of_a_machine_cost_where_there_is_no_gpu_and_of_all_gpus_where_there_are():
    held = results(noted(), noted(gpu_seconds=1800.0, processes=2), price_per_hour=2.5, currency="EUR")
    found = footer(held)
    assert (found.cells, found.wall_minutes, found.gpu_minutes) == (2, 120, 60)
    assert (found.cost, found.currency, found.price_per_hour) == (5.0, "EUR", 2.5)
    assert footer(held, held.grid.sections[0]).cost == 2.5
    assert footer(held, held.grid.sections[0]).cells == 1
    assert footer(held, held.grid.sections[1]).cells == 2  # c9 is in no run


def test_without_a_price_there_is_no_cost_and_without_all_meters_no_energy():
    held = results(noted(energy_joules={"cpu": 7200.0, "gpu": 3600.0}), noted(energy_joules={"cpu": 3600.0}))
    assert footer(held).cost is None and footer(held).energy_watt_hours == {"cpu": 3.0}
    assert footer(held, held.grid.sections[0]).energy_watt_hours == {"cpu": 2.0, "gpu": 1.0}
    assert footer(results(noted(energy_joules={"cpu": 1.0}), noted())).energy_watt_hours == {}
    found = footer(results(None, None))  # of nothing known there is a footer too
    assert found.cells == 2 and found.hardware == [] and found.cost is None


def test_what_was_predicted_stands_beside_what_was_measured():
    ran = [
        noted(predicted=Predicted(seconds, 2**30), wall_seconds=wall, peak_memory_bytes=memory)
        for seconds, wall, memory in ((60.0, 90.0, 2**30), (120.0, 120.0, 2**31), (60.0, 54.0, 2**29))
    ]
    found = footer(results(*ran, noted()))
    assert found.predicted.en == (
        "Predicted: 4.0 minutes for 3 cells; measured: 4.4; measured by predicted of a cell: 1.00 (median), "
        "0.90 to 1.50; largest memory of a cell: predicted 1.00 GiB, measured 2.00 GiB"
    )
    assert "中位数 1.00，范围 0.90 至 1.50" in found.predicted.zh
    assert footer(results(noted(), noted(predicted=None))).predicted is None
    alone = footer(results(noted(predicted=Predicted(3600.0, 1)))).predicted
    assert "memory" not in alone.en


def test_how_the_cells_were_computed_is_named_where_it_changes_the_last_digits():
    fast, kept = {"kernels": "fast", "reuse": "none", "together": 4}, {"kernels": "fast", "reuse": "half"}
    plain = {"kernels": "plain", "reuse": "none", "together": 8}
    assert footer(results(noted(), noted(speed=plain))).ways is None
    assert footer(results(noted(speed=fast), noted(speed=fast))).ways.en == "Computed with fast kernels"
    mixed = footer(results(noted(speed=kept), noted(speed=plain), noted(speed=kept))).ways
    assert mixed.en == (
        "Computed with fast kernels and frozen blocks kept in half precision (2 cells); plain kernels (1 cells)"
    )
    assert mixed.zh == "计算方式：快速算子、冻结层输出以半精度保存（2 个单元）；普通算子（1 个单元）"
