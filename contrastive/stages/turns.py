"""Cells that train in turns in one process, a step of each after the other, so that they share what is the same: the
encoder's frozen weights, and each pass of its frozen blocks that begins with the same tokens and random numbers.

No bit of a cell depends on those it trains with.
"""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive.reuse.passes import Passes
from contrastive.runs import claim
from contrastive.stages import stages
from contrastive.stages.request import Asked


def train(asked: dict[Path, Asked]) -> dict[str, dict[str, Any] | None]:
    """Gives what each cell came to, by the name of its folder: a report of why it failed, or None.

    Folders are claimed in the order of their names, so that two that want the same ones never wait for each other.
    """
    passes = Passes(sharing=all(each.speed.reuse != "none" for each in asked.values()))
    turn = itertools.count()  # each begins a step in its turn, and computes what the others share
    running: dict[Path, Any] = {folder: stages.training_cell(folder, asked[folder], passes) for folder in sorted(asked)}
    reports: dict[str, dict[str, Any] | None] = {}
    alone: list[Path] = []
    try:
        while running:
            members, first = list(running.items()), next(turn) % len(running)
            for folder, steps in members[first:] + members[:first]:
                try:
                    next(steps)
                    continue
                except StopIteration:
                    reports[folder.name] = None
                except Exception as error:
                    if isinstance(error, claim.Superseded) or stages.kind(error) == "memory":
                        alone.append(folder)
                    else:
                        reports[folder.name] = stages.fail(folder, error)
                del running[folder]
            passes.forget()
    finally:  # of a stop, which may be kept with all that it passed through
        for steps in running.values():
            steps.close()
    return reports | {folder.name: by_itself(folder, asked[folder]) for folder in alone}


def by_itself(folder: Path, asked: Asked) -> dict[str, Any] | None:
    """One that others have left no room for, or that another process has taken over."""
    return stages.attempt(stages.train_cell, folder, folder, replace(asked, together=1))
