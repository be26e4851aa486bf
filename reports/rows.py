"""The rows of a section's tables: a configuration each, and one of its own for each variant of its vectors."""

from typing import Any

from contrastive.config.evaluation import Transfer
from reports.load import Results


def shown_values(section: dict[str, Any], results: Results) -> list[str]:
    """The scores that a section shows: those of its table, and those of further data where it asks for them."""
    more = transfer_values(results) if section["show"].get("transfer") else []
    return list(dict.fromkeys([*section["show"]["table"]["values"], *more]))


def transfer_values(results: Results) -> list[str]:
    """What each further data set is known for, and their mean, as tables of GLUE have it."""
    tasks = [Transfer.model_validate(task) for task in results.grid["experiment"]["evaluation"]["transfer"]]
    return [task.scores()[0] for task in tasks] + (["transfer.mean"] if len(tasks) > 1 else [])


def variants(values: list[str], results: Results) -> list[str]:
    """What is put before these scores: nothing, and the further vectors and post-processing of which they are known."""
    evaluation = results.grid["experiment"]["evaluation"]
    prefixes = [
        "".join(f"{part}/" for part in (other, how) if part)
        for other in ("", *evaluation.get("vectors", ()))  # a grid of before there were any has none
        for how in ("", *evaluation.get("post", ()))
    ]
    return [p for p in prefixes if not p or any(f"{p}{value}" in results.scores.columns for value in values)]


def rows_of(section: dict[str, Any], values: list[str], results: Results) -> list[dict[str, Any]]:
    """Each with its `variant` and the `place` of its configuration in the section."""
    known = variants(values, results)
    rows = [row | {"place": place} for place, row in enumerate(section["rows"])]
    if known == [""]:
        return [row | {"variant": ""} for row in rows]
    return [
        row
        | {"variant": variant, "axes": row["axes"] | {"embedding": variant.rstrip("/") or "as trained"}}
        | ({"label": f"{row['label']} · {variant.rstrip('/')}"} if variant else {})
        for row in rows
        for variant in known
    ]
