"""Describe where a cell's numbers came from: commit, packages and hardware; never part of the cell's identity."""

import os
import platform
import resource
import subprocess
import sys
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from contrastive.config.registry import PACKAGE_ROOT

PACKAGES = ("torch", "transformers", "peft", "accelerate", "numpy", "scikit-learn")


def describe_run(device: str) -> dict[str, Any]:
    return {
        "commit": commit(),
        "finished": time.strftime("%Y-%m-%d", time.gmtime()),
        "packages": packages(),
        "hardware": {
            "device": device,
            "cpu": processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        },
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


@cache  # reading them takes as long as all else that a cell of nothing does
def packages() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


@cache  # the process keeps the code that it loaded, even if files change later
def commit() -> str:
    """Return the Git commit of the code, with + if the working tree differs from it; empty if Git does not have the
    code, as that of an installed package.

    Workers that received a copy of the code read it from ABLATE_COMMIT.
    """
    if "ABLATE_COMMIT" in os.environ:
        return os.environ["ABLATE_COMMIT"]
    git = ["git", "-C", str(PACKAGE_ROOT)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", "contrastive"], capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.strip() else "")


@cache
def processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
