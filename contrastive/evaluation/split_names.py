"""Under which name embeddings.npz holds a split: more test texts than a cell's own have a place of their own."""

from collections.abc import Iterable

from contrastive.config.evaluation import Evaluation


def larger_split_name(count: int, key: str) -> str:
    """The name of so many test texts; with the key of their tokens, so that other texts have another one."""
    return f"larger.{count}@{key}.test"


def stored_split_name(split: str, evaluation: Evaluation, names: Iterable[str]) -> str:
    """The name of what an evaluation measures as `split`, of those that there are."""
    if split != "test" or evaluation.test is None:
        return split
    begin = larger_split_name(evaluation.test, "").removesuffix(".test")
    return next((name for name in names if name.startswith(begin) and name.endswith(".test")), begin)
