"""Our rules beside those of others, by studies drawn from three banks: false verdicts, true ones a run, coverage.

    python -m benchmarks.comparators [STUDIES] [--quick] [--bank …] [--into FILE]    # writes benchmarks/comparators.md

Rules of packages come by the extra `bench`; one whose package is missing is left out and named.
"""

import argparse
import platform
import textwrap
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy import ndarray

from benchmarks import comparator_peers as peers
from benchmarks import comparator_rules as rules
from benchmarks import results
from benchmarks.comparator_banks import Bank, banks
from benchmarks.comparator_rules import EQUIVALENT, Rule, Said, Studies
from benchmarks.simulation import percent
from contrastive.runs.provenance import processor
from reports.statistics.decide import ALPHA

COMMAND = "python -m benchmarks.comparators"
FILE = Path(__file__).with_name("comparators.md")
STUDIES, QUICK_STUDIES = 400, 6
RUNS = (3, 5, 8)
PACKAGES = ("numpy", "scipy", "adastop")
OURS, ALONE, LOOKS = "ours: `decide`", "ours, these texts only", ", stopping"


@dataclass(frozen=True)
class Entry:
    """A rule: how many studies it gets of all, and whether it stops by itself."""

    rule: Rule
    share: float = 1.0
    stops: bool = False
    package: str = ""
    seen: str = "all"  # or "pairs", "no pairs", "texts": the studies that it is for


RULES = {
    OURS: Entry(peers.ours, 0.4),
    ALONE: Entry(lambda s, n: peers.ours(s, n, False), 0.4, seen="texts"),
    "ours: `compare_samples`": Entry(peers.ours_unpaired, seen="no pairs"),
    "t and Holm": Entry(rules.t_and_holm),
    "t, p < .25": Entry(rules.t_as_boards),
    "all runs better": Entry(rules.all_seeds),
    "z, known σ": Entry(rules.z_known),
    "z, σ taken half as large": Entry(rules.z_half),
    "BCa": Entry(rules.bca),
    "permutation and Holm": Entry(rules.permutation),
    "BCa and permutation, alone": Entry(rules.bca_and_flips),
    "percentile bootstrap, alone": Entry(rules.percentile),
    "ROPE, alone": Entry(rules.rope),
    "crossed bootstrap": Entry(peers.crossed_bootstrap, 0.2, seen="texts"),
    "mixed model": Entry(rules.mixed_model, seen="texts"),
    OURS + LOOKS: Entry(peers.ours_stopping, 0.4, True),
    ALONE + LOOKS: Entry(lambda s, n: peers.ours_stopping(s, n, False), 0.4, True, seen="texts"),
    "t until significant": Entry(rules.t_until_significant, stops=True),
    "e-process": Entry(rules.e_process, stops=True),
    "GSPRT": Entry(rules.gsprt, stops=True),
    "GSPRT from 5 runs on": Entry(lambda s, n: rules.gsprt(s, n, 5), stops=True),
    "AdaStop, patched": Entry(peers.adastop_of(True), 0.2, True, "adastop"),
    "AdaStop as shipped": Entry(peers.adastop_of(False), 0.2, True, "adastop"),
}


@dataclass(frozen=True)
class Judged:
    """What a rule says of studies without a difference, and of those with, by name of the difference."""

    alike: Said
    apart: dict[str, Said]


def judged(bank: Bank, entry: Entry, runs: int) -> Judged:
    work = max(studies.comparisons for studies in bank.apart.values()) / 2 if entry.package else 1.0
    count = max(4, round(entry.share * len(bank.alike.values) / work))
    said = {name: entry.rule(studies.first(count), runs) for name, studies in bank.apart.items()}
    return Judged(entry.rule(bank.alike.first(count), runs), said)


def is_for(entry: Entry, studies: Studies) -> bool:
    fits = {"all": True, "no pairs": not studies.paired, "texts": studies.texts is not None}
    return fits[entry.seen] and (not entry.package or find_spec(entry.package) is not None)


def false(of: Judged) -> ndarray:
    """Whether a study without a difference has any better or worse."""
    return np.asarray(np.isin(of.alike.signs, (1, -1)).any(1))


def found(of: Judged, bank: Bank, name: str) -> ndarray:
    """Of each study, the share of its differences beyond the margin with the right sign."""
    said, truth = of.apart[name], bank.apart[name].truth[: len(of.apart[name].signs)]
    beyond = np.abs(truth) >= (bank.apart[name].margin or 0.0)
    return np.asarray(((said.signs == np.sign(truth)) & beyond).sum(1) / beyond.sum(1))


def found_of_all(of: Judged, bank: Bank) -> ndarray:
    return np.mean([found(of, bank, name) for name in bank.apart], axis=0)


