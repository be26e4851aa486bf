"""Guards: checks that put a warning above a table whose results would mislead a reader.

`same.SAME` lists what must be equal in all cells of a section, and `rows.ROWS` what must hold for each row. A check
that does not fit into a line of these tables is a function in the same file.
"""

from contrastive.runs.recorded import RecordedSection
from reports.guards import report, rows, same
from reports.guards.rows import Guard, section_cells
from reports.study import Results

__all__ = ["Guard", "general", "guards"]

CHECKS = (*rows.CHECKS, *same.CHECKS, *same.SCORE_CHECKS)


def guards(section: RecordedSection, results: Results) -> list[Guard]:
    """Return the warnings of a section; those that block ranking come first."""
    cells = section_cells(section, results)
    found = [guard for check in CHECKS for guard in check(section, results, cells)]
    return sorted(found, key=lambda guard: not guard.blocks_ranking)


def general(results: Results) -> list[Guard]:
    """Return the warnings of the report as a whole."""
    return [guard for check in report.CHECKS for guard in check(results)]
