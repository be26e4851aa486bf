"""Nothing that stands in a file commands the terminal."""

import re
import subprocess
import sys

from flows.terminal import LONGEST_LINE, complain, say
from tests.flows.conftest import CHECKOUT

OUTLETS = re.compile(r"typer\.echo|\becho\(|Console\(|(?<![\w.])print\((?!json\.dumps|\*)")


def test_everything_goes_to_the_terminal_by_one_module():
    """But the bar of a run, which is a console of its own; what programs read is JSON."""
    found = [
        path.name
        for path in sorted((CHECKOUT / "flows").glob("*.py"))
        if OUTLETS.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["progress.py", "terminal.py"]


def test_what_is_said_keeps_its_lines_and_nothing_else_that_commands(capsys):
    say("one \x1b[31m\ntwo \r\u202e")
    assert capsys.readouterr().out == "one \\u001b[31m\ntwo \\u000d\\u202e\n"


def test_a_line_of_a_log_commands_nothing():
    program = (
        "import logging; from flows.terminal import guard_logs; guard_logs();"
        "logging.getLogger('any').warning('cell %s\\nfailed', '\\x1b[31m')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr == "cell \\u001b[31m\nfailed\n"


def test_an_error_keeps_its_lines_and_none_is_endless(capsys):
    complain("one\x07\n" + "x" * 5_000_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "ablate: one\\u0007" and len(second) < 2 * LONGEST_LINE
