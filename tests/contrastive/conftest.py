"""A home, and texts of two classes, made once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

WORDS = ["good", "bad", "fine", "poor", "sunny", "rainy", "happy", "sad", "quick", "slow", "bright", "dark"]


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Texts of two classes, told apart by their words."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "texts.csv"
    lines = ["text,label,same,other,grade"]
    for i in range(160):
        words = random.choice(WORDS[i % 2 :: 2], size=random.integers(2, 9))
        same, other = (" ".join(random.choice(WORDS[(i + off) % 2 :: 2], size=4)) for off in (0, 1))
        lines.append(f"{' '.join(words)} {i},{'ab'[i % 2]},{same} {i},{other},{i % 4}")
    path.write_text("\n".join(lines) + "\n")
    return f"file:{path}"


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of all tests of a file that ask for no `home`, an empty one: what is prepared there is prepared once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ABLATE_HOME", str(folder := tmp_path_factory.mktemp("home")))
        yield folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    return tmp_path
