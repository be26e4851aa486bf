"""What a study that stops by itself may take."""

import re

from contrastive.errors import UserError

MOST_SEEDS = 200  # that anybody may ask for
TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
UNITS = (3600.0, 60.0, 1.0)


def budget_seconds(text: str) -> float:
    """Of 2h, 90m, 1h30m or 45s."""
    parts = TIME.fullmatch(text)
    seconds = sum(float(n) * unit for n, unit in zip(parts.groups(), UNITS, strict=True) if n) if parts else 0.0
    if seconds <= 0:
        raise UserError(f"the budget is `{text}`: give a time such as 45s, 90m, 2h or 1h30m")
    return seconds


def check_study(until_decided: bool, max_seeds: int | None, budget: str | None) -> None:
    """What a command says of a study, before anything heavy is imported."""
    if not until_decided and (max_seeds is not None or budget is not None):
        raise UserError("--max-seeds and --budget are about --until-decided: add that, or leave them out")
    if budget is not None:
        budget_seconds(budget)
