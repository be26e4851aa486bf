"""What this machine needs for a GFLOP, a call and a cell of an encoder: measured in seconds, kept for plans."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contrastive.cells.identity import evaluation_key
from contrastive.cells.projections import calibration_settings
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.config.speed import Speed
from contrastive.errors import UserError
from contrastive.planning import cost
from contrastive.runs import cache, fingerprint, provenance, store

KINDS = 3  # of tuned parts that are timed, those that train least and most among them


class Calibration(NamedTuple):
    made: str
    rates: cost.Work  # seconds a GFLOP, a million numbers, a call, a cell
    boot: float  # seconds until a process has imported everything
    base: int  # bytes that it has then
    batch: float  # times the bytes that the formula has for a batch
    evaluation: dict[str, float]  # key of an evaluation → seconds a text


def calibration_file(cell: Cell, device: str) -> Path:
    """Where the calibration of cells like this one is kept, on hardware like this."""
    machine = {"processor": provenance.processor(), "cores": os.cpu_count(), "device": device}
    key = fingerprint.key("calibration", machine=machine, cell=calibration_settings(cell))
    return cache.place_of("calibration", f"{key}.json")


def read_calibration(path: Path) -> Calibration | None:
    """None where there is none, or an unreadable one."""
    try:
        document = store.read_json(path)
        rates, seconds = map(float, document["rates"]), document["evaluation"].items()
        return Calibration(
            str(document["made"]),
            cost.Work(*rates),
            float(document["boot"]),
            int(document["base"]),
            float(document["batch"]),
            {key: float(value) for key, value in seconds},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def calibrate(
    cells: Iterable[Cell], evaluation: Evaluation, environments: Sequence[dict[str, str]], speed: Speed, device: str
) -> list[Path]:
    """Time a few steps of each encoder among the cells, in a process an environment, all at a time."""
    alike: dict[Path, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(calibration_file(cell, device), []).append(cell)
    for path, those in alike.items():
        before = read_calibration(path)
        answers = time_probes(probes(those), evaluation, speed, environments[: len(those)])
        key, evaluations = evaluation_key(evaluation), [answer["evaluation"] for answer in answers]
        seconds = float(np.median([each["seconds"] / each["texts"] for each in evaluations]))
        store.write_json(
            path, fit_rates(answers) | {"evaluation": (before.evaluation if before else {}) | {key: seconds}}
        )
    return list(alike)


def probes(cells: Sequence[Cell]) -> list[Cell]:
    """Small cells that stand for these: a whole batch and a quarter of one, with the least and the most that trains."""
    kinds = {cell.encoder.tune: cell for cell in reversed(cells)}
    by_size = sorted(kinds.values(), key=cost.trained_parameters)
    positions = sorted({round(i * (len(by_size) - 1) / (KINDS - 1)) for i in range(KINDS)})
    return [smaller(by_size[position], share) for position in positions for share in (4, 1)]


def smaller(cell: Cell, share: int) -> Cell:
    """One process's part of a step, or of this share of one."""
    texts = max(2, cell.training.batch_size // cell.training.processes // share)
    how = {"batch_size": texts, "processes": 1, "sharding": None, "epochs": 1, "accumulate": 1, "token_budget": None}
    return cell.model_copy(update={"training": cell.training.model_copy(update=how)})


def time_probes(
    cells: Sequence[Cell], evaluation: Evaluation, speed: Speed, environments: Sequence[dict[str, str]]
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        asked = {"cells": [cell.model_dump(mode="json") for cell in cells], "asked": time.time()}
        how = {"evaluation": evaluation.model_dump(mode="json"), "speed": speed.model_dump(mode="json")}
        store.write_json(folder / "request.json", asked | how)
        command = [sys.executable, "-m", "contrastive.planning.probe", str(folder / "request.json")]
        started = [
            subprocess.Popen(
                [*command, str(folder / f"{number}.json")],
                env=os.environ | environment | {"TOKENIZERS_PARALLELISM": "false"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number, environment in enumerate(environments)
        ]
        try:
            for process in started:
                assert process.stdout is not None
                process.stdout.readline()
            said = together(started)
        finally:
            for process in started:
                process.kill()
                process.wait()
        for number, text in enumerate(said):
            if not (folder / f"{number}.json").exists():
                raise UserError(f"the calibration failed: {(text.strip().splitlines() or ['a process died'])[-1]}")
        return [store.read_json(folder / f"{number}.json") for number in range(len(started))]


def together(started: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Begin all, and wait for each: what it said of an error."""
    for process in started:
        assert process.stdin is not None
        try:
            process.stdin.write("\n")
            process.stdin.flush()
        except BrokenPipeError:  # it died while it imported, and says why below
            pass
    return [process.communicate()[1] for process in started]


def fit_rates(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The seconds that explain best what was seen, each relative to itself; none is below 0."""
    from scipy.optimize import nnls

    seen = [line for answer in answers for line in answer["seen"]]
    amounts, seconds = np.array([work for work, _ in seen]), np.array([took for _, took in seen])
    moved, calls = amounts[:, 2], amounts[:, 3]
    if np.ptp(moved[calls > 0] / calls[calls > 0]) < 1e-9:  # of one kind of cells the two cannot be told apart
        moved[:] = 0.0
    scale = np.where(amounts.max(0) > 0, amounts.max(0), 1.0)
    rates = nnls(amounts / scale / seconds[:, None], np.ones(len(seen)))[0] / scale
    rates[-1] = np.median([answer["cell"] for answer in answers])
    boot, base = (float(np.median([answer[name] for answer in answers])) for name in ("boot", "base"))
    return {
        "made": date.today().isoformat(),
        "rates": rates.tolist(),
        "boot": boot,
        "base": int(base),
        "batch": batch_factor(answers, base),
    }


def batch_factor(answers: Sequence[dict[str, Any]], base: float) -> float:
    """How many times the formula's bytes of a batch the largest probe took."""
    probed = [each for answer in answers for each in answer["memory"]]
    largest = max(probed, key=lambda each: each["peak"])
    over = largest["peak"] - base - (largest["shared"] + largest["own"] - largest["batch"])
    return float(np.clip(over / max(1, largest["batch"]), 0.25, 8.0))
