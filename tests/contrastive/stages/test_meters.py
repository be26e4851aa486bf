"""Memory, and energy by counters that are made up: a folder like the kernel's, a library that answers like NVIDIA's."""

import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.stages import meters

LIBRARY = """
static unsigned long long asked = 0;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(index + 1L); return index > 2; }
int nvmlDeviceGetHandleByUUID(const char *name, void **device) { *device = (void *)(name[4] - '0' + 1L); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{ *millijoules = 9000000000ULL * (long)device + 500 * asked++; return 0; }
"""


@pytest.fixture
def zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two processors, and a part of one that counts in it already; this process has all of their time."""
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("1000000\n")
        (tmp_path / name / "max_energy_range_uj").write_text("50000000\n")
    monkeypatch.setattr(meters, "POWERCAP", tmp_path)
    monkeypatch.setattr(meters, "NVML", "no-such-library.so")
    own = iter([10.0, 14.0])
    monkeypatch.setattr(meters, "own_seconds", lambda: next(own))
    busy = iter([100.0, 104.0])
    monkeypatch.setattr(meters, "busy_seconds", lambda: next(busy))
    return [tmp_path / "intel-rapl:0" / "energy_uj", tmp_path / "intel-rapl:1" / "energy_uj"]


def test_what_processors_used_is_counted_also_when_a_counter_begins_again(zones: list[Path]):
    with meters.Meter() as meter:
        zones[0].write_text("3000000")
        meter.look()
        zones[0].write_text("500000")  # 47.5 J until the counter was full, and half a joule
        zones[1].write_text("1500000")
    assert meter.joules == {"cpu": pytest.approx(2 + 47.5 + 0.5)}


def test_a_cell_is_given_its_share_of_the_machine(zones: list[Path], monkeypatch: pytest.MonkeyPatch):
    busy = iter([100.0, 116.0])
    monkeypatch.setattr(meters, "busy_seconds", lambda: next(busy))
    with meters.Meter() as meter:
        zones[0].write_text("9000000")
    assert meter.joules == {"cpu": 2.0}


def test_it_is_looked_at_while_the_cell_runs(zones: list[Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meters, "EVERY", 0.01)
    seen, look = threading.Event(), meters.Meter.look

    def watched(meter: meters.Meter) -> None:
        look(meter)
        seen.set()

    monkeypatch.setattr(meters.Meter, "look", watched)
    with meters.Meter():
        assert seen.wait(20)


def test_counters_that_nobody_may_read_say_nothing(zones: list[Path]):
    zones[1].unlink()
    with meters.Meter() as meter:
        pass
    assert meter.joules == {}


def test_the_time_of_processors_is_that_of_this_machine():
    """All of them together have worked at least as long as this process."""
    assert meters.busy_seconds() >= meters.own_seconds() > 0


def test_the_gpus_that_a_cell_sees_are_counted(zones: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "nvml.c").write_text(LIBRARY)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    monkeypatch.setattr(meters, "NVML", str(library))
    monkeypatch.setattr(meters, "own_seconds", lambda: 1.0)
    monkeypatch.setattr(meters, "busy_seconds", lambda: 1.0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for visible, devices in ((None, 3), ("1", 1), ("0,2", 2), ("GPU-1,GPU-0", 2), ("", 0), ("7", 0)):
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with meters.Meter() as meter:
            pass
        # each answer has half a joule more: between two of one device, as many were asked as there are devices
        assert meter.joules.get("gpu") == (0.5 * devices * devices if devices else None), visible


def test_a_peak_is_that_of_the_work_and_of_nothing_before(monkeypatch: pytest.MonkeyPatch):
    """As on a machine without a GPU, which counts its own."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with meters.Peak() as large:
        np.ones(300 * 2**17).sum()
    with meters.Peak() as small:
        np.ones(100 * 2**17).sum()
    assert 150 * 2**20 < large.bytes - small.bytes < 250 * 2**20
    assert small.bytes > meters.resident("VmRSS") / 2
