"""What this project does on a GPU: whether it works, how fast it is, and how many cells fit on one GPU.

    python -m benchmarks.gpu [PART ...] [--minutes 8] [--quick] [--into FOLDER]

Each part is a process of its own with a limit of its own. FOLDER/gpu.md and gpu.json are written after each line of a
part, so that a stop loses nothing. Parts need no Prefect and no MLflow; each says which packages it lacks. `--quick`
runs all parts in small sizes, also without a GPU.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_parts import PARTS, Row
from benchmarks.results import version_of

ROOT = Path(__file__).parents[1]
# Keeps libraries from looking for a network, and processes from taking each other's cores.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}  # fmt: skip
SHOWN = ("torch", "transformers", "accelerate", "peft", "deepspeed", "triton")


def main() -> None:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    command.add_argument("--minutes", type=float, default=8, help="for all parts together (default: 8)")
    command.add_argument("--quick", action="store_true", help="small sizes, on a CPU too")
    command.add_argument("--into", type=Path, default=Path(), metavar="FOLDER", help="for gpu.md and gpu.json")
    options = command.parse_args()
    if strange := [name for name in options.parts if name not in PARTS]:
        command.error(f"no part {', '.join(strange)}: choose among {', '.join(PARTS)}")
    if not options.quick and not has_gpu():
        raise SystemExit("benchmarks.gpu: no GPU here; --quick shows on a CPU that all parts run")
    options.into.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that no part stays behind
    measure(options.parts or list(PARTS), 60 * options.minutes, options.quick, options.into)


def measure(names: list[str], seconds: float, quick: bool, into: Path) -> None:
    """Run the parts in order, each within its share of the seconds that are left; write after each row."""
    shares = {name: PARTS[name].share for name in names}
    tables: dict[str, list[Row]] = {"machine": machine()}
    end = time.monotonic() + seconds
    print(table("machine", tables["machine"]), flush=True)
    for number, name in enumerate(names):
        left = end - time.monotonic()
        limit = max(1.0, left * shares[name] / sum(shares[later] for later in names[number:]))
        began, rows = time.monotonic(), tables.setdefault(name, [])
        for row in rows_of(name, quick, limit):
            rows.append(row)
            write(tables, into)
        rows.append({"name": "the whole part", "seconds": round(time.monotonic() - began, 1)})
        write(tables, into)
        print(table(name, rows), flush=True)


def rows_of(name: str, quick: bool, limit: float) -> Iterator[Row]:
    """Yield the rows that a part prints; if it fails or meets its limit, end with a row that says so."""
    program = [sys.executable, "-m", "benchmarks.gpu_parts", name, *(["--quick"] if quick else [])]
    process = subprocess.Popen(
        program, cwd=ROOT, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    errors = list[str]()
    reader = threading.Thread(target=lambda stream: errors.extend(stream), args=(process.stderr,), daemon=True)
    reader.start()
    timer = threading.Timer(limit, kill, (process,))
    timer.daemon = True
    timer.start()
    try:
        for line in process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a library may print something
                yield json.loads(line)
        code = process.wait()
    finally:
        in_time = timer.is_alive()
        timer.cancel()
        kill(process)  # and what it left behind
        process.wait()
        reader.join(timeout=5)
        process.stdout.close()
        process.stderr.close()
    if not in_time:
        yield {"name": "stopped", "error": f"not done within its {limit:.0f} s"}
    elif code != 0:
        yield {"name": "stopped", "error": f"ended with {code}: {''.join(errors)[-1500:].strip()}"}


def kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def machine() -> list[Row]:
    """Describe the machine, the versions of what matters, and the packages of pyproject.toml that are not here."""
    import torch

    rows: list[Row] = [{"name": "GPU", "is": torch.cuda.get_device_name() if torch.cuda.is_available() else "none"}]
    rows.append({"name": "Python", "is": f"{platform.python_version()}, {len(os.sched_getaffinity(0))} cores"})
    rows += [{"name": name, "is": installed} for name in SHOWN if (installed := version_of(name))]
    return [*rows, {"name": "not installed", "is": ", ".join(lacking()) or "nothing"}]


def lacking() -> list[str]:
    """Return the packages that pyproject.toml asks for to train and that this Python lacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = (*project["dependencies"], *project["optional-dependencies"]["train"])
    return [name for line in needed if not version_of(name := re.split(r"[^\w.-]", line)[0])]


def write(tables: dict[str, list[Row]], into: Path) -> None:
    text = "".join(table(name, rows) + "\n" for name, rows in tables.items())
    head = f"# On a GPU\n\n`python -m benchmarks.gpu`, {time.strftime('%Y-%m-%d')}\n\n"
    for name, content in {"gpu.md": head + text, "gpu.json": json.dumps(tables, indent=1)}.items():
        (into / f"{name}.new").write_text(content, encoding="utf-8")
        (into / f"{name}.new").replace(into / name)  # a stop never leaves half a file


def table(name: str, rows: list[Row]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    title = f"## {name}: {PARTS[name].title}" if name in PARTS else f"## {name}"
    lines = [[shown(row.get(column, "")) for column in columns] for row in rows]
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([f"{title}\n", *head, *(f"| {' | '.join(cells)} |" for cells in lines), ""])


def shown(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
