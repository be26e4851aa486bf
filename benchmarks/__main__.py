"""The speed benchmarks, one after another, each beside its peers: `make bench`, which writes benchmarks/results.md.

    python -m benchmarks [makespan throughput token_views] [--quick] [--into FILE]

What a GPU does is measured by `python -m benchmarks.gpu`. Each is also a command of its own, with more choices:
`python -m benchmarks.makespan --help`.
"""

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks import results

TITLES = {"makespan": "Makespan of a grid", "throughput": "Training throughput", "token_views": "A step on token views"}
NEEDED = ("datasets", "hydra", "hydra_plugins", "ray", "sentence_transformers")


def main() -> None:
    command = options()
    asked = command.parse_args()
    if strange := [name for name in asked.names if name not in TITLES]:
        command.error(f"no benchmark {', '.join(strange)}: choose among {', '.join(TITLES)}")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SystemExit(f"benchmarks: no {', '.join(missing)}: the peers are an extra, pip install -e '.[bench]'")
    for name in asked.names or TITLES:
        results.write([run(name, asked.quick)], asked.into)
        print(f"{name}: see {asked.into}", flush=True)


def run(name: str, quick: bool) -> results.Section:
    given = ["-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    done = subprocess.run([sys.executable, *given], stdout=subprocess.PIPE, text=True, check=True)
    return results.Section(TITLES[name], time.strftime("%Y-%m-%d"), " ".join(["python", *given]), done.stdout)


def options() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TITLES))
    command.add_argument("--quick", action="store_true", help="sizes of seconds, to see that everything runs")
    command.add_argument("--into", type=Path, default=results.FILE)
    return command


if __name__ == "__main__":
    main()
