"""The frames that a report left beside itself, and what each section may say, made of them again."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from reports.bilingual import Words
from reports.compare import Comparisons
from reports.findings import findings, tested
from reports.markdown import plain
from reports.pairs_of_rows import RowPairs
from reports.tables import Table, comparison_table, effects_table
from reports.verdicts import COMPARED, TESTED

NAMES = ("section", "label", "variant", "against", "verdict", "effect", "shown", "ended", "cell", "status", "score")
FLAGS = ("unequal", "needs_both")
LISTS = ("only_ours", "only_theirs", "mcnemar")
Seeds = dict[tuple[str, str, str], dict[int, float]]


@dataclass(frozen=True)
class SectionNumbers:
    """What one section may say, made of its numbers again and in no language yet."""

    title: str
    results: pd.DataFrame
    compared: Comparisons
    effects: dict[str, pd.DataFrame]

    @cached_property
    def lines(self) -> list[dict[Any, Any]]:
        """The comparisons, a row a configuration and score."""
        return self.compared.frame.to_dict("records")

    @cached_property
    def findings(self) -> list[Words]:
        return findings(self.compared, self.effects)

    @cached_property
    def tested(self) -> list[Words]:
        return tested(self.compared)

    @cached_property
    def tables(self) -> list[Table]:
        """Those that the frames tell to the last sign."""
        comparison = comparison_table(self.compared)
        effects = [effects_table(frame, value) for value, frame in self.effects.items()]
        return [*([comparison] if comparison else []), *effects]

    @cached_property
    def runs(self) -> list[str]:
        """The cells of each configuration, as the report lists them."""
        cells = self.results.drop_duplicates(["row", "cell"])
        rows: dict[tuple[int, str], list[str]] = {}
        for row, label, cell in zip(cells["row"], cells["label"], cells["cell"], strict=True):
            rows.setdefault((row, label), []).append(cell)
        return [f"- {plain(label)}: {', '.join(ids)}" for (_, label), ids in rows.items()]


@dataclass(frozen=True)
class Numbers:
    """What a report may say. Frames as `results.csv` and `comparisons.csv` hold them."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    effects: pd.DataFrame

    @staticmethod
    def read(folder: Path) -> "Numbers":
        """Those that a report left beside itself."""
        return Numbers(*(frame_of(folder / f"{name}.csv") for name in ("results", "comparisons", "effects")))

    @cached_property
    def titles(self) -> list[str]:
        return list(dict.fromkeys(self.results["section"]))

    @cached_property
    def seeds(self) -> Seeds:
        """(section, label, score) → seed → value of the scores that are compared, from the results alone."""
        values: Seeds = {}
        compared = self.results["score"].isin(self.comparisons["value"].unique())
        finished = self.results[compared & (self.results["status"] == "finished")]
        names = ("section", "label", "variant", "score", "seed", "value")
        for section, label, variant, score, seed, value in zip(*(finished[name] for name in names), strict=True):
            if pd.notna(value):
                name = f"{label} · {variant}" if isinstance(variant, str) and variant else label
                values.setdefault((section, name, score), {})[int(seed)] = float(value)
        return values

    @cached_property
    def sections(self) -> dict[str, SectionNumbers]:
        results, compared, effects = (
            dict(iter(frame.groupby("section"))) for frame in (self.results, self.comparisons, self.effects)
        )
        return {
            title: SectionNumbers(
                title,
                results[title],
                compared_again(compared.get(title, self.comparisons[:0]).copy(), results[title]),
                {str(value): rows for value, rows in effects.get(title, self.effects[:0]).groupby("value", sort=False)},
            )
            for title in self.titles
        }


def compared_again(frame: pd.DataFrame, results: pd.DataFrame) -> Comparisons:
    """A section's comparisons, as the sentences and tables of the report are made of them."""
    frame["cells"] = [[] for _ in range(len(frame))]
    frame["tested"] = frame["tested"].astype(bool)
    frame["against"] = frame["against"].where(frame["verdict"].isin(COMPARED))
    for name in FLAGS:
        frame[name] = [flag is True or flag == "True" for flag in frame[name]]
    for name in LISTS:
        frame[name] = [json.loads(text) if isinstance(text, str) and text else None for text in frame[name]]
    limits = {
        value: None if math.isnan(smallest) else float(smallest)
        for value, smallest, against in zip(frame["value"], frame["detectable"], frame["against"], strict=True)
        if pd.notna(against)
    }
    seeds = int(results.groupby("row")["cell"].nunique().min()) if len(results) else 0
    ranked = bool(frame["bold"].any())
    # which values are ranked is known of a section that has bold; what each pair's p-value was is not
    none: Any = None
    pairs: dict[str, RowPairs] = {str(value): none for value in frame.loc[frame["tested"], "value"] if ranked}
    most = frame["most_seeds"].dropna()
    return Comparisons(
        frame,
        pairs,
        limits,
        int(frame["verdict"].isin(TESTED).sum()),
        seeds,
        ranked,
        most_seeds=int(most.iloc[0]) if len(most) else None,
        ended=str(frame["ended"].iloc[0]) if len(frame) and pd.notna(frame["ended"].iloc[0]) else "",
    )


def frame_of(path: Path) -> pd.DataFrame:
    """A label may be empty, or look like a number or like nothing at all: `NA`."""
    heads = pd.read_csv(path, nrows=0).columns
    named = [name for name in heads if name in NAMES or name.startswith("axis.") or name == "value"]
    named = [name for name in named if not (name == "value" and "score" in heads)]  # there it is the number
    numbers: dict[str, Any] = {name: [""] for name in heads if name not in named}
    return pd.read_csv(
        path,
        dtype=dict.fromkeys(named, object),  # texts as they stand, and several times as quick as pandas' own
        keep_default_na=False,
        na_values=numbers,
        low_memory=False,
    )
