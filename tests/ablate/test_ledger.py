"""`ablate judge --ledger`: error rates of the rule, and proposals whose runs are kept."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from typer.testing import CliRunner

from ablate.commands import RunFolder, read_lines
from ablate.ledger import AGAIN, LOOKS, Ledger, LedgerState, Spread
from benchmarks import ledger as nights
from flows.cli import app
from tests.ablate.test_judge import METRIC, SCRIPT
from tests.tiers import rest_is_full


def standard_error(share: float, count: int) -> float:
    return (share * (1 - share) / count) ** 0.5


NOISES = [name for name, noise in nights.NOISES.items() if noise.proposed == 1]


@pytest.mark.parametrize("noise", nights.NOISES)
def test_a_ledger_of_worthless_proposals_keeps_one_in_at_most_5_of_100_nights(noise):
    count = 300
    played = nights.nights(nights.our_ledger, noise, 0.0, count, seed=7)
    assert nights.share_false(played) <= 0.05 + 3 * standard_error(0.05, count)
    assert np.mean([night.runs for night in played]) / nights.PROPOSALS <= (2.5 if noise in NOISES else 3)
    assert abs(np.mean([night.off for night in played])) < 0.1  # the recorded baseline is not luck


@pytest.mark.parametrize("noise", NOISES)
def test_effects_of_3_sd_are_found(noise):
    played = nights.nights(nights.our_ledger, noise, 3.0, 60, seed=8)
    assert np.mean([night.found for night in played]) / nights.TRUE >= 0.9
    assert nights.share_false(played) <= 0.05 + 3 * standard_error(0.05, 60)


def test_the_levels_of_all_tests_together_are_at_most_alpha():
    """Each test spends its share, so that a ledger may go on for ever."""
    spent = 0.0
    for tests in range(1, 5000):
        spent += float(special.stdtr(1e9, -LedgerState(tests=tests).cutoff(1e9)))
    assert spent < 0.05 / 2


def test_without_any_spread_a_better_number_is_kept_and_the_same_is_dropped():
    state = LedgerState()
    state.begin(lambda *_: 0.9)
    for value, result, tests in ((0.9, "dropped", 0), (0.91, "kept", 1), (0.91, "dropped", 1)):
        level = state.reference[-1]
        assert state.judge(lambda who, _, v=value, i=level: v if who == nights.CANDIDATE else i)[0] == result
        assert state.tests == tests
        if result == "kept":
            state.begin(lambda *_: 0.91)


def test_pairs_that_vary_more_than_the_ledger_count_by_their_own_spread():
    state = LedgerState(spread=Spread(100.0, 100.0))
    assert state.decide([3.0, 3.2, 3.1]) == "kept" and state.decide([0.1, 9.0, 0.2]) is None


def test_the_spread_is_not_inflated_by_a_drift():
    rng, spread = np.random.default_rng(0), Spread()
    spread.add_series(rng.normal(size=400) + np.linspace(0, 20, 400))
    assert spread.deviation == pytest.approx(1, rel=0.1)
    spread.add_pairs(rng.normal(size=400) * 2**0.5)
    assert spread.deviation == pytest.approx(1, rel=0.1) and spread.freedom > 600


def spent_tests(tmp_path: Path) -> int:
    folder = RunFolder(tmp_path / "night", METRIC, runner=lambda *_: pytest.fail("something runs"))
    ledger = Ledger(folder, True)
    ledger.load()
    return ledger.state.tests


@pytest.fixture
def propose(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    script = f"{sys.executable} train.py --seed {{seed}}"

    def run(options: str | None, *arguments: str):
        candidate = [] if options is None else ["--candidate", f"{script} {options}"]
        return CliRunner().invoke(app, ["judge", "ledger", "night", *candidate, *arguments])

    run.script = script
    return run


def lines(tmp_path: Path, name: str) -> list[dict]:
    return read_lines(tmp_path / "night" / f"{name}.jsonl")


def test_a_night(propose, tmp_path):
    """Worthless proposals are dropped, a good one is kept and becomes the baseline, a broken one is named."""
    first = propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    assert first.exit_code == 1 and "dropped" in first.output, first.output
    assert len(lines(tmp_path, "runs")) == 8 + 1  # the baseline's, and one of the proposal
    kept = propose("--lift 0.4", "--json")
    proposal = json.loads(kept.output.splitlines()[-1])
    assert kept.exit_code == 0 and proposal["result"] == "kept" and proposal["pairs"] in LOOKS
    assert proposal["difference"] == pytest.approx(-0.4, abs=0.05)
    worse = propose("--lift 0.1")  # against the kept one, whose command the ledger knows
    assert worse.exit_code == 1 and lines(tmp_path, "ledger")[-1]["baseline"].endswith("--lift 0.4")
    broken = propose("; sleep 0.3; exit 4")
    assert broken.exit_code == 3 and "candidate failed twice" in broken.output
    assert lines(tmp_path, "ledger")[-1]["seconds"] >= 0.6  # both tries count
    runs = lines(tmp_path, "runs")
    assert len({(run["proposal"], run["side"], run["seed"]) for run in runs}) == len(runs)
    shown = propose(None)
    assert shown.exit_code == 0 and f"4 proposals, 1 kept, {len(runs)} runs" in shown.output
    assert len(lines(tmp_path, "runs")) == len(runs)


def test_an_interrupted_proposal_continues_with_the_runs_it_has(propose, tmp_path):
    propose("--lift 0.4", "--baseline", propose.script, "--metric", METRIC, "--lower")
    runs, (proposal,) = lines(tmp_path, "runs"), lines(tmp_path, "ledger")
    (tmp_path / "night" / "ledger.jsonl").unlink()  # as if it had been killed before its end
    kept = (tmp_path / "night" / "runs.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "night" / "runs.jsonl").write_text("".join(kept[:-3]), encoding="utf-8")
    before = len((tmp_path / "runs.txt").read_text(encoding="utf-8").splitlines())
    again = propose("--lift 0.4", "--baseline", propose.script)
    assert again.exit_code == 0 and len((tmp_path / "runs.txt").read_text(encoding="utf-8").splitlines()) == before + 3
    assert [run | {"seconds": 0} for run in lines(tmp_path, "runs")] == [run | {"seconds": 0} for run in runs]
    assert lines(tmp_path, "ledger")[0]["result"] == proposal["result"] == "kept"


REPEATED = [("--lift -0.3", 1), ("; exit 4", 3), ("--lift 0.4", 0)]


@pytest.mark.parametrize(("options", "code"), rest_is_full(REPEATED, REPEATED[:1]))
def test_the_same_call_again_repeats_its_verdict_until_the_code_changes(propose, tmp_path, options, code):
    """As of a call that was killed after its end, which nobody has seen."""
    first = propose(options, "--baseline", propose.script, "--metric", METRIC, "--lower", "--json")
    tried = lines(tmp_path, "runs")
    again = propose(options, "--baseline", propose.script, "--json")
    assert again.exit_code == first.exit_code == code and "proposal 1 again" in again.output
    assert json.loads(again.stdout.splitlines()[-1]) == lines(tmp_path, "ledger")[0]
    assert lines(tmp_path, "runs") == tried and len(lines(tmp_path, "ledger")) == 1
    (tmp_path / "train.py").write_text(SCRIPT + "\n# edited", encoding="utf-8")
    propose(options, "--baseline", propose.script)
    assert len(lines(tmp_path, "ledger")) == 2


@pytest.mark.full
def test_an_interrupted_proposal_is_not_mixed_with_another(propose, tmp_path):
    propose("--lift 0.4", "--baseline", propose.script, "--metric", METRIC, "--lower")
    (tmp_path / "night" / "ledger.jsonl").unlink()
    other = propose("--lift -0.3", "--baseline", propose.script)
    assert other.exit_code == 1, other.output
    first, second = lines(tmp_path, "ledger")
    assert propose(None).exit_code == 0 and spent_tests(tmp_path) == 1  # the interrupted one has spent its level
    assert first["result"] == "failed" and first["why"].startswith("interrupted") and "0.4" in first["candidate"]
    assert second["result"] == "dropped" and second["runs"] == 1
    assert "1 kept" not in propose(None).output  # and the folder can be read again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--baseline", "x {seed}"], "a new ledger needs --metric"),
        (["--metric", METRIC, "--lower"], "a new ledger needs --baseline"),
        (["--baseline", "x", "--metric", METRIC, "--lower"], "--baseline `x` has no"),
    ],
)
def test_mistakes(propose, arguments, message):
    done = propose("--lift 0.1", *arguments)
    assert message in str(done.exception)
    settings = ("--metric", METRIC, "--lower", "--baseline", propose.script)
    assert propose("--lift -0.3", *settings).exit_code == 1  # the mistake was not written down


def test_a_ledger_keeps_its_metric(propose):
    propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    assert "this ledger began with" in str(propose("--lift 0.3", "--metric", "acc: (.*)").exception)


@pytest.mark.full
def test_another_baseline_is_measured_with_fresh_runs(propose, tmp_path):
    propose("--lift 0.1", "--baseline", f"{propose.script} --lift 0.6", "--metric", METRIC, "--lower")
    assert propose("--lift 0.4", "--baseline", propose.script).exit_code == 0
    measured = [run for run in lines(tmp_path, "runs") if run["proposal"] == -2]
    assert len(measured) == 8 and all(run["command"] == propose.script for run in measured)
    assert propose("--lift 0.1").exit_code == 1 and len({run["proposal"] for run in lines(tmp_path, "runs")}) == 6


def test_an_baseline_whose_code_changed_is_measured_anew_and_is_no_proposal_of_its_own(propose, tmp_path):
    propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    (tmp_path / "train.py").write_text(SCRIPT + "\n# edited", encoding="utf-8")
    again = propose("--lift -0.4")
    assert again.exit_code == 1 and "the baseline's code has changed" in again.output
    assert [run["proposal"] for run in lines(tmp_path, "runs")] == [-1] * 8 + [1] + [-2] * 8 + [2]
    assert "is the baseline's own command" in str(propose("", "--candidate", propose.script).exception)


def test_a_failure_in_a_pair_spends_the_level_and_its_seeds(propose, tmp_path):
    propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    assert propose("--lift 0.4; test {seed} -lt 10").exit_code == 3 and spent_tests(tmp_path) == 1
    assert propose("--lift -0.3").exit_code == 1
    runs = lines(tmp_path, "runs")
    assert [(run["side"], run["seed"]) for run in runs[9:]] == [("candidate", 9), ("baseline", 10), ("candidate", 11)]


@pytest.mark.full
def test_of_several_interrupted_baselines_each_keeps_its_runs(propose, tmp_path):
    """X is measured, then Y, then X is judged: what is remembered of X are its own runs."""
    settings = ("--metric", METRIC, "--lower")
    for lift in ("0", "9"):  # each call ends in the candidate's first run, as by Ctrl-C
        with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "_record", interrupted)
            patch.setattr("ablate.ledger.LedgerState.judge", interrupted)
            propose("--lift 0.1", "--baseline", f"{propose.script} --lift {lift}", *settings)
            raise KeyboardInterrupt
    count = len(lines(tmp_path, "runs"))
    assert count == 16 and propose("--lift 0.4", "--baseline", f"{propose.script} --lift 0").exit_code == 0
    assert propose("--lift 0.8").exit_code == 0 and lines(tmp_path, "ledger")[-1]["difference"] < -0.3


def interrupted(*_arguments, **_more):
    raise KeyboardInterrupt


def test_a_failure_in_a_first_run_spends_nothing_even_when_the_baseline_runs_again(propose, tmp_path):
    propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    for code in range(4, 9):
        assert propose(f"; exit {code}").exit_code == 3
    assert spent_tests(tmp_path) == 0
    for lift in (-0.3, -0.4, -0.5):
        assert propose(f"--lift {lift}").exit_code == 1
    runs = lines(tmp_path, "runs")
    assert len([run for run in runs if run["side"] == AGAIN]) == 1
    assert len({run["seed"] for run in runs}) == len(runs)  # all seeds are fresh


def test_a_proposal_that_prints_percent_beside_a_baseline_without_has_failed(propose, tmp_path):
    propose("--lift -0.3", "--baseline", propose.script, "--metric", METRIC, "--lower")
    percent = propose("> /dev/null; echo loss: 3 %")
    assert percent.exit_code == 3 and "candidate, seed 9 printed 3 %, and baseline, seed 0 printed " in percent.output
    assert propose("--lift -0.3").exit_code == 1 and lines(tmp_path, "ledger")[1]["result"] == "failed"
