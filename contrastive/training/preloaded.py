"""Imports of a training process, done once in the fork server so that forked processes start quickly.

Import this module only there, and first: libraries read these settings while they are imported. Nothing here may start
a thread or touch a device, since a forked process could use neither (a test checks this).
"""

import atexit
import gc
import importlib
import os
import signal
import sys
from types import TracebackType

for number in (signal.SIGINT, signal.SIGTERM):  # sent by terminals and Prefect to the whole process group
    signal.signal(number, signal.SIG_IGN)
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

for module in (
    "contrastive.evaluation.evaluate_cell",
    "contrastive.training.train_cell",
    "peft",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.deberta_v2.modeling_deberta_v2",
):
    importlib.import_module(module)


def report_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught error, except missing files and closed connections.

    A worker raises those if it is forked while its parent ends, because their shared files are gone.
    """
    if not isinstance(error, FileNotFoundError | EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = report_uncaught
atexit.register(os._exit, 0)  # skip the clean-up: callers wait for the last process of a run
gc.collect()
gc.freeze()  # otherwise a garbage collection writes to memory pages that all processes share
