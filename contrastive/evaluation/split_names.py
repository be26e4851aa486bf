"""Names of splits in embeddings.npz; a larger test set (evaluation.test) has a name of its own."""

from collections.abc import Iterable

from contrastive.config.evaluation import Evaluation


def larger_split_name(count: int, key: str) -> str:
    """Return the name of a larger test set of `count` texts; `key` (of its tokens) tells different texts apart."""
    return f"larger.{count}@{key}.test"


def stored_split_name(split: str, evaluation: Evaluation, names: Iterable[str]) -> str:
    """Return the name among `names` under which the texts that `evaluation` measures as `split` are stored."""
    if split != "test" or evaluation.test is None:
        return split
    prefix = larger_split_name(evaluation.test, "").removesuffix(".test")
    return next((name for name in names if name.startswith(prefix) and name.endswith(".test")), prefix)
