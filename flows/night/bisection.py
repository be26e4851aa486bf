"""`ablate bisect`: which commit changed a metric of the nightly panel. Git searches, the panel answers.

Each commit is measured by its own code, from a worktree of its own, in a home of its own; Git's own bisection chooses
the commits, passes over those that cannot be measured, and knows of merges. The user's checkout is never touched.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from contrastive.errors import UserError
from contrastive.experiment import load
from contrastive.runs import store
from flows.night import panel as panels
from flows.nightly import read_settings
from flows.serve.supervise import CHECKOUT
from flows.terminal import say
from reports.nightly.evidence import Evidence, compare
from reports.nightly.measured import AT, FEWEST_SEEDS, Metric, step_of, whole
from reports.nightly.settings import TIMINGS, Limits, Nightly

STATED_BY_GIT = "refs/bisect/bad"


@dataclass(frozen=True)
class Measured:
    """A panel at one commit."""

    values: dict[str, np.ndarray]
    directions: dict[str, bool]
    texts: dict[str, int] = field(default_factory=dict)


def search(name: str, good: str, bad: str, panel: Path, settings: Path, engine: str) -> str:
    """What the first bad commit is, in words."""
    check_panel(name, panel)
    first, last = commit_of(good), commit_of(bad)
    if first == last or git("merge-base", "--is-ancestor", first, last, check=False).returncode:
        raise UserError(f"GOOD ({good}) has to be an ancestor of BAD ({bad}); are they the wrong way round?")
    limits, timed = read_settings(settings), name in TIMINGS
    place = store.home() / "bisect"
    with store.locked(store.home() / "locks" / "bisect"), emptied(place):
        ask = asker(place, panel, engine, timed)
        measured = ask(first)
        metric = metric_of(name, measured, limits)
        at_good, at_bad = rows(measured, metric, good), rows(ask(last), metric, bad)
        whole_change = compare(at_good[None], at_bad[None], step_of(measured.texts, metric))
        say(f"{short(first)} good, {short(last)} bad: {said(metric, whole_change)}")
        check(metric, whole_change, limits, good, bad)
        return named(name, bisected(place / "search", first, last, judged(ask, metric, at_good, whole_change)))


def check_panel(name: str, panel: Path) -> None:
    """What the experiment file tells already, before anything runs for minutes."""
    wanted = load.load(panel)
    known = panels.expected(wanted)
    if name not in known:
        raise UserError(unknown(name, known))
    if len(wanted.seeds) < FEWEST_SEEDS:
        raise UserError(f"{panel} has {len(wanted.seeds)} of the three seeds that a comparison needs; add seeds")


def unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1, 0.4)
    hint = f"; do you mean {near[0]}?" if near else ""
    return f"the panel measures no {name}{hint} It measures {', '.join(sorted(known))}"


def check(metric: Metric, change: Evidence, settings: Nightly, good: str, bad: str) -> None:
    """Without a difference between its ends, a search would name some commit or other."""
    if not change.p <= settings.false_alarms or abs(change.difference) <= metric.limit(metric.limits.practical):
        smallest = f"{metric.limits.practical:.0%}" if metric.is_timing else f"{metric.limits.practical:g}"
        raise UserError(
            f"{metric.name} does not differ between {good} and {bad}: {said(metric, change)}, smallest difference that "
            f"matters {smallest}; nothing to search for"
        )


def asker(place: Path, panel: Path, engine: str, timed: bool) -> Callable[[str], Measured]:
    def ask(commit: str) -> Measured:
        code = place / "code" / commit[:12]
        git("worktree", "add", "--quiet", "--detach", str(code), commit)
        try:
            found = panels.measure(panel, place / "homes" / commit[:12], engine, code, timed)
        finally:
            git("worktree", "remove", "--force", str(code), check=False)
            shutil.rmtree(place / "homes", ignore_errors=True)
        values = {name: np.array(row, dtype=np.float64) for name, row in found["values"].items()}
        return Measured(values, found["directions"], found["texts"])

    return ask


def judged(
    ask: Callable[[str], Measured], metric: Metric, at_good: np.ndarray, whole_change: Evidence
) -> Callable[[str], str]:
    """good, bad or skip of a commit: bad where it is nearer to BAD than to GOOD.

    Whether it differs from GOOD would be the wrong question: the two ends do differ, and a test at a strict level errs
    far more often towards good than halfway between the two.
    """

    def judge(commit: str) -> str:
        try:
            change = compare(at_good[None], rows(ask(commit), metric, commit)[None])
        except UserError as error:
            say(f"{short(commit)} skipped: {str(error).splitlines()[-1]}")
            return "skip"
        found = "bad" if change.difference / whole_change.difference > 0.5 else "good"
        say(f"{short(commit)} {found}: {said(metric, change)}")
        return found

    return judge


def bisected(state: Path, good: str, bad: str, judge: Callable[[str], str]) -> list[str]:
    """The first bad commit; several, where those between could not be measured. Git keeps its state in a worktree."""
    git("worktree", "add", "--quiet", "--detach", "--no-checkout", str(state), bad)
    try:
        git("bisect", "start", "--no-checkout", bad, good, at=state)
        while True:
            commit = git("rev-parse", "--verify", "--quiet", "BISECT_HEAD", at=state, check=False).stdout.strip()
            left = git("rev-list", "--bisect-vars", STATED_BY_GIT, "--not", *known(state, "good-"), at=state).stdout
            if "bisect_all=1\n" in left:
                return [git("rev-parse", STATED_BY_GIT, at=state).stdout.strip()]
            answer = git("bisect", judge(commit), at=state, check=False)
            if answer.returncode == 2:  # only commits that were skipped are left
                rest = git("rev-list", STATED_BY_GIT, "--not", *known(state, "good-"), at=state).stdout
                return rest.split()
    finally:
        git("bisect", "reset", at=state, check=False)
        git("worktree", "remove", "--force", str(state), check=False)


def known(state: Path, kind: str) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", f"refs/bisect/{kind}*", at=state).stdout.split()


@contextmanager
def emptied(place: Path) -> Iterator[None]:
    """A folder for worktrees and homes; what a search that was killed has left goes first."""
    try:
        shutil.rmtree(place, ignore_errors=True)
        git("worktree", "prune")
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)
        git("worktree", "prune", check=False)


def metric_of(name: str, measured: Measured, settings: Nightly) -> Metric:
    """A metric with its limits; a score that the settings do not name has those of the first that they do."""
    if name not in measured.values:
        raise UserError(unknown(name, measured.values))
    if name in TIMINGS:
        return Metric(name, TIMINGS[name], settings.speed)
    score = name.partition(AT)[0]
    limits: Limits = settings.quality.get(score) or next(iter(settings.quality.values()))
    return Metric(name, measured.directions[score], limits)


def rows(measured: Measured, metric: Metric, commit: str) -> np.ndarray:
    values = whole(measured.values, metric)
    if values is None:
        raise UserError(f"at {commit} the panel measured no {metric.name} of every seed")
    return metric.scaled(values)


def said(metric: Metric, change: Evidence) -> str:
    from reports.nightly.page import change as shown

    difference, width = shown(metric, change.difference), shown(metric, change.half_width, sign=False)
    tested = f"± {width}, p {change.p:.2g}" if width else "at all seeds, without any spread to test it by"
    return f"{metric.name} {difference} {tested}"


def named(name: str, commits: list[str]) -> str:
    lines = [git("log", "-1", "--format=%h %an %ad %s", "--date=short", commit).stdout.strip() for commit in commits]
    if len(lines) == 1:
        return f"{lines[0]}\nis the first commit with the changed {name}"
    return "\n".join(
        [f"the first commit with the changed {name} is one of these, which could not all be measured:", *lines]
    )


def short(commit: str) -> str:
    return git("log", "-1", "--format=%h %s", commit).stdout.strip()


def commit_of(name: str) -> str:
    found = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if found.returncode:
        raise UserError(f"{CHECKOUT} has no commit {name}")
    return found.stdout.strip()


def git(*arguments: str, at: Path = CHECKOUT, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["git", "-C", str(at), *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done
