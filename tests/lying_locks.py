"""A shared file system whose locks do not hold between machines: a library that lets every flock succeed."""

import subprocess
from pathlib import Path


def lying_locks(folder: Path) -> dict[str, str]:
    """Return the environment of programs that run on such a file system."""
    source, library = folder / "lie.c", folder / "lie.so"
    source.write_text("int flock(int file, int operation) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}
