"""What the data sets of a grid are measured against, as far as that has been computed."""

from pathlib import Path
from typing import Any

from contrastive.evaluation import reference
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.runs import store


def known_references(plan: Plan) -> list[dict[str, Any]]:
    """The references as far as they have been computed, each with the name of its data; where each seed draws its
    training texts, their means over the draws."""
    references = []
    for name, folders in data_folders(plan).items():
        measured = [reference.known_scores(folder, store.home(), test) for folder, test in folders]
        references += [one | {"data": name} for one in reference.mean_of_draws(measured)]
    return references


def data_folders(plan: Plan) -> dict[str, list[tuple[Path, Path]]]:
    """Name of the data → tokens of it and of the test texts, for each draw of its training texts; those of the first
    cell, since a reference reads the texts alone."""
    return {
        name: [(tokens_folder(plan.token_key(cell)), tokens_folder(plan.test_key(cell))) for cell in cells]
        for name, cells in plan.data_cells().items()
    }
