"""Rules of others beside ours: that they are what they are called, and that the benchmark writes its tables."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import comparator_peers as peers
from benchmarks import comparator_rules as rules
from benchmarks.comparator_banks import banks
from benchmarks.comparator_rules import Studies

ROOT = Path(__file__).parents[2]
GENERATOR = np.random.default_rng(0)
VALUES = GENERATOR.standard_normal((20, 3, 8)) + np.array([0.0, 1.5, -3.0])[:, None]


def studies(paired: bool, values: np.ndarray = VALUES) -> Studies:
    return Studies(values, np.tile([1.5, -3.0], (len(values), 1)), 2**0.5, paired, smallest=1.0, rope=0.1)


@pytest.mark.slow
def test_the_quick_benchmark_writes_its_tables(tmp_path: Path):
    file = tmp_path / "comparators.md"
    command = [sys.executable, "-m", "benchmarks.comparators", "4", "--quick", "--into", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    assert text.count("\n## ") == 3 and text.count("| t and Holm | 4 |") == 3 and " nan" not in text


@pytest.mark.parametrize("paired", [True, False])
def test_t_is_scipys(paired: bool):
    p, *_ = rules.t_of(studies(paired), 5)
    for study, found in zip(VALUES[:, :, :5], p, strict=True):
        for row, own in zip(study[1:], found, strict=True):
            expected = stats.ttest_rel(row, study[0]) if paired else stats.ttest_ind(row, study[0], equal_var=False)
            assert own == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("paired", [True, False])
def test_permutations_are_scipys(paired: bool):
    p = rules.permutation_p(studies(paired), 5)
    for study, found in zip(VALUES[:4, :, :5], p, strict=False):
        kind = "samples" if paired else "independent"
        expected = stats.permutation_test(
            (study[1], study[0]), lambda x, y, axis: x.mean(axis) - y.mean(axis), permutation_type=kind, vectorized=True
        )
        assert found[0] == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("paired", [True, False])
def test_bca_is_nearly_scipys(paired: bool):
    _, low, high = rules.bca_limits(studies(paired), 8, 0.05)
    for number, study in enumerate(VALUES[:3]):
        if paired:
            drawn = stats.bootstrap((study[1] - study[0],), np.mean, n_resamples=9999, rng=1)
        else:
            drawn = stats.bootstrap(
                (study[1], study[0]), lambda x, y, axis: x.mean(axis) - y.mean(axis), n_resamples=9999, rng=1
            )
        assert np.allclose((low[number, 0], high[number, 0]), drawn.confidence_interval, atol=0.25)


def test_an_e_process_calls_a_row_when_its_interval_leaves_zero_and_seldom_without_a_difference():
    said = rules.e_process(studies(True), 8)
    assert ((said.signs != 0) == ((said.low > 0) | (said.high < 0))).all() and (said.signs[:, 1] <= 0).all()
    nothing = studies(True, np.random.default_rng(1).standard_normal((2000, 3, 15)))
    assert 0 < (rules.e_process(nothing, 15).signs != 0).any(1).mean() <= 0.05
    assert (rules.t_until_significant(nothing, 15).signs != 0).any(1).mean() > 0.1


def test_rows_run_until_they_are_called_and_the_first_as_long_as_any():
    said = rules.gsprt(studies(True), 8)
    assert (said.runs[:, 0] == said.runs[:, 1:].max(1)).all() and (said.runs[:, 1:][said.signs == 0] == 8).all()


def test_adastop_calls_a_large_difference_with_its_sign():
    apart = studies(False, VALUES[:3] + np.array([0.0, 8.0, -8.0])[:, None])
    for patched in (True, False):
        said = peers.adastop_of(patched)(apart, 8)
        assert (said.signs == [1, -1]).all() and (said.runs <= 8).all()


def test_studies_of_boards_have_the_differences_that_they_say():
    for bank in banks(300)[1:]:
        scale = bank.apart["3 sd"].sigma / 2**0.5
        assert np.abs(bank.alike.truth).max() == 0
        apart = bank.apart["3 sd"].apart(15).mean(2) - bank.apart["3 sd"].truth
        assert np.abs(apart.mean(0)).max() < 4 * scale / 300**0.5
