"""`ablate` without the seconds of its imports: a process that has them forks for each call.

What runs is the installed script, in a process of its own, with the environment, folder and files that it is given.
Only what Prefect reads while it is imported is the same for all calls. How the command begins by itself is left to the
tests that start it in the ordinary way.
"""

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
ABLATE = str(Path(sys.executable).parent / "ablate")
MODULES = (  # they import all that takes long, also of what the engine `inline` imports at its first cell
    *("flows.ablation_grid", "flows.show", "tasks.sync", "mlflow.store.tracking.sqlalchemy_store"),
    *("contrastive.evaluation.evaluate_cell", "contrastive.training.train_cell", "openTSNE", "torch._dynamo"),
    *("transformers.models.auto.tokenization_auto", "transformers.models.bert.modeling_bert"),
)
QUIET = {"PREFECT_LOGGING_LEVEL": "CRITICAL"}  # as the command says to Prefect before it imports it


class Preloaded:
    def __init__(self, environment: dict[str, str]):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=CHECKOUT,
            env=environment | QUIET,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            asked = {"arguments": arguments, "environment": environment, "cwd": str(cwd), "files": [out.name, err.name]}
            print(json.dumps(asked), file=self.process.stdin, flush=True)
            code = int(self.process.stdout.readline())
            return subprocess.CompletedProcess([ABLATE, *arguments], code, out.read(), err.read())


@contextmanager
def preloaded(environment: dict[str, str]) -> Iterator[Preloaded]:
    started = Preloaded(environment)
    try:
        yield started
    finally:
        started.process.stdin.close()
        started.process.wait(60)


def serve() -> None:
    """Answer each call with the exit code of the child that it was for."""
    for name in MODULES:
        import_module(name)
    assert threading.active_count() == 1, "a process with threads must not fork"
    gc.freeze()  # else each child would copy all of it, to look for what nobody needs
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            become(json.loads(line))
            with ended():
                runpy.run_path(ABLATE, run_name="__main__")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


@contextmanager
def ended() -> Iterator[None]:
    """End as a process does at the end of its program, but take nothing apart: that alone costs a second."""
    code = 1
    try:
        yield
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(asked: dict[str, Any]) -> None:
    for number, path in enumerate((os.devnull, *asked["files"])):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv = [ABLATE, *asked["arguments"]]


if __name__ == "__main__":
    serve()
