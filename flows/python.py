"""Experiments from Python, as `ablate.load` gives them: plan, run, results as a data frame, and figures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive.errors import UserError
from contrastive.grid.choose import candidates, settled
from contrastive.grid.load import anchored, load_experiment
from contrastive.grid.messages import comma_list
from contrastive.grid.plan import make_plan
from contrastive.runs import store

RESULTS = ["section", "row", "against", "score", "seeds", "mean", "deviation", "difference", "half_width", "verdict"]


@dataclass(frozen=True)
class Figure:
    """A figure of a report, which notebooks show."""

    path: Path

    def _repr_svg_(self) -> str | None:
        return self.path.read_text(encoding="utf-8") if self.path.suffix == ".svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.path.read_bytes() if self.path.suffix == ".png" else None


@dataclass(frozen=True)
class Experiment:
    """An experiment file and what is known of it."""

    file: Path
    name: str

    def plan(self) -> pd.DataFrame:
        """Return a line for each cell: what `run` would do with it. While values of `choose` are not chosen, the cells
        that choose them."""
        resolved = load_experiment(self.file)
        plan = make_plan(settled(resolved) or candidates(resolved.experiment))
        lines = [(each.action, each.id, plan.name(each.cell), each.why) for each in plan.statuses.values()]
        return pd.DataFrame(lines, columns=["action", "id", "cell", "why"])

    def run(self, *options: str) -> "Experiment":
        """Train and evaluate what is missing, and write the report, in a process of its own, whose lines go to stderr.
        Options are those of `ablate run`, such as `"--until-decided"`."""
        from flows.panel import run_ablate

        exit_code, output = run_ablate(["run", str(self.file), *options])
        if exit_code:
            raise UserError(f"`ablate run {self.file}` failed:\n{output}")
        return self

    def results(self) -> pd.DataFrame:
        """Return a line for each row and score, with its difference to the baseline and the verdict."""
        from reports.build import compare_sections
        from reports.export import comparison_line
        from reports.load import load as load_results
        from tasks.address import tracking_uri

        results = load_results(self.name, tracking_uri(store.home()))
        sections = [section for _fired, section in compare_sections(results)]
        lines = pd.DataFrame([comparison_line(score, section) for section in sections for score in section.scores])
        names = {"label": "row", "value": "score", "difference_half_width": "half_width"}
        frame = lines.drop(columns="row").rename(columns=names)
        frame["row"] = frame["variant"] + frame["row"]
        return frame[RESULTS]

    def figure(self, name: str = "forest") -> Figure:
        """Return a figure of the report."""
        folder = store.report_folder(self.name) / "figures"
        found = {path.stem: path for path in sorted(folder.glob("*"))}
        if name not in found:
            there = f"there are {comma_list(list(found))}" if found else "run the experiment first"
            raise UserError(f"the report has no figure {name}; {there}")
        return Figure(found[name])

    def report(self) -> Path:
        """Return the path of the report's page."""
        return store.report_folder(self.name) / "index.html"


def load(source: str | Path | Mapping[str, Any]) -> Experiment:
    """Load an experiment: a file, or the settings that it would have. Settings are kept as a file below the home; their
    relative paths start at the working directory."""
    if isinstance(source, Mapping):
        file = store.home() / "written" / f"{source.get('name', 'unnamed')}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(anchored(dict(source), Path.cwd()), ensure_ascii=False, indent=1), encoding="utf-8")
    else:
        file = Path(source)
    return Experiment(file, load_experiment(file).experiment.name)
