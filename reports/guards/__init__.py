"""Warnings above a table: what in the results would mislead a reader.

`same.SAME` lists what must be equal in all cells of a section, and `rows.ROWS` what must hold of each row. A check that
needs more than a line in a table is a function beside it.
"""

from contrastive.runs.recorded import RecordedSection
from reports.guards import report, rows, same
from reports.guards.rows import Guard, section_cells
from reports.load import Results

__all__ = ["Guard", "general", "guards"]

CHECKS = (*rows.CHECKS, *same.CHECKS, *same.SCORE_CHECKS)


def guards(section: RecordedSection, results: Results) -> list[Guard]:
    """The warnings of a section; those that forbid to rank come first."""
    cells = section_cells(section, results)
    found = [guard for check in CHECKS for guard in check(section, results, cells)]
    return sorted(found, key=lambda guard: not guard.blocks_ranking)


def general(results: Results) -> list[Guard]:
    """The warnings of the report as a whole."""
    return [guard for check in report.CHECKS for guard in check(results)]
