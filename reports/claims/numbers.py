"""The frames that a report left beside itself, and the comparisons of a section made of them again."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from reports.compare import Comparisons
from reports.pairs_of_rows import RowPairs
from reports.tables import VERDICTS

NAMES = ("section", "label", "variant", "against", "verdict", "effect", "shown", "cell", "status", "score")
LISTS = ("only_ours", "only_theirs", "mcnemar")
Seeds = dict[tuple[str, str, str], dict[int, float]]


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
        """(section, label, score) → seed → value, computed from the results alone."""
        found: Seeds = {}
        known = self.results[self.results["status"] == "finished"]
        names = ("section", "label", "variant", "score", "seed", "value")
        for section, label, variant, score, seed, value in zip(*(known[name] for name in names), strict=True):
            if pd.notna(value):
                name = f"{label} · {variant}" if isinstance(variant, str) and variant else label
                found.setdefault((section, name, score), {})[int(seed)] = float(value)
        return found

    def of(self, section: str) -> Comparisons:
        """A section's comparisons, as the sentences and tables of the report are made of them."""
        frame = self.comparisons[self.comparisons["section"] == section].assign(cells=None)
        frame["cells"] = [[] for _ in range(len(frame))]
        frame["tested"] = frame["tested"].astype(bool)
        frame["against"] = frame["against"].where(frame["verdict"].isin(list(VERDICTS)))
        for name in LISTS:
            frame[name] = [json.loads(one) if isinstance(one, str) and one else None for one in frame[name]]
        limits = {
            value: None if math.isnan(smallest) else float(smallest)
            for value, smallest, against in zip(frame["value"], frame["detectable"], frame["against"], strict=True)
            if pd.notna(against)
        }
        here = self.results[self.results["section"] == section]
        seeds = int(here.groupby("row")["cell"].nunique().min()) if len(here) else 0
        ranked = bool(frame["bold"].any())
        # which values are ranked is known of a section that has bold; what each pair's p-value was is not
        none: Any = None
        pairs: dict[str, RowPairs] = {str(value): none for value in frame.loc[frame["tested"], "value"] if ranked}
        return Comparisons(frame, pairs, limits, int(frame["p_holm"].notna().sum()), seeds, ranked)

    def effects_of(self, section: str) -> dict[str, pd.DataFrame]:
        here = self.effects[self.effects["section"] == section]
        return {str(value): frame for value, frame in here.groupby("value", sort=False)}


def frame_of(path: Path) -> pd.DataFrame:
    """A label may be empty, or look like a number or like nothing at all: `NA`."""
    heads = pd.read_csv(path, nrows=0).columns
    named = [name for name in heads if name in NAMES or name.startswith("axis.") or name == "value"]
    named = [name for name in named if not (name == "value" and "score" in heads)]  # there it is the number
    numbers: dict[str, Any] = {name: [""] for name in heads if name not in named}
    return pd.read_csv(
        path,
        dtype=dict.fromkeys(named, str),
        keep_default_na=False,
        na_values=numbers,
        low_memory=False,
    )
