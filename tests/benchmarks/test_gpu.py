"""The benchmark for a GPU runs here too, in a tiny size, and counts the FLOPs of the model it says."""

import re
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from benchmarks.turns import take_turns


def test_it_prints_a_table_of_all_ways(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--small", "--peak-tflops", "0.1"])
    gpu.main(gpu.arguments())
    rows = {
        cells[1].strip(): cells for line in capsys.readouterr().out.splitlines() if len(cells := line.split("|")) == 10
    }
    for way in (*gpu.WAYS, *gpu.TOKEN_WAYS):
        assert re.fullmatch(r"[\d.,]+", rows[way][3].strip()) and re.fullmatch(r"[\d,]+", rows[way][6].strip())
    assert rows["plain"][7].strip() == "1.00 (1.00–1.00)" and rows["ours"][5].strip().endswith("%")


def test_a_measurement_is_a_process_of_its_own():
    (run,) = take_turns("benchmarks.gpu", ["ours"], [2, "cpu", True], 1)["ours"]
    assert run.keys() == {"seconds", "tokens", "padded", "mib"} and run["tokens"] == run["padded"] == 120


def test_the_peak_is_that_of_the_very_device():
    names = (
        "NVIDIA L40",
        "NVIDIA L40S",
        "NVIDIA L4",
        "NVIDIA H100 NVL",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA A100-SXM4-40GB",
    )
    assert [gpu.known_peak(name) for name in names] == [181, 362, 121, 835, 989, 312]
    assert gpu.known_peak("NVIDIA A1000") is None


def test_what_did_not_fit_is_said():
    row = gpu.row("ours", 64, [{}], [{}], small=False, tflops=None)
    assert row.count("|") == 9 and "out of memory" in row


def test_the_formula_counts_what_a_step_multiplies():
    model, (sizes, length) = gpu.encoder(small=True), gpu.sizes(small=True)
    ids = torch.randint(5, 500, (2, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum().backward()
    width = sizes["hidden_size"]
    table = 3 * 2 * (2 * 512 * width**2)  # both projections of the table of positions, once a step
    wider = 3 * 2 * 2 * (512 - length) * width * ids.numel()  # the plain way multiplies with all 512 rows
    assert counter.get_total_flops() == pytest.approx(gpu.flops(ids.numel(), small=True) + table + wider, rel=1e-3)
