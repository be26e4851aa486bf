import math

import pytest

from reports.statistics import Summary, summarise


def test_the_half_width_is_students():
    found = summarise([0.1, 0.2, 0.3])  # t(0.975, 2) = 4.302653, standard deviation 0.1
    assert found.mean == pytest.approx(0.2) and found.half_width == pytest.approx(4.302653 * 0.1 / math.sqrt(3))
    assert found.seeds == 3


def test_one_seed_has_no_half_width_and_no_value_no_summary():
    assert summarise([0.5]) == Summary(0.5, None, 1)
    assert summarise([0.5, math.nan]) == Summary(0.5, None, 1)
    assert summarise([]) is None and summarise([math.nan]) is None
