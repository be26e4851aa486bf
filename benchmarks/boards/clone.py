"""A clone of a repository, bare or not, read through git at HEAD."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from contrastive.errors import UserError, brief


@dataclass(frozen=True)
class Clone:
    """Clone of a repository."""

    path: Path

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(self.path), *words], capture_output=True)
        if done.returncode:
            raise UserError(f"git {words[0]} fails in {self.path}: {brief(done.stderr.decode(errors='replace'))}")
        return done.stdout.decode(errors="replace")

    def files(self, folder: str) -> list[str]:
        return [name for name in self.git("ls-tree", "-r", "-z", "--name-only", "HEAD", folder).split("\0") if name]

    def read(self, path: str) -> str:
        return self.git("show", f"HEAD:{path}")

    def commit(self) -> tuple[str, str]:
        """Return the commit that is read, and its day."""
        commit, day = self.git("log", "-1", "--format=%H %cs").split()
        return commit, day
