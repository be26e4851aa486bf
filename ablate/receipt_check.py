"""Check a receipt: make its verdict again from its runs, and run some of them again."""

import hashlib
import json
import math
import os
import random
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ablate.commands import BASELINE, CANDIDATE, Damaged, RunFailed, RunFolder, Runner
from ablate.duel import Duel
from ablate.identity import file_digest, git, uses_of
from ablate.ledger import Ledger, Proposal
from ablate.receipt import VERSION, Entry, Header, RunEntry, chained, command_digest, seeds_rule, story
from contrastive.errors import UserError, brief
from reports.statistics.cutoffs import looks_up_to

MOST_RUNS = 10_000  # of a pair that is checked
LUCK = 4  # standard deviations of a run; a larger difference is hardly luck
TOGETHER = 5  # the same for the mean of several runs, whose deviation is known from these alone
CLOSE = 1e-6  # relative difference of numbers that another machine may compute
UNCHANGED = hashlib.sha256(b"").hexdigest()[:12]  # digest of no changes
WHOLE = 64  # characters of a file's digest; of large files there is none


@dataclass
class Checked:
    """A receipt that was read, with sentences on what differs from its runs and what a reader should know."""

    hash: str
    header: Header
    runs: list[RunEntry]
    last: Entry
    differs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_receipt(file: Path) -> tuple[Checked, list[Entry], list[Proposal]]:
    """Read a receipt; raise UserError with the number of a line that is none of its entries."""
    lines, raw, runs, proposals = file.read_bytes().splitlines(), list[Entry](), list[RunEntry](), list[Proposal]()
    kinds: dict[str, tuple[Any, list[Any]]] = {"run": (RunEntry, runs), "proposal": (Proposal, proposals)}
    try:
        header = TypeAdapter(Header).validate_json(lines[0] if lines else b"")
        for line in lines:
            entry = TypeAdapter(Entry).validate_json(line)
            if json.dumps(entry).encode() != line:  # such as a key twice, of which readers see the other
                raise UserError(f"{file}, line {len(raw) + 1} is not written as `ablate judge --receipt` writes it")
            kind, into = kinds.get(str(entry.get("entry")), (Entry, list[Any]()))
            content = json.dumps(entry.get("proposal")) if kind is Proposal else line
            into.append(TypeAdapter[Any](kind).validate_json(content))
            raw.append(entry)
    except ValidationError as error:
        why = " ".join([*map(str, error.errors()[0]["loc"]), error.errors()[0]["msg"]])
        raise UserError(
            f"{file}, line {len(raw) + 1} is no entry of a receipt ({brief(why)}): ask for the file that "
            "`ablate judge --receipt` wrote"
        ) from None
    if header.version != VERSION or (header.pair is None) == (header.ledger is None):
        raise UserError(f"{file} is no receipt of version {VERSION}; check it with the `ablate` that made it")
    if header.pair and header.pair.max_runs > MOST_RUNS:
        raise UserError(f"{file} allows {header.pair.max_runs} runs; a receipt of at most {MOST_RUNS} can be checked")
    return Checked(str(raw[-1].get("hash")), header, runs, raw[-1]), raw, proposals


