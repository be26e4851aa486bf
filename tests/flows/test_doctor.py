"""What a machine lacks."""

import pytest
import torch

from flows import doctor


@pytest.fixture
def checks_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return lambda: {check.name: check for check in doctor.checks()}


def test_a_machine_with_everything_passes_and_nothing_is_written(checks_by_name, tmp_path):
    checks = checks_by_name()
    assert {name for name, check in checks.items() if check.ok is False} <= {"disk"}
    assert {"home", "torch", "GPU", "model and data"} < checks.keys()
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_comes_with_advice(checks_by_name, monkeypatch):
    monkeypatch.setattr(doctor, "MODEL", "package:no-such-model")
    checks = checks_by_name()
    wrong = {name for name, check in checks.items() if check.ok is False}
    assert wrong - {"disk"} == {"model and data"}
    assert "no-such-model is not installed" in checks["model and data"].detail
    assert all(check.advice for check in checks.values() if check.ok is not True)


def test_a_home_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    check = doctor.writable(tmp_path / "file" / "home")
    assert check.ok is False and "Not a directory" in check.detail and "ABLATE_HOME" in check.advice


@pytest.mark.parametrize(("free", "ok"), [(0.5, False), (5, None), (50, True)])
def test_disk(free, ok, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: type("Usage", (), {"free": free * doctor.GIB}))
    assert doctor.disk(tmp_path / "not" / "there").ok is ok


def test_an_installation_that_gives_verdicts_alone_lacks_nothing(checks_by_name, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    checks = checks_by_name()
    assert all(check.ok is not False for name, check in checks.items() if name != "disk")
    assert "pip install '.[train]' -c constraints.txt" in checks["training"].advice and "model and data" not in checks


def test_without_a_gpu_the_training_on_it_is_said_to_be_impossible(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (check,) = doctor.gpu_checks()
    assert check.ok is False and "no GPU" in check.detail


@pytest.mark.parametrize(
    ("changes", "ok", "words"),
    [
        ({}, True, "10 steps, 512 texts a second, 800 MiB at most; loss 0.700 at first, 0.500 at last"),
        ({"equal bits": True}, True, "the same bits as before"),
        ({"equal bits": False}, False, "weights differ"),
        ({"error": "RuntimeError: no kernel"}, False, "no kernel"),
    ],
)
def test_a_cell_trained_on_the_gpu_is_told_in_words(changes, ok, words):
    row = {"name": "bf16", "steps": 10, "texts/s": 512.2, "peak MiB": 800, "first loss": 0.7, "last loss": 0.5}
    check = doctor.trained_check(row | changes)
    assert check.ok is ok and words in check.detail
    assert check.ok is not False or "report it" in check.advice
