"""Reader of modded-nanogpt's Track 3: the loss of each run at the number of steps that its result claims.

`adjusted_loss` is the loss expected at the steps of the shortest result, by what the rules say that steps are worth.
"""

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


def read(clone: Clone) -> list[dict[str, Any]]:
    """Return a line for each run of each result of the history; a run that two files have is taken once."""
    files, lines = clone.files(f"{FOLDER}/results"), []
    for number, steps, count, words, date, log in RESULT.findall(clone.read(f"{FOLDER}/README.md")):
        path = f"{FOLDER}/{log}"
        folder, inside = path.rpartition("/")[0], log.count("/") > 1
        name = log.split("/")[1][9:] if inside else " ".join(LINK.sub(r"\1", words).split()[:6])
        device = re.match(r"[AH]100_|", log.rpartition("/")[2])[0]  # type: ignore[index]
        own = [file for file in files if file.startswith(f"{folder}/{device}")] if inside else [path]
        texts = {file: clone.read(file) for file in own if file.endswith((".txt", ".out", ".stdout"))}
        last = next((match[2] for match in LOSS.finditer(texts.get(path, ""))), None)
        seen = list[tuple[str, dict[str, str]]]()
        for file, text in texts.items():
            for run in runs_of(text, last):
                if steps in run and not any(run.items() <= other.items() for _, other in seen):
                    seen.append((file, run))
        if len(seen) < int(count) and f"{folder}/README.md" in files:
            seen = of_table(clone.read(f"{folder}/README.md"), steps, f"{folder}/README.md") or seen
        lines += [
            {"row": f"#{number} {name}", "date": date.replace("/", "-"), "run": run, "steps": int(steps), "val_loss": float(losses[steps]),
             "file": file}
            for run, (file, losses) in enumerate(seen, 1)
        ]  # fmt: skip
    least = min(line["steps"] for line in lines)
    return [line | {"adjusted_loss": round(line["val_loss"] + A_STEP * (line["steps"] - least), 6)} for line in lines]


def runs_of(text: str, last: str | None) -> Iterator[dict[str, str]]:
    """Yield the losses by step of each run of a log that was meant to be as long as `last`."""
    run = dict[str, str]()
    for step, end, loss, averaged in LOSS.findall(text):
        if run and int(step) < int([*run][-1]):
            yield run
            run = {}
        if last in (None, end):
            run[step] = averaged or loss
    yield run


def of_table(page: str, steps: str, path: str) -> list[tuple[str, dict[str, str]]]:
    """Return the losses of a table of seeds in the page of a result, where it has more runs than logs."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in page.splitlines() if line[:1] == "|"]
    place = next((row.index(f"step {steps}") for row in rows if row[0] == "seed" and f"step {steps}" in row), 0)
    return [(path, {steps: row[place]}) for row in rows if place and row[0].isdigit()]