@np.errstate(all="ignore")  # of numbers that no run has printed
def check_receipt(file: Path) -> Checked:
    """Make the verdict of a receipt again from its runs, and find what was left out or changed."""
    found, raw, proposals = read_receipt(file)
    header, runs, differs = found.header, found.runs, found.differs
    for place, (entry, before) in enumerate(zip(raw, [{"hash": ""}, *raw], strict=False)):
        if entry.get("hash") != chained(entry, str(before.get("hash"))):
            differs.append(f"the chain breaks at entry {place}: it, or the one before it, is not as it was written")
            break
    if wrong := next((place for place, entry in enumerate(raw) if entry.get("number") != place), None):
        differs.append(f"entry {wrong} says that it is entry {brief(raw[wrong].get('number'))}: entries were moved")
    differs += field_mistakes(header, runs)
    differs += pair_mistakes(header.pair, runs, raw) if header.pair else ledger_mistakes(header, runs, proposals)
    try:
        with_hash = [{"number": 0, "hash": ""} | entry for entry in story(header, runs, proposals)]
    except OverflowError:
        raise UserError(f"{file} has numbers too large to compare: no run can have printed them") from None
    wanted, given = {name_of(entry): entry for entry in with_hash}, {name_of(entry): entry for entry in raw[1:]}
    for name, entry in {**wanted, **given}.items():
        if name not in given:
            differs.append(f"{name} is left out")
        elif name not in wanted:
            differs.append(f"{name} does not follow from the runs")
        else:
            differs += difference(name, entry, wanted[name])
    if not differs:
        names = zip_longest(map(name_of, raw[1:]), map(name_of, with_hash))
        differs += (f"entry {n}, {is_}, belongs elsewhere" for n, (is_, want) in enumerate(names, 1) if is_ != want)
    find_notes(found)
    return found


def difference(name: str, given: Entry, wanted: Entry) -> list[str]:
    """Return a sentence on how an entry differs from what follows from the runs; none if it does not."""
    keys = [key for key in {**wanted, **given} if key not in ("number", "hash")]
    keys = [key for key in keys if not alike(given.get(key), wanted.get(key))]
    says, give = (", ".join(f"{key} {brief(of.get(key), 60)}" for key in keys) for of in (given, wanted))
    return [f"{name} says {says}, and the runs give {give}"] if keys else []


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12)
    return bool(one == other)


def name_of(entry: Entry) -> str:
    match entry.get("entry"):
        case "run":
            run = "a try that failed" if entry["value"] is None else "the run"
            return f"{run} of the {brief(entry['who'])} with seed {entry['seed']}" + f" ({entry['proposal']})" * (
                entry["proposal"] != 0
            )
        case "look":
            return f"the look after {brief(entry.get('pairs'))} pairs"
        case "proposal":
            return f"proposal {brief(entry['proposal']['number'])}"
        case "verdict":
            return "the verdict"
        case other:
            return f"an entry `{brief(other)}`"


def field_mistakes(header: Header, runs: list[RunEntry]) -> list[str]:
    """Return which fields contradict others, among those that no verdict depends on."""
    found, units = list[str](), [run.unit for run in runs if run.value is not None]
    if header.seeds != (rule := seeds_rule(header.seeds_from)):
        found.append(f"entry 0 says that the seeds are {brief(header.seeds)}, and its settings give {rule}")
    for run in runs:
        unit = "" if run.value is None else units[0]
        if run.unit != unit:
            found.append(f"{run} has the unit `{brief(run.unit)}`, and the others `{brief(unit)}`")
        if (run.value is None) != bool(run.failed):
            found.append(f"{run} says {'no reason why it' if run.value is None else 'that it'} failed")
        if not 0 <= run.seconds < math.inf:
            found.append(f"{run} took {run.seconds:g} seconds")
        if header.pair and (run.proposal or run.text):
            found.append(f"{run} is of a ledger")
    return found


