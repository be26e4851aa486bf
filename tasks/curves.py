"""Send the training curves of a cell to MLflow while it trains."""

import json
from pathlib import Path

from mlflow import MlflowClient

from contrastive.runs import claim, store
from tasks.record import Row, fresh_run, log, params_of
from tasks.tracking import find_runs, open_tracker, or_warning


class CurveWriter:
    """Sends the new lines of a cell's metrics.jsonl while it trains; after a failure `record_cell` sends the rest."""

    def __init__(self, home: Path, experiment: str, folder: Path, name: str):
        self.home, self.experiment, self.folder, self.name = home, experiment, folder, name
        self.client: MlflowClient | None = None
        self.run_id = ""
        self.earlier = claim.latest_attempt(folder)
        self.seen = "", 0  # current attempt, and bytes of its log
        self.lines = 0
        self.sent = 0  # lines; an attempt that resumes from a checkpoint begins with the earlier ones
        self.broken = False

    def send_new(self) -> tuple[str, int] | None:
        """Send new lines; return the attempt and the bytes of its log, or None before the attempt has begun."""
        attempt = claim.latest_attempt(self.folder)
        if attempt == self.earlier:
            return None
        try:
            whole, end, _ = (self.folder / "attempts" / attempt / "metrics.jsonl").read_bytes().rpartition(b"\n")
        except FileNotFoundError:  # not there yet, or just moved to the run folder
            return self.seen if self.seen[0] == attempt else (attempt, 0)
        lines = whole.splitlines()
        self.seen, self.lines = (attempt, len(whole + end)), len(lines)
        if self.lines > self.sent and not self.broken:
            self.broken = True  # stays set if sending fails
            with or_warning(f"the curves of {self.name} are sent when it is recorded"):
                self._send([json.loads(line) for line in lines[self.sent :]])
                self.broken = False
        return self.seen

    def _send(self, rows: list[Row]) -> None:
        """Send lines; the first call also creates the run, which replaces earlier runs of the cell, and its params."""
        params = dict[str, str]()
        if self.client is None:
            self.client, params = open_tracker(self.home), params_of(self.folder)
            with store.locked(self.home / "locks" / "mlflow"):
                earlier_runs = find_runs(self.client, self.experiment, "ablate.cell", self.folder.name)
                self.run_id = fresh_run(self.client, self.experiment, self.folder, earlier_runs)
        log(self.client, self.run_id, rows, scores={}, params=params, tags={})
        self.sent += len(rows)
