"""Make the pages of public boards, from clones of their repositories or from the facts read before.

    python -m benchmarks.boards [CLONE …]

A clone, bare or not, is read at HEAD: its facts become benchmarks/boards/BOARD.csv, its address and commit go to
sources.json. Then each page in reports/output/boards is made from these files, by the code of `ablate report --from`.
"""

import argparse
import json
from pathlib import Path
from types import ModuleType

import pandas as pd

from ablate.columns import choose
from ablate.table import Columns, read
from ablate.verdicts import Verdicts, judge_table
from benchmarks.boards import modded_nanogpt, parameter_golf, peft
from benchmarks.boards.clone import Clone
from contrastive.errors import UserError

BOARDS = {"parameter-golf": parameter_golf, "modded-nanogpt-track-3": modded_nanogpt, "peft-metamathqa": peft}
FACTS = Path("benchmarks/boards")
PAGES = Path("reports/output/boards")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", nargs="*", type=Path, metavar="CLONE")
    try:
        for path in parser.parse_args(arguments).clones:
            read_clone(Clone(path), FACTS)
    except UserError as error:
        parser.exit(2, f"{error}\n")
    for name in BOARDS:
        print(f"{name}: {write_page(name, FACTS, PAGES / name)}")


def read_clone(clone: Clone, folder: Path) -> str:
    """Write the facts of a clone and where they are from; return the name of its board."""
    name, board = board_of(clone)
    facts = pd.DataFrame(board.read(clone))
    facts.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    commit, day = clone.commit()
    sources = folder / "sources.json"
    known = json.loads(sources.read_text(encoding="utf-8")) if sources.exists() else {}
    own = {
        "address": board.ADDRESS,
        "commit": commit,
        "committed": day,
        "folder": board.FOLDER,
        "licence": board.LICENCE,
    }
    known[name] = own | {"rows": facts["row"].nunique(), "runs": len(facts)}
    sources.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return name


def board_of(clone: Clone) -> tuple[str, ModuleType]:
    """Return the board whose folder a clone has."""
    for name, board in BOARDS.items():
        if clone.files(board.FOLDER):
            return name, board
    raise UserError(f"{clone.path} has none of the boards' folders: {', '.join(b.FOLDER for b in BOARDS.values())}")


def verdicts_of(name: str, folder: Path) -> Verdicts:
    """Return what the facts of a board say, as its command does."""
    board, path = BOARDS[name], folder / f"{name}.csv"
    table, columns = choose(read(str(path), ""), Columns(("row",), (board.SCORE,)), False)
    command = f"ablate report --from {path.as_posix()} --row row --score {board.SCORE} {board.ASKED}"
    return judge_table(table, columns, board.QUESTION, command)


def write_page(name: str, folder: Path, into: Path) -> str:
    """Write the page of a board, and return its headline."""
    verdicts = verdicts_of(name, folder)
    verdicts.report(into)
    return str(verdicts)


if __name__ == "__main__":
    main()
