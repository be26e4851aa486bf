"""How long a report of very many runs takes, from MLflow in SQLite, and how much memory.

    python -m benchmarks.report [RUNS]

The runs are made up (`synthetic.py`), the store is a real one. Each step is a process of its own: loading, that
with guards and export, and the whole report.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import synthetic


def loaded(name: str, uri: str) -> None:
    from reports import load

    load.load(name, uri)


def checked(name: str, uri: str) -> None:
    """Loaded, every guard tried, and the tidy table written."""
    from reports import export, guards, load

    results = load.load(name, uri)
    found = [guard for section in results.study.sections for guard in guards.guards(section, results)]
    assert not [*found, *guards.general(results)]
    export.write_csv(export.tidy(results), Path(os.environ["ABLATE_HOME"]) / "results.csv")


def built(name: str, uri: str) -> None:
    from reports import load
    from reports.build import build

    build(load.load(name, uri), Path(os.environ["ABLATE_HOME"]) / "report")


STEPS = {"load": loaded, "load, guards, export": checked, "report": built}


def timed(step: str, uri: str) -> None:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchmarks.report", step, uri], check=True)
    seconds = time.perf_counter() - began
    print(f"{step}: {seconds:.1f} s, the process as a whole", flush=True)


def peak() -> float:
    """Of this program alone, in MiB: what the kernel counts for a process begins with what its parent had."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    if len(sys.argv) == 3:
        STEPS[sys.argv[1]]("synthetic", sys.argv[2])
        print(f"{sys.argv[1]}: peak {peak():.0f} MiB", flush=True)
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as home:
        os.environ["ABLATE_HOME"] = home
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        began = time.perf_counter()
        uri = synthetic.write(Path(home), synthetic.experiment(count))
        size = (Path(home) / "mlflow.db").stat().st_size / 2**20
        print(f"{count} runs written in {time.perf_counter() - began:.1f} s; database {size:.0f} MiB", flush=True)
        for step in STEPS:
            timed(step, uri)


if __name__ == "__main__":
    main()
