"""`ablate bisect`: which commit changed a metric of the nightly panel. Git searches, the panel answers.

Each commit is measured by its own code, in a home of its own. All are checked out in one worktree, which Git bisects:
it chooses the commits, passes over those that cannot be measured, and knows of merges. The user's checkout is never
touched. `git bisect run` would need the judge as a program of its own, which Ctrl-C does not reach.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from contrastive.errors import UserError
from contrastive.experiment import load
from contrastive.runs import store
from flows.night import panel as panels
from flows.night.verdict_settings import read_verdict_settings
from flows.serve.supervise import CHECKOUT
from flows.terminal import say
from reports.nightly.evidence import Evidence, compare_nights
from reports.nightly.measured import AT, FEWEST_SEEDS, Metric, Night, complete_values, step_of
from reports.nightly.settings import TIMINGS, Limits, Nightly

BAD = "refs/bisect/bad"


def search(name: str, good: str, bad: str, panel: Path, settings: Path, engine: str) -> str:
    """What the first bad commit is, in words."""
    check_panel(name, panel)
    first, last = commit_of(good), commit_of(bad)
    if first == last or git("merge-base", "--is-ancestor", first, last, check=False).returncode:
        raise UserError(f"GOOD ({good}) has to be an ancestor of BAD ({bad}); are they the wrong way round?")
    limits = read_verdict_settings(settings)
    with store.locked(store.home() / "locks" / "bisect"), worktree(store.home() / "bisect", last) as code:

        def measure(commit: str) -> Night:
            return measured_at(commit, code, panel, engine, timed=name in TIMINGS)

        at_first = measure(first)
        metric = metric_of(name, at_first, limits)
        at_good, at_bad = rows(at_first, metric, good), rows(measure(last), metric, bad)
        whole_change = compare_nights(at_good[None], at_bad[None], step_of(at_first.document["texts"], metric))
        say(f"{short_commit(first)} good, {short_commit(last)} bad: {change_in_words(metric, whole_change)}")
        check_ends_differ(metric, whole_change, limits, good, bad)

        def judge(commit: str) -> str:
            return judged(commit, lambda: rows(measure(commit), metric, commit), metric, at_good, whole_change)

        return resolved_commit(name, first_bad(code, first, last, judge))


def check_panel(name: str, panel: Path) -> None:
    """What the experiment file tells already, before anything runs for minutes."""
    resolved = load.load_experiment(panel)
    names = panels.expected(resolved)
    if name not in names:
        raise UserError(unknown_metric(name, names))
    seeds = resolved.experiment.seeds
    if len(seeds) < FEWEST_SEEDS:
        raise UserError(f"{panel} has {len(seeds)} of the three seeds that a comparison needs; add seeds")


def unknown_metric(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, 1, 0.4)
    hint = f"; do you mean {near[0]}?" if near else ""
    return f"the panel measures no {name}{hint} It measures {', '.join(sorted(names))}"


def check_ends_differ(metric: Metric, change: Evidence, settings: Nightly, good: str, bad: str) -> None:
    """Without a difference between its ends, a search would name some commit or other."""
    if not change.p <= settings.false_alarms or abs(change.difference) <= metric.limit(metric.limits.practical):
        smallest = f"{metric.limits.practical:.0%}" if metric.is_timing else f"{metric.limits.practical:g}"
        raise UserError(
            f"{metric.name} does not differ between {good} and {bad}: {change_in_words(metric, change)}, "
            f"smallest difference that matters {smallest}; nothing to search for"
        )


def measured_at(commit: str, code: Path, panel: Path, engine: str, timed: bool) -> Night:
    home = code.with_name(commit)  # MLflow keeps a database open by its name, also one that is gone
    git("checkout", "--quiet", "--force", "--detach", commit, at=code)
    git("clean", "--quiet", "--force", "-dx", at=code)  # what Python has compiled of another commit
    try:
        document = panels.measure_panel(panel, home, engine, code, timed)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    values = {name: np.array(row, dtype=np.float64) for name, row in document["values"].items()}
    return Night(commit, "", values, document=document)


def judged(
    commit: str, measure: Callable[[], np.ndarray], metric: Metric, at_good: np.ndarray, whole_change: Evidence
) -> str:
    """good, bad or skip of a commit: bad where it is nearer to BAD than to GOOD.

    Whether it differs from GOOD would be the wrong question: the two ends do differ, and a test at a strict level errs
    far more often towards good than halfway between the two.
    """
    try:
        change = compare_nights(at_good[None], measure()[None])
    except UserError as error:
        say(f"{short_commit(commit)} skipped: {str(error).splitlines()[-1]}")
        return "skip"
    word = "bad" if change.difference / whole_change.difference > 0.5 else "good"
    say(f"{short_commit(commit)} {word}: {change_in_words(metric, change)}")
    return word


def first_bad(code: Path, good: str, bad: str, judge: Callable[[str], str]) -> list[str]:
    """The first bad commit; several, where those between could not be measured. Git keeps its state in the worktree."""
    git("bisect", "start", "--no-checkout", bad, good, at=code)
    while len(left := candidates(code)) > 1:
        word = judge(git("rev-parse", "BISECT_HEAD", at=code).stdout.strip())
        if git("bisect", word, at=code, check=False).returncode:  # only commits that were skipped are left
            return candidates(code)
    return left


def candidates(code: Path) -> list[str]:
    """The commits of which one is the first bad one, as far as Git knows."""
    good = git("for-each-ref", "--format=%(refname)", "refs/bisect/good-*", at=code).stdout.split()
    return git("rev-list", BAD, "--not", *good, at=code).stdout.split()


@contextmanager
def worktree(folder: Path, commit: str) -> Iterator[Path]:
    """A checkout of its own; what a search that was killed has left goes first."""
    code = folder / "code"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", str(code), commit)
        yield code
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune", check=False)


def metric_of(name: str, measured: Night, settings: Nightly) -> Metric:
    """A metric with its limits; a score that the settings do not name has those of the first that they do."""
    if name not in measured.values:
        raise UserError(unknown_metric(name, measured.values))
    if name in TIMINGS:
        return Metric(name, TIMINGS[name], settings.speed)
    score = name.partition(AT)[0]
    limits: Limits = settings.quality.get(score) or next(iter(settings.quality.values()))
    return Metric(name, measured.document["directions"][score], limits)


def rows(measured: Night, metric: Metric, commit: str) -> np.ndarray:
    values = complete_values(measured.values, metric)
    if values is None:
        raise UserError(f"at {commit} the panel measured no {metric.name} of every seed")
    return metric.scaled(values)


def change_in_words(metric: Metric, change: Evidence) -> str:
    from reports.nightly.page import change as shown

    difference, width = shown(metric, change.difference), shown(metric, change.half_width, sign=False)
    tested = f"± {width}, p {change.p:.2g}" if width else "at all seeds, without any spread to test it by"
    return f"{metric.name} {difference} {tested}"


def resolved_commit(name: str, commits: list[str]) -> str:
    lines = [git("log", "-1", "--format=%h %an %ad %s", "--date=short", commit).stdout.strip() for commit in commits]
    if len(lines) == 1:
        return f"{lines[0]}\nis the first commit with the changed {name}"
    return "\n".join(
        [f"the first commit with the changed {name} is one of these, which could not all be measured:", *lines]
    )


def short_commit(commit: str) -> str:
    return git("log", "-1", "--format=%h %s", commit).stdout.strip()


def commit_of(name: str) -> str:
    asked = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if asked.returncode:
        raise UserError(f"{CHECKOUT} has no commit {name}")
    return asked.stdout.strip()


def git(*arguments: str, at: Path = CHECKOUT, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["git", "-C", str(at), *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done
