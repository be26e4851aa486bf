import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ABLATE = [sys.executable, "-c", "from flows.cli import main; main()"]


def ablate(settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ABLATE, *arguments], cwd=CHECKOUT, env=os.environ | settings, capture_output=True, text=True, timeout=120
    )
