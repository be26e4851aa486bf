"""`ablate bisect`: which commit changed a metric of the nightly panel. Git searches, the panel answers.

Each commit is measured by its own code, in a home of its own. All are checked out in one worktree, which Git bisects:
it chooses the commits, passes over those that cannot be measured, and knows of merges. The user's checkout is never
touched. `git bisect run` would need the judge as a program of its own, which Ctrl-C does not reach.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from contrastive.errors import UserError
from contrastive.experiment import load
from contrastive.runs import store
from flows.night import panel as panels
from flows.night.commits import commit_of, git, with_subject, worktree
from flows.night.verdict_settings import read_verdict_settings
from flows.terminal import say
from reports.nightly.evidence import Evidence, compare_nights
from reports.nightly.measured import AT, FEWEST_SEEDS, Metric, Night, complete_values
from reports.nightly.settings import TIMINGS, Nightly
from reports.statistics import Decided, Measurements, decide

BAD = "refs/bisect/bad"
Change = Evidence | Decided


def search(name: str, good: str, bad: str, panel: Path, settings: Path, engine: str) -> str:
    """What the first bad commit is, in words."""
    check_panel(name, panel)
    first, last = commit_of(good), commit_of(bad)
    if first == last or git("merge-base", "--is-ancestor", first, last, check=False).returncode:
        raise UserError(f"GOOD ({good}) has to be an ancestor of BAD ({bad}); are they the wrong way round?")
    limits = read_verdict_settings(settings)
    with store.locked(store.home() / "locks" / "bisect"), worktree(store.home() / "bisect", last) as code:

        def measure(commit: str) -> Night:
            document = panels.measure_commit(commit, code, panel, engine, timed=name in TIMINGS)
            values = {name: np.array(row, dtype=np.float64) for name, row in document["values"].items()}
            return Night(commit, "", values, document)

        at_first = measure(first)
        metric = metric_of(name, at_first, limits)
        at_good, at_bad = rows(at_first, metric, good), rows(measure(last), metric, bad)
        texts = at_first.document["texts"].get(metric.score)
        whole_change = difference_between(metric, at_good, at_bad, texts)
        say(f"{with_subject(first)} good, {with_subject(last)} bad: {change_in_words(metric, whole_change)}")
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


def difference_between(metric: Metric, good: np.ndarray, other: np.ndarray, texts: int | None = None) -> Change:
    """As the nightly verdict compares two nights, by itself."""
    if metric.is_timing:
        return compare_nights(good[None], other[None])
    return decide(Measurements(np.stack([other, good]), texts=texts), ((0, 1),))[0]


def check_ends_differ(metric: Metric, change: Change, settings: Nightly, good: str, bad: str) -> None:
    """Without a difference between its ends, a search would name some commit or other."""
    if not change.p <= settings.false_alarms or abs(change.difference) <= metric.scaled_margin:
        raise UserError(
            f"{metric.name} does not differ between {good} and {bad}: {change_in_words(metric, change)}, "
            f"smallest difference that matters {metric.shown_margin}; nothing to search for"
        )


def judged(
    commit: str, measure: Callable[[], np.ndarray], metric: Metric, at_good: np.ndarray, whole_change: Change
) -> str:
    """good, bad or skip of a commit: bad where it is nearer to BAD than to GOOD.

    Whether it differs from GOOD would be the wrong question: the two ends do differ, and a test at a strict level errs
    far more often towards good than halfway between the two.
    """
    try:
        change = difference_between(metric, at_good, measure())
    except UserError as error:
        say(f"{with_subject(commit)} skipped: {str(error).splitlines()[-1]}")
        return "skip"
    word = "bad" if change.difference / whole_change.difference > 0.5 else "good"
    say(f"{with_subject(commit)} {word}: {change_in_words(metric, change)}")
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


def metric_of(name: str, measured: Night, settings: Nightly) -> Metric:
    """A metric with its margin; a score that the settings do not name has that of the first that they do."""
    if name not in measured.values:
        raise UserError(unknown_metric(name, measured.values))
    if name in TIMINGS:
        return Metric(name, TIMINGS[name], settings.speed)
    score = name.partition(AT)[0]
    margin = settings.quality.get(score) or next(iter(settings.quality.values()))
    return Metric(name, measured.document["directions"][score], margin)


def rows(measured: Night, metric: Metric, commit: str) -> np.ndarray:
    values = complete_values(measured.values, metric)
    if values is None:
        raise UserError(f"at {commit} the panel measured no {metric.name} of every seed")
    return metric.scaled(values)


def change_in_words(metric: Metric, change: Change) -> str:
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
