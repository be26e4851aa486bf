"""`ablate judge --gate`: the steps of the workflow in docs/guide/gate.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.testing import CliRunner

from ablate.duel import Duel, Outcome, fenced
from flows.cli import app
from tests.tiers import rest_is_full

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "gate.md"
SCRIPT = """
import random, sys
seed = int(sys.argv[2])
print(f"loss: {1 + random.Random(seed).gauss(0, .05) + random.Random(f'{seed} NAME').gauss(0, .01) + LIFT:.6f}")
"""


def steps(base: str) -> list[str]:
    """Return the shell commands of the workflow, but for those that install and comment."""
    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [step["run"] for step in yaml.safe_load(block)["jobs"]["gate"]["steps"] if "run" in step]
    assert commands[0].startswith("pip install") and commands[-1].startswith("gh pr comment")
    return [command.replace("${{ github.event.pull_request.base.sha }}", base) for command in commands[1:-1]]


def git(*words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True).stdout.strip()


CHANGES: list[tuple[dict[str, str], int, str]] = [
    ({"LIFT": ".1", "NAME": "other"}, 1, "Worse"),
    ({"LIFT": "-.1", "NAME": "other"}, 0, "Better"),
    ({"NAME": "other"}, 0, "Undecided"),  # other random numbers
    ({"LIFT": ".1"}, 0, "Undecided"),  # the same numbers, shifted
    ({"print": "brint"}, 3, "Not judged"),
]


@pytest.mark.parametrize(("change", "code", "word"), rest_is_full(CHANGES, CHANGES[:1]))
def test_the_workflow_fails_only_what_is_worse(tmp_path, monkeypatch, change, code, word):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    git("init", "-q")
    usual, text = {"LIFT": "0", "NAME": ""}, SCRIPT
    for old, new in (usual | change).items():
        text = text.replace(old, new)
    for name, content in (("base", SCRIPT.replace("LIFT", "0").replace("NAME", "")), ("change", text)):
        Path("train.py").write_text(content, encoding="utf-8")
        git("add", "-A")
        git("commit", "-qm", name)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    for command in steps(git("rev-parse", "HEAD^")):
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
    comment = Path("verdict.md").read_text(encoding="utf-8")
    assert (done.returncode, comment[2 : 2 + len(word)]) == (code, word), done.stderr + comment
    assert (("pairs would decide" in comment) or ("exactly the same size" in comment)) == (word == "Undecided")


HOSTILE = "<img src=http://x> @name ![i](http://x) [l](http://x) https://x.y |"
ESCAPES = ["", "`", "\n```\n\n", "\n\n~~~~\n", "``` `", "\n`````\n# @name\n\n<b>", "\r\n\r\n", "\x1b\u202e\udcff"]


def tokens(comment: str) -> list[Token]:
    """Return all tokens of a comment, those within its lines too."""
    parsed = MarkdownIt("commonmark").enable("table").parse(comment)
    return [part for token in parsed for part in (token, *(token.children or ()))]


def assert_only_shown(comment: str) -> None:
    """Assert that texts of others are in code only: no tag, link or image, and no mention or address elsewhere."""
    comment.encode()
    parts = tokens(comment)
    assert not {"html_inline", "html_block", "link_open", "image", "heading_open"} & {token.type for token in parts}
    plain = " ".join(token.content for token in parts if token.type == "text")
    assert not re.search("@|http|<", plain), plain
    assert any("@name" in token.content for token in parts if token.type in ("fence", "code_inline"))


@pytest.mark.parametrize("escape", ESCAPES)
def test_commands_and_metrics_are_only_shown_in_a_comment(escape):
    text = f"echo {escape} {HOSTILE} {escape} {{seed}}"
    outcome = Outcome("worse", 4, 8, -0.1, 0.05, 0.01, 1.0, 0.9, 8.0)
    assert_only_shown(outcome.as_markdown(Duel(text, text, f"({text})")))
    shown = [token.content for token in tokens(fenced(text)) if token.type == "fence"]
    assert len(shown) == len(tokens(fenced(text))) == 1


@pytest.mark.parametrize("metric", ["los: (.*)", "`(.*)", "(.*)\n\n<b>@name"])
def test_output_of_a_run_that_failed_is_only_shown_in_a_comment(metric, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for candidate in (f"echo '{HOSTILE}'; exit {{seed}}1", f"printf '%s\\n' '```' '{HOSTILE}' '```' {{seed}}"):
        words = ["--baseline", candidate, "--candidate", candidate, "--metric", metric, "--folder", "f"]
        done = CliRunner().invoke(app, ["judge", *words, "--gate", "verdict.md"])
        comment = (tmp_path / "verdict.md").read_text(encoding="utf-8")
        assert done.exit_code == 3 and comment.startswith("**Not judged**"), done.output
        assert_only_shown(comment)
        (tmp_path / "f" / "commands.json").unlink()
