from pathlib import Path

import pytest

from tests.contrastive.cells.mutations import TEXTS


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "texts.csv"
    path.write_text(TEXTS)
    return f"file:{path}"
