"""Reader of modded-nanogpt's Track 3: the loss of each run at the steps that its result claims, and at those of the
shortest result, by what the track's rules say that steps are worth (`adjusted_loss`)."""

import re
from collections.abc import Iterator
from typing import Any

from ablate.verdicts import Question
from benchmarks.boards.clone import Clone

FOLDER = "records/track_3_optimization"
ADDRESS, LICENCE = "https://github.com/KellerJordan/modded-nanogpt", "MIT"
SCORE, QUESTION = "adjusted_loss", Question(lower=("adjusted_loss",), records="table", sigma={"adjusted_loss": 0.0013})
ASKED = "--lower adjusted_loss --records table --sigma adjusted_loss=0.0013"
A_STEP = 0.0045 / 100  # of loss, by the rules
RESULT = re.compile(
    r"^\| *(\d+) *\| *(\d+)[^|]*\| *[\d.]+ \(n=(\d+)\)[^|]*\|(.*)\| *([\d/]+) *\|.*?\]\((results/[^)]+)\)", re.MULTILINE
)
LOSS = re.compile(r"step:(\d+)/(\d+) val_loss:([\d.]+)(?:.*? val_ema_loss:([\d.]+))?")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
Runs = list[tuple[str, dict[str, str]]]  # file, and loss by step


def read(clone: Clone) -> list[dict[str, Any]]:
    """Return a line for each run of each result of the history; a run that two files have is taken once."""
    files, lines = clone.files(f"{FOLDER}/results"), []
    for number, steps, count, words, date, log in RESULT.findall(clone.read(f"{FOLDER}/README.md")):
        path, inside, found = f"{FOLDER}/{log}", log.count("/") > 1, Runs()
        folder, _, file = path.rpartition("/")
        name = log.split("/")[1][9:] if inside else " ".join(LINK.sub(r"\1", words).split()[:5])
        own = [other for other in files if other.startswith(f"{folder}/{'H100_' * file.startswith('H100_')}")]
        texts = {p: clone.read(p) for p in (own if inside else [path]) if p.endswith((".txt", ".out", ".stdout"))}
        last = next((match[2] for match in LOSS.finditer(texts.get(path, ""))), None)
        for run in ((p, run) for p, text in texts.items() for run in runs_of(text, last) if steps in run):
            found += [] if any(run[1].items() <= other.items() for _, other in found) else [run]
        if len(found) < int(count) and (page := f"{folder}/README.md") in files:
            found = of_table(clone.read(page), steps, page) or found
        row = {"row": f"#{number} {name.strip(',')}", "date": date.replace("/", "-"), "steps": int(steps)}
        lines += [row | {"run": i, "val_loss": float(run[steps]), "file": p} for i, (p, run) in enumerate(found, 1)]
    least = min(line["steps"] for line in lines)
    return [line | {SCORE: round(line["val_loss"] + A_STEP * (line["steps"] - least), 6)} for line in lines]


def runs_of(text: str, last: str | None) -> Iterator[dict[str, str]]:
    """Yield the losses by step of each run of a log that was meant to have as many steps as `last`."""
    run = dict[str, str]()
    for step, end, loss, averaged in LOSS.findall(text):
        if run and int(step) < int([*run][-1]):
            yield run
            run = {}
        run |= {step: averaged or loss} if last in (None, end) else {}
    yield run


def of_table(page: str, steps: str, path: str) -> Runs:
    """Return the losses of a table of seeds in the page of a result, where it has more runs than logs."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in page.splitlines() if line[:1] == "|"]
    place = next((row.index(f"step {steps}") for row in rows if row[0] == "seed" and f"step {steps}" in row), 0)
    return [(path, {steps: row[place]}) for row in rows if place and row[0].isdigit()]
