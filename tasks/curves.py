"""The curves of a cell on their way to MLflow while it trains."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from contrastive.runs import claim, store
from tasks.record import fresh_run, log_curves, params_of
from tasks.tracking import explain_mlflow, find_run, open_tracker

logger = logging.getLogger(__name__)


class CurveWriter:
    """Sends the new lines of a cell's metrics.jsonl while it trains. Gives up quietly: `record_cell` sends the rest."""

    def __init__(self, home: Path, experiment: str, folder: Path, name: str):
        self.home, self.experiment, self.folder, self.name = home, experiment, folder, name
        self.client: MlflowClient | None = None
        self.run_id = ""
        self.earlier = claim.latest(folder)
        self.attempt, self.file, self.read, self.lines = "", 0, 0, 0  # the log of the attempt at work: bytes, and lines
        self.sent = 0  # lines; an attempt that goes on from a checkpoint begins with lines that were sent before
        self.broken = False

    def send_new(self) -> tuple[str, int] | None:
        """Sends what is new, and says how far the work is; None before it has begun."""
        attempt = claim.latest(self.folder)
        if attempt == self.earlier:
            return None
        if attempt != self.attempt:
            self.attempt, self.read, self.lines = attempt, 0, 0
        new = self._new_lines(self.folder / "attempts" / attempt / "metrics.jsonl")
        if new and not self.broken:
            try:
                self._send([json.loads(line) for line in new])
            except Exception as error:
                self.broken = True
                logger.warning("curves of %s wait until it is recorded: %s", self.name, explain_mlflow(error))
        return self.attempt, self.read

    def _new_lines(self, log: Path) -> list[bytes]:
        """The whole lines after those that were read, but for those that an earlier attempt had sent."""
        try:
            with open(log, "rb") as file:
                if (inode := os.fstat(file.fileno()).st_ino) != self.file:
                    # handed on whole by an earlier attempt, it was cut where the checkpoint was taken: another file
                    self.file, self.read, self.lines = inode, 0, 0
                file.seek(self.read)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:  # not there yet, or just moved to the run folder
            return []
        self.read += len(whole + end)
        lines = whole.splitlines()
        sent_before = max(0, self.sent - self.lines)
        self.lines += len(lines)
        return lines[sent_before:]

    def _send(self, rows: list[dict[str, Any]]) -> None:
        if self.client is None:
            self.client = open_tracker(self.home)
            with store.locked(self.home / "locks" / "mlflow"):
                earlier = find_run(self.client, self.experiment, "ablate.cell", self.folder.name)
                self.run_id = fresh_run(self.client, self.experiment, self.folder, self.name, earlier, {})
                log_curves(self.client, self.run_id, [], params=params_of(self.folder))
        log_curves(self.client, self.run_id, rows)
        self.sent += len(rows)
