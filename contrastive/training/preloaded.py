"""Everything that a training imports, for a process that forks others. Imported there alone, and before all else: it
decides what libraries read once, while they are imported, in all of them.

Nothing here may start a thread or touch a device: a forked process could use neither. A test looks.
"""

import atexit
import gc
import importlib
import os
import signal
import sys
from types import TracebackType

for number in (signal.SIGINT, signal.SIGTERM):  # a terminal and Prefect send them to the whole group
    signal.signal(number, signal.SIG_IGN)
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

for module in (
    "contrastive.evaluation.evaluate_cell",
    "contrastive.training.turns",
    "peft",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.deberta_v2.modeling_deberta_v2",
):
    importlib.import_module(module)


def report_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Nothing of a worker that was born after its flow had ended: what the two shared is gone."""
    if not isinstance(error, FileNotFoundError | EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = report_uncaught
atexit.register(os._exit, 0)  # whoever waits for the last of a run's processes waits for no tidying up
gc.collect()
gc.freeze()  # else a collection writes to memory that all share
