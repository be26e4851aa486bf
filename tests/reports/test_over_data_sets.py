"""One number a configuration, over several data sets."""

import pytest

from reports.compare import compare
from reports.over_data_sets import across
from tests.reports.made import made

NAME = "test.accuracy"
SCORES = {
    "ce tweets": [0.70, 0.71],
    "ce reviews": [0.90, 0.92],
    "new tweets": [0.72, 0.74],
    "new reviews": [0.91, 0.93],
}
AXES = {label: dict(zip(("loss", "source"), label.split(), strict=True)) for label in SCORES}
DATA = {label: label.split()[1] for label in SCORES}


def tables(seeds: int, labels: tuple[str, ...] = tuple(SCORES)):
    values = {label: {NAME: SCORES[label][:seeds]} for label in labels}
    part, results = made(values, data=DATA, axes=AXES)
    return across(part, compare(part, results), results)


def test_each_configuration_has_the_middle_of_all_its_data_sets():
    (table,) = tables(seeds=2)
    rows = {row[0].text.en: row[1] for row in table.rows}
    assert set(rows) == {"ce", "new"} and "2 data sets" in table.caption.en
    assert (
        rows["ce"].value == pytest.approx((0.71 + 0.90) / 2)
        and "–" in rows["ce"].text.en
        and len(rows["ce"].cells) == 4
    )


def test_one_seed_has_no_interval():
    (table,) = tables(seeds=1)
    assert [row[1].text.en for row in table.rows] == ["0.8000", "0.8150"]


def test_configurations_on_other_data_sets_are_not_put_beside_each_other():
    assert tables(2, ("ce tweets", "ce reviews", "new tweets")) == []
