"""Tables that are written without pyarrow are those that are written with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reports import export


@pytest.mark.parametrize("kind", ["double", "Int64", "boolean", "str", "object"])
def test_a_csv_file_is_the_same_with_and_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    random = np.random.default_rng(0)
    numbers = random.normal(size=2000) * 10.0 ** random.integers(-30, 30, 2000)
    edges = [0.0, -0.0, 1.0, 1e-7, 1e-6, 1e-5, 1e-4, 9999999999.5, 1e10, 1e16, 5e-324, np.inf, -np.inf, np.nan]
    values = {
        "double": [*numbers, *edges],
        "Int64": [0, -1, 2**62, None],
        "boolean": [True, False, None],
        "str": ["", 'a "b", c', "two\nlines", "数", "1e5", None],
        "object": [None, None],
    }
    frame = pd.DataFrame({"a": pd.Series(values[kind], dtype=kind), 'b,"c"': "="})
    written = []
    for installed in (True, False):
        monkeypatch.setattr(export, "PARQUET", installed)
        export.write_tables(frame, tmp_path)
        written.append((tmp_path / "results.csv").read_bytes())
    assert written[0] == written[1]
