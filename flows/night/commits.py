"""The commits of this checkout: named, checked out beside it, and what lies between them."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contrastive.errors import UserError
from flows.serve.supervise import CHECKOUT


@contextmanager
def worktree(folder: Path, commit: str) -> Iterator[Path]:
    """A checkout of its own; what was left by one that was killed goes first."""
    code = folder / "code"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", str(code), commit)
        yield code
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune", check=False)


def check_out(commit: str, code: Path) -> None:
    """In a worktree, without what Python has compiled of another commit."""
    git("checkout", "--quiet", "--force", "--detach", commit, at=code)
    git("clean", "--quiet", "--force", "-dx", at=code)


def commits_after(since: str, code: Path = CHECKOUT) -> Iterator[list[str]]:
    """Commits after another one: id and subject, the newest first; nothing where Git cannot say."""
    if since:
        said = git("log", "-n50", "--format=%h%x09%s", f"{since.rstrip('+')}..HEAD", at=code, check=False).stdout
        yield from (line.split("\t", 1) for line in said.splitlines())


def with_subject(commit: str) -> str:
    return git("log", "-1", "--format=%h %s", commit).stdout.strip()


def short_commit(commit: str) -> str:
    return git("rev-parse", "--short", commit).stdout.strip()


def commit_of(name: str) -> str:
    asked = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if asked.returncode:
        raise UserError(f"{CHECKOUT} has no commit {name}")
    return asked.stdout.strip()


def git(*arguments: str, at: Path = CHECKOUT, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["git", "-C", str(at), *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done
