"""Which rows are compared together."""

from reports.compare import compare
from reports.judge import groups_of
from reports.rows import rows_of
from tests.reports.test_tables import NAME, measured


def test_trained_vectors_form_one_group_and_those_of_each_configuration_another_without_repeats():
    section, results = measured()
    rows = rows_of(section, [NAME], results)
    groups = list(groups_of(rows, NAME, compare(section, results).measured, None))
    labels = [[rows[i].label for i in members] for _, members, _ in groups]
    assert sorted(labels[0]) == ["ce", "new", "other"] and len(labels) == 4
    assert all(len({*group}) == len(group) > 1 for group in labels)
    assert all(len({*pairs}) == len(pairs) for *_, pairs in groups)
