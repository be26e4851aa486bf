"""Reference scores (TF-IDF) of the data sets of a grid, where they have been computed."""

from pathlib import Path
from typing import Any

from contrastive.evaluation import reference
from contrastive.grid.plan import Plan, tokens_folder
from contrastive.runs import store


def known_references(plan: Plan) -> list[dict[str, Any]]:
    """Return the references computed so far with the name of their data, each averaged over draws of training texts."""
    references = []
    for name, folders in data_folders(plan).items():
        measured = [reference.known_scores(folder, store.home(), test) for folder, test in folders]
        references += [scored | {"data": name} for scored in reference.mean_of_draws(measured)]
    return references


def data_folders(plan: Plan) -> dict[str, list[tuple[Path, Path]]]:
    """Map each data name to token folders, (data, test texts) for each draw of training texts.

    They are those of the first cell: a reference reads texts only, whatever the tokenizer.
    """
    return {
        name: [(tokens_folder(plan.token_key(cell)), tokens_folder(plan.test_key(cell))) for cell in cells]
        for name, cells in plan.data_cells().items()
    }
