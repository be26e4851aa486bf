"""A receipt: every run, look and verdict as a chain of hashes, from which the verdict is made again."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from ablate.commands import BASELINE, CANDIDATE, STRICT, Run, RunFolder
from ablate.duel import Duel, Outcome, looks
from ablate.identity import PLACE, file_digest
from ablate.ledger import Ledger, LedgerRun, Proposal, Settings
from contrastive.runs.store import write_atomic

VERSION = 1
Entry = dict[str, Any]


@dataclass(frozen=True)
class CodeDigests:
    """Digests to compare with other files and commits (see `Identity.as_json`); empty in a ledger."""

    __pydantic_config__ = STRICT

    digest: str = ""
    files: dict[str, str] = field(default_factory=dict)
    git: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    """The first entry: the settings of a pair of commands or of a ledger, and digests of the code."""

    __pydantic_config__ = STRICT

    number: Literal[0]
    entry: Literal["receipt"]
    version: int
    ablate: str
    seeds: str
    pair: Duel | None
    ledger: Settings | None
    code: CodeDigests
    hash: str

    @property
    def seeds_from(self) -> str:
        return self.pair.seeds_from if self.pair else self.ledger.seeds_from if self.ledger else ""

    @property
    def metric(self) -> str:
        return self.pair.metric if self.pair else self.ledger.metric if self.ledger else ""


@dataclass(frozen=True)
class RunEntry:
    """A run in the order in which they ended; `command` is the digest of its command with its seed."""

    __pydantic_config__ = STRICT

    who: str
    seed: int
    value: float | None
    unit: str
    failed: str
    seconds: float
    code: str
    command: str
    output: str | None  # digest of its log
    proposal: int  # of a ledger, as in LedgerRun
    text: str  # command of a ledger
    entry: Literal["run"] = "run"
    number: int = 0
    hash: str = ""

    def __str__(self) -> str:
        return f"entry {self.number} ({self.who}, seed {self.seed})"

    def as_run(self, in_ledger: bool) -> Run:
        usual = self.who, self.seed, self.value or 0.0, self.seconds, self.unit
        return (
            LedgerRun(*usual, code=self.code, proposal=self.proposal, command=self.text) if in_ledger else Run(*usual)
        )


def write_receipt(file: Path, folder: RunFolder, asked: Duel | Ledger, code: Mapping[str, Any]) -> str:
    """Write the receipt of a folder of runs; return its hash."""
    pair = asked if isinstance(asked, Duel) else None
    ledger = None if isinstance(asked, Duel) else Settings(folder.metric, asked.lower, asked.seeds_from)
    seeds = seeds_rule(asked.seeds_from)
    header = Header(0, "receipt", VERSION, version("ablate-contrastive"), seeds, pair, ledger, CodeDigests(**code), "")
    runs, proposals = list(run_entries(folder, pair)), [] if isinstance(asked, Duel) else asked.proposals
    lines, before = list[str](), ""
    for number, entry in enumerate([asdict(header), *story(header, runs, proposals)]):
        entry["number"] = number
        before = entry["hash"] = chained(entry, before)
        lines.append(json.dumps(entry))
    write_atomic(file, "\n".join([*lines, ""]))
    return before


def chained(entry: Entry, before: str) -> str:
    """Return the hash of an entry: of the hash before it, and its canonical JSON without its own hash."""
    content = {name: value for name, value in entry.items() if name != "hash"}
    text = before + json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seeds_rule(text: str) -> str:
    return f"31 bits of the SHA-256 of `{text} NUMBER`" if text else "0, 1, 2 …"


def command_digest(command: str, seed: int) -> str:
    return hashlib.sha256(command.replace(PLACE, str(seed)).encode(errors="surrogateescape")).hexdigest()[:16]


def run_entries(folder: RunFolder, pair: Duel | None) -> Iterator[RunEntry]:
    """Yield the runs of a folder with the tries that failed."""
    failures = folder.failures()
    for place in range(len(folder.runs) + 1):
        for each in failures:
            if each.after == place:
                text, own = ("", 0) if pair else (each.command, int(each.prefix.rstrip("-") or 0))
                digest = command_digest(each.command, each.seed)
                end = None, "", each.why, each.seconds, each.code, digest, each.output, own, text
                yield RunEntry(each.who, each.seed, *end)
        for run in folder.runs[place : place + 1]:
            own, text = (run.proposal, run.command) if isinstance(run, LedgerRun) else (0, "")
            command = text if pair is None else pair.baseline if run.who == BASELINE else pair.candidate
            log = file_digest(folder.log(f"{abs(own)}-" if own else "", run.who, run.seed))
            digest = command_digest(command, run.seed)
            yield RunEntry(run.who, run.seed, run.value, run.unit, "", run.seconds, run.code, digest, log, own, text)


def story(header: Header, runs: list[RunEntry], proposals: list[Proposal]) -> list[Entry]:
    """Return the entries that follow from the runs: these, each look or proposal when it was decided, the verdict."""
    finished = [run.as_run(header.ledger is not None) for run in runs if run.value is not None]
    folder = RunFolder(Path(), header.metric, runs=finished, deadline=-math.inf)  # nothing runs
    return pair_story(header.pair, folder, runs) if header.pair else ledger_story(folder, runs, proposals)


def pair_story(duel: Duel, folder: RunFolder, runs: list[RunEntry]) -> list[Entry]:
    open_looks, entries, seen = list(looks(duel, folder, lambda _: None)), list[Entry](), set[tuple[str, int]]()
    found = open_looks[-1] if open_looks else Outcome("undecided", 0, len(folder.runs))
    for run in runs:
        entries.append(asdict(run))
        seen |= {(run.who, run.seed)} if run.value is not None else set()
        while open_looks and {(w, s) for w in (BASELINE, CANDIDATE) for s in duel.seeds(open_looks[0].pairs)} <= seen:
            look = open_looks.pop(0).as_json()
            names = "verdict", "pairs", "difference", "half_width", "p"
            entries.append({"entry": "look", **{name: look[name] for name in names}})
    lost = {(run.who, run.seed) for run in runs} - seen
    more = {name: found.as_json()[name] for name in ("pairs", "runs", "difference", "half_width", "p")}
    means = {name: found.as_json()[name] for name in (BASELINE, CANDIDATE)}
    return [*entries, {"entry": "verdict", "verdict": "broken" if lost else found.verdict} | more | means]


def ledger_story(folder: RunFolder, runs: list[RunEntry], proposals: list[Proposal]) -> list[Entry]:
    left: list[Entry] = [{"entry": "proposal", "proposal": asdict(each)} for each in proposals]
    entries = list[Entry]()
    for run in runs:
        while left and left[0]["proposal"]["number"] < abs(run.proposal):
            entries.append(left.pop(0))
        entries.append(asdict(run))
    kept = sum(each.result == "kept" for each in proposals)
    counts = {"proposals": len(proposals), "kept": kept, "runs": len(folder.runs)}
    return [*entries, *left, {"entry": "verdict", "verdict": f"{kept} kept"} | counts]
