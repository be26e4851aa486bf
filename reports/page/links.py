"""Where MLflow's own pages show the runs behind a number."""

import json
from urllib.parse import quote, urlsplit

from reports.load import Results

USUAL = "http://127.0.0.1:5000"  # where `ablate up` serves them


class Links:
    def __init__(self, results: Results) -> None:
        self.base, self.experiment = base(results.uri), results.experiment_id
        self.runs = {cell: run.run_id for cell, run in results.cells.items()}

    def to(self, cells: list[str]) -> str | None:
        """One run's page, or several side by side; None where MLflow knows none of the cells."""
        runs = list(dict.fromkeys(self.runs[cell] for cell in cells if cell in self.runs))
        if not runs:
            return None
        if len(runs) == 1:
            return f"{self.base}/#/experiments/{quote(self.experiment, safe='')}/runs/{quote(runs[0], safe='')}"
        chosen = quote(json.dumps(runs, separators=(",", ":")), safe="")
        return f"{self.base}/#/compare-runs?runs={chosen}&experiments={quote(json.dumps([self.experiment]), safe='')}"


def base(uri: str) -> str:
    """The server that was asked, without the password that it was asked with; else the one of `ablate up`."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return USUAL
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