def true_of_runs(of: Judged, bank: Bank) -> tuple[ndarray, ndarray]:
    """True verdicts and runs of each study with differences, over all of these."""
    true, runs = [], []
    for name, said in of.apart.items():
        studies = bank.apart[name]
        truth = studies.truth[: len(said.signs)]
        same = (said.signs == EQUIVALENT) & (np.abs(truth) < (studies.margin or 0.0))
        true.append(((said.signs == np.sign(truth)) | same).sum(1))
        runs.append(said.runs.sum(1))
    return np.concatenate(true), np.concatenate(runs)


def holds(of: Judged, bank: Bank, within: bool) -> ndarray:
    """Whether all intervals of a study hold the truth; of all studies, none where the rule gives no interval."""
    held = []
    for said, studies in [(of.alike, bank.alike), *((said, bank.apart[name]) for name, said in of.apart.items())]:
        truth = studies.within if within and studies.within is not None else studies.truth
        truth = truth[: len(said.signs)]
        if np.isfinite(said.low).any():
            held.append((~(said.low > truth) & ~(said.high < truth)).all(1))
    return np.concatenate(held) if held else np.array([])


def mean(values: ndarray, scale: float = 100.0) -> str:
    return f"{scale * values.mean():.1f} ± {scale * values.std(ddof=1) / len(values) ** 0.5:.1f}"


def in_hundred(true: ndarray, runs: ndarray) -> str:
    """A ratio of means, with its standard error."""
    ratio = true.mean() / runs.mean()
    error = (true - ratio * runs).std(ddof=1) / runs.mean() / len(runs) ** 0.5
    return f"{100 * ratio:.2f} ± {100 * error:.2f}"


def line(bank: Bank, name: str, of: Judged, ours: Judged) -> str:
    true, runs = true_of_runs(of, bank)
    own, reference = found_of_all(of, bank), found_of_all(ours, bank)
    both = min(len(own), len(reference))
    more = None if of is ours else own[:both] - reference[:both]
    parts = [
        name,
        str(len(of.alike.signs)),
        percent(false(of)),
        *(mean(found(of, bank, effect)) for effect in bank.apart),
        "" if more is None else mean(more).replace("-", "−"),
        f"{runs.mean():.1f}",
        in_hundred(true, runs),
        percent(holds(of, bank, False)),
        *([percent(holds(of, bank, True))] if bank.alike.within is not None else []),
    ]
    return f"| {' | '.join(parts)} |"


def table(bank: Bank, every: dict[str, Judged], ours: str) -> str:
    effects = [f"found, {name}, %" if name else "found, %" for name in bank.apart]
    columns = ["rule", "studies", "false, %", *effects, "beside ours, points", "runs", "true in 100 runs", "covers, %"]
    columns += ["… of these texts, %"] if bank.alike.within is not None else []
    lines = [f"| {' | '.join(columns)} |", f"| :-- |{' --: |' * (len(columns) - 1)}"]
    return "\n".join([*lines, *(line(bank, name, of, every[ours]) for name, of in every.items())])


def lost(bank: Bank, every: dict[str, Judged], title: str) -> list[str]:
    """Which rules find clearly more than one of ours (2 standard errors) and are not clearly above the level."""
    said = []
    for mine, ours in every.items():
        more = [finds_more(bank, name, of, ours) for name, of in every.items() if not name.startswith("ours")]
        if mine.startswith("ours") and any(more):
            said.append(f"- {title}, beside {mine}: {', '.join(filter(None, more))}.")
    return said


def finds_more(bank: Bank, name: str, of: Judged, ours: Judged) -> str:
    count = min(len(of.alike.signs), len(ours.alike.signs))
    apart, wrong = found_of_all(of, bank)[:count] - found_of_all(ours, bank)[:count], false(of)
    if wrong.mean() > ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / len(wrong)):
        return ""
    if not apart.mean() > 2 * apart.std(ddof=1) / count**0.5:
        return ""
    theirs, own = (true_of_runs(one, bank)[1].mean() for one in (of, ours))
    runs = "" if theirs == own else f", {theirs:.1f} runs against {own:.1f}"
    return f"{name} by {mean(apart)} points (false {percent(wrong)} %{runs})"


def text_of(bank: Bank, quick: bool) -> str:
    parts, losses = [wrapped(bank.about)], list[str]()
    kinds = [(f"{runs} runs a row", runs, OURS) for runs in (RUNS[:1] if quick else RUNS)]
    for title, runs, ours in [*kinds, (f"Stopping, at most {bank.most} runs a row", bank.most, OURS + LOOKS)]:
        entries = {name: entry for name, entry in RULES.items() if entry.stops == (ours != OURS)}
        every = {}
        for name, entry in entries.items():
            if is_for(entry, bank.alike):
                began = time.monotonic()
                every[name] = judged(bank, entry, runs)
                print(f"{bank.name}, {title}, {name}: {time.monotonic() - began:.1f} s", flush=True)
        parts.append(f"**{title}**\n\n{table(bank, every, ours)}")
        losses += lost(bank, every, title)
    says = "\n".join(losses) or "Nowhere by more than 2 standard errors, among rules that keep 5 %."
    return "\n\n".join(
        [*parts, "**Where others find more**, of the rules whose false verdicts are not clearly above 5 %:", says]
    )


def wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


TOP = """# Our rules beside those of others

Written by `python -m benchmarks.comparators`, with the extra `bench`. What `decide` concludes with more seeds,
and with texts counted or not, is in decided.md. ± is one standard error over the studies, not over other banks.

- **false**: studies without any difference (three rows of one kind) in which any row is called better or worse.
- **found**: differences called with the right sign; **beside ours**: the points that this is above (below: −) the
  first of our rules in the table, on the same studies.
- **runs**: of a study with differences, all rows together; **true in 100 runs**: true verdicts of these studies.
- **covers**: studies, with and without differences, whose intervals all hold the truth when the study ends. The
  intervals are made to hold for all comparisons together in 95 %, but in 95 % for each alone where the rule is so by
  its authors ("alone"), and 75 % each for p < .25. Where it says –, a rule gives no interval.

"t" is paired where the bank is, else Welch's. "t until significant" is t by Bonferroni, looked at after each added
run up to the most and stopped when significant: a misuse. The e-process is our own in a few lines (a mixture over the
t-test's effect). The GSPRT has fishtest's bounds of ± 2.94, made for thousands of games and one question of one sign;
here both signs and all rows are asked, from two or from five runs on. AdaStop has {adastop}; it does not use pairs.
As shipped it compares the size of a difference with signed ones; "patched" takes the sizes of both. Without pairs,
`decide`, the e-process and the GSPRT take run k of two rows for a pair. Bootstraps have {draws} draws, the crossed
one {crossed}. AdaStop, `decide` and the crossed bootstrap are slow and get the first of the studies only.

Written here, since the packages do not install beside ours: "percentile bootstrap" is rliable's stratified bootstrap
with one task (rliable 1.2.0 asks for arch < 8, and arch 7.2.0 does not import with pandas 3.1.1, "deprecate_kwarg()
missing 1 required positional argument: 'new_arg_name'"); "ROPE" is the Bayesian t-test of baycomp 1.0.3 and autorank
1.3.0 for one data set (both install a package named `tests`, which hides the tests of this project). "Mixed model" is
REML of a random effect of the seed in closed form, with Wald's z: MixedLM of statsmodels 0.15.0 (lbfgs) stops in most
of these studies with "Singular matrix". Left out: expectation (0.6 asks for Python 3.12) and safestats (a package of
R, not on PyPI){missing}.

Related: arXiv 2512.21326 (all pairs, paired), 2604.11581 (a pilot projects where variance comes from), 2503.07329
(consistency over seeds).

{machine}
"""


def top() -> str:
    versions = {package: results.version_of(package) for package in PACKAGES}
    missing = "".join(f"; {package} (not installed here)" for package, found in versions.items() if not found)
    steps = " or ".join(f"{looks} looks of {added} runs" for added, looks in peers.ADASTOP.values())
    installed = ", ".join(f"{package} {found}" for package, found in versions.items() if found)
    machine = f"{processor()}; Python {platform.python_version()}, {installed}."
    text = TOP.format(adastop=steps, draws=rules.DRAWS, crossed=peers.CROSSED_DRAWS, missing=missing, machine=machine)
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith("- ") else wrapped(part) for part in parts)


def main() -> None:
    asked = options().parse_args()
    began, studies = time.monotonic(), asked.studies or (QUICK_STUDIES if asked.quick else STUDIES)
    quick, day = " --quick" if asked.quick else "", time.strftime("%Y-%m-%d")
    sections = [
        results.Section(bank.name, day, f"{COMMAND} {studies}{quick} --bank {number}", text_of(bank, asked.quick))
        for number, bank in enumerate(banks(studies, asked.quick), 1)
        if number in asked.bank
    ]
    results.write(sections, asked.into, top())
    print(f"{asked.into}: {time.monotonic() - began:.0f} seconds")


def options() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog=COMMAND,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("studies", nargs="?", type=int, metavar="STUDIES")
    command.add_argument(
        "--quick", action="store_true", help="a few studies of three runs, to see that everything runs"
    )
    command.add_argument("--bank", nargs="+", type=int, default=[1, 2, 3], help="of the three, the others stay")
    command.add_argument("--into", type=Path, default=FILE)
    return command


if __name__ == "__main__":
    main()
