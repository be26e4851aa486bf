"""`ablate check`: run what a file registers, and say which parts of the contract hold."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path

from contrastive.config import registry
from contrastive.config.cell import add_plugin
from contrastive.contract import Broken, Checks, losses, vectors, views
from contrastive.runs import plugins
from flows.terminal import say, tell

CHECKS: dict[str, Callable[[str, str], Checks]] = {
    "LOSSES": losses.checks_of_file,
    "VIEWS": views.checks_of_file,
    "METRICS": vectors.metric_checks,
    "POOLINGS": vectors.pooling_checks,
    "ENCODERS": vectors.encoder_checks,
}


def check_file(file: Path) -> int:
    """Print a line for each check of each entry; return 1 if any has failed, else 0."""
    tell(f"importing {file}")
    name = plugins.keep(file)
    copy, module = plugins.path_of(name), add_plugin(name)
    plugins.load([name])
    failed = False
    for table, entry in registry.plugin_entries():
        if entry.module == module:
            failed |= check_entry(entry.name, CHECKS[table](entry.name, name), copy)
    return int(failed)


def check_entry(name: str, checks: Checks, copy: Path) -> bool:
    """Print what holds and what does not; stop if the first check, which the others need, fails."""
    if not checks:
        say(f"note {name}: nothing of it can be checked here, since it needs a tokenizer, translators or images")
    failed = False
    for number, (title, check) in enumerate(checks.items()):
        error = error_of(check, copy)
        say(f"FAIL {name}: {title}\n     → {error}" if error else f"ok   {name}: {title}")
        failed |= bool(error)
        if error and number == 0 and len(checks) > 1:
            say("     The other checks need this one, and wait for it.")
            break
    return failed


def error_of(check: Callable[[], None], copy: Path) -> str:
    """Return why a check fails, with the last line of the user's file that was reached; empty if it holds."""
    try:
        check()
    except Broken as error:
        return str(error)
    except Exception as error:
        whole = "".join(traceback.format_exception(error)).strip()  # of another process, too
        places = re.findall(rf'File "{re.escape(str(copy))}", line (\d+), in (\S+)', whole)
        place = ", line {}, in {}".format(*places[-1]) if places else ""
        return f"{copy.name}{place}: {whole.splitlines()[-1]}"
    return ""