def pair_mistakes(duel: Duel, runs: list[RunEntry], raw: list[Entry]) -> list[str]:
    """Return what is wrong with the commands, seeds and order of runs, whatever their numbers."""
    duel.check()
    found, commands = list[str](), {BASELINE: duel.baseline, CANDIDATE: duel.candidate}
    places = {seed: number for number, seed in enumerate(duel.seeds(2 * len(runs) + 2))}
    rule = f"the seeds from `{brief(duel.seeds_from)}`" if duel.seeds_from else "0, 1, 2 …"
    bounds, known, done = looks_up_to(duel.max_runs // 2), list[tuple[int, RunEntry]](), set[tuple[str, int]]()
    for run in runs:
        if run.who not in commands:
            found.append(f"{run} belongs to neither command")
        elif run.seed not in places:
            found.append(f"{run} has a seed that is not among {rule}")
        else:
            if run.command != command_digest(commands[run.who], run.seed):
                found.append(f"{run} was made by another command than the {run.who}'s in the receipt")
            if (run.who, run.seed) in done:
                found.append(f"{run} is there twice")
            done |= {(run.who, run.seed)} if run.value is not None else set()
            known.append((bisect_left(bounds, places[run.seed] + 1), run))
    found += out_of_order(known)
    claims = (entry.get("pairs") for entry in raw if entry.get("entry") in ("look", "verdict"))
    claimed = max((claim for claim in claims if isinstance(claim, int) and claim <= len(places)), default=0)
    last = max((look for look, _ in known), default=0)
    needed = max(claimed, bounds[last - 1] if last else 0)
    for seed in list(places)[:needed]:
        found += (f"the run of the {who} with seed {seed} is left out" for who in commands if (who, seed) not in done)
    return found


def out_of_order(runs: list[tuple[int, RunEntry]]) -> list[str]:
    """Return which runs stand after those of a later look or proposal."""
    return [f"{later} stands before {run}" for (after, later), (before, run) in pairwise(runs) if before < after]


def ledger_mistakes(header: Header, runs: list[RunEntry], proposals: list[Proposal]) -> list[str]:
    """Return what is wrong with the commands, seeds, order and results of a ledger."""
    found = out_of_order([(abs(run.proposal), run) for run in runs])
    by_number = {proposal.number: proposal for proposal in proposals}
    for run in runs:
        own = by_number.get(abs(run.proposal))
        told = own and (own.candidate if run.who == CANDIDATE else own.baseline)
        # another baseline was interrupted; a try that failed may be of a proposal that was interrupted
        other = run.value is None or (run.proposal < 0 and own and run.code != own.code)
        if run.command != command_digest(run.text, run.seed) or (told and not other and run.text != told):
            found.append(f"{run} was made by another command than that of proposal {run.proposal} in the receipt")
    settings = header.ledger
    finished = [run.as_run(in_ledger=True) for run in runs if run.value is not None]
    folder = RunFolder(Path(), header.metric, runs=finished, deadline=-math.inf, tell=lambda _: None)
    try:
        Ledger(folder, bool(settings and settings.lower), proposals=proposals, seeds_from=header.seeds_from).follow()
    except Damaged as error:
        whose = "proposal" if error.path.name == "ledger.jsonl" else "run"
        found.append(f"{whose} {error.line}: {error.why.replace('runs.jsonl', 'the receipt')}")
    return found


def find_notes(found: Checked) -> None:
    """Note what is no mistake, and a reader should know."""
    pair, codes = found.header.pair, {run.code for run in found.runs}
    if pair and found.last.get("verdict") == "undecided" and found.last.get("pairs") != pair.max_runs // 2:
        found.notes.append(
            "it ended undecided before --max-runs, as --budget ends it; later runs may have been left out"
        )
    if pair and found.header.code.digest not in {*codes, ""}:
        found.notes.append("the digest of the code in the first entry is that of no run")
    if pair and len(codes) > 1:
        found.notes.append(f"the code changed during the runs: {len(codes)} versions")
    if failed := sum(run.value is None for run in found.runs):
        found.notes.append(f"{failed} tries failed")
    for folder, state in found.header.code.git.items():
        if not str(state).endswith(UNCHANGED):
            found.notes.append(f"commit {brief(state)[:12]} in {brief(folder)} had changes that were not committed")


def rerun(found: Checked, count: int, runner: Runner, tell: Callable[[str], None]) -> None:
    """Run some runs again, here, chosen by the hash of the receipt, of both sides in turn; find other numbers."""
    files = found.header.code.files.items()
    here = {name: file_digest(Path(name)) for name, digest in files if len(digest) == WHOLE}
    chance, pair = random.Random(found.hash), found.header.pair
    uses = [use for command in ((pair.baseline, pair.candidate) if pair else ()) for use in uses_of(command)]
    named = {os.path.abspath(path) for _, path in uses}
    for name in [name for name, digest in files if here.get(name, digest) != digest]:
        if here[name] is None and os.path.abspath(name) not in named:
            found.notes.append(f"{brief(name)} of the receipt is not here; no command names it")
        else:
            found.differs.append(f"{brief(name)} here is not the file of the receipt")
    for folder, state in found.header.code.git.items():
        commit = (git(folder, "rev-parse", "HEAD") or b"none").decode().strip()
        if commit != (theirs := state.partition(" ")[0]):
            found.notes.append(f"the commit here is {commit[:12]}, the receipt's is {brief(theirs)[:12]}")
    runs = [run for run in found.runs if run.value is not None]
    chance.shuffle(runs)
    whose = [run.who == CANDIDATE for run in runs]
    runs = [run for _, run in sorted(enumerate(runs), key=lambda each: whose[: each[0]].count(whose[each[0]]))]
    pairs: dict[str, list[tuple[float, float]]] = {BASELINE: [], CANDIDATE: []}  # numbers of the receipt, and again
    of_code = defaultdict[tuple[str, str], list[tuple[float, float]]](list)  # the same, by command and code of a ledger
    with TemporaryDirectory() as folder:
        again = RunFolder(Path(folder), found.header.metric, runner=runner, tell=tell)
        for run in runs[:count]:
            command = run.text if pair is None else pair.candidate if run.who == CANDIDATE else pair.baseline
            try:
                made = again.run_twice(run.who, command, run.seed)
            except RunFailed as failed:
                found.differs.append(f"{run} gave {run.value:g}, and again: {failed}")
                continue
            value = made.value
            if made.unit != run.unit:
                found.differs.append(f"{run} printed the unit `{brief(run.unit)}`, and again `{made.unit}`")
            pairs.setdefault(run.who, []).append((float(run.value or 0.0), value))
            of_code[run.text, run.code].append(pairs[run.who][-1])
            own = [r.value for r in found.runs if (r.who, r.text) == (run.who, run.text) and r.value is not None]
            own = own if len(own) > 2 else [r.value for r in found.runs if r.who == BASELINE and r.value is not None]
            spread = statistics.stdev(own) if len(own) > 1 else 0.0
            size = abs(value - (run.value or 0.0))
            told = f"{run} gave {run.value:g}, and {value:g} again"
            if not size:
                found.notes.append(told)
            elif pair is None:
                found.notes.append(f"{told}: the code in its folder may be another one now")
            elif not spread or size > LUCK * spread:
                found.differs.append(
                    f"{told}: {size / spread if spread else math.inf:.1f} standard deviations, hardly luck"
                )
            else:
                found.notes.append(f"{told}: {size / spread:.1f} standard deviations of such runs")
    found.differs += together(pairs) if pair else [words for own in of_code.values() for words in not_repeated(own)]


def not_repeated(values: list[tuple[float, float]]) -> list[str]:
    """Say that some runs of the same code gave the same number and others did not."""
    same = sum(math.isclose(was, now, rel_tol=CLOSE) for was, now in values)
    if same in (0, len(values)):
        return []
    return [
        f"{same} runs gave the same number again, so that runs repeat exactly, and {len(values) - same} another one"
    ]


def together(pairs: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Return what all runs that were made again say together: some gave the same number and others did not, or those of
    a side are all higher or lower than they were."""
    if exactly := not_repeated([pair for own in pairs.values() for pair in own]):
        return exactly
    apart = {who: [now - was for was, now in own] for who, own in pairs.items()}
    found = list[str]()
    for who, own in apart.items():
        spread = statistics.stdev([now for _, now in pairs[who]]) if len(own) > 2 else 0.0
        if spread and abs(statistics.mean(own)) > TOGETHER * spread * (2 / len(own)) ** 0.5:
            found.append(
                f"the {len(own)} runs of the {who} are {statistics.mean(own):+.3g} from what the receipt says on "
                f"average, where such runs vary by {spread:.3g}: hardly luck"
            )
    return found
