"""What would mislead a reader, found in the results themselves: each guard that is violated stands above its table."""

from contrastive.runs.recorded import RecordedSection
from reports.guards import confounds, coverage, identity, scores, whole
from reports.guards.shown import Guard, shown
from reports.load import Results

__all__ = ["Guard", "general", "guards"]

CHECKS = (*coverage.CHECKS, *identity.CHECKS, *confounds.CHECKS, *scores.CHECKS)


def guards(section: RecordedSection, results: Results) -> list[Guard]:
    """The violated guards of a section, what blocks a ranking first."""
    cells = shown(section, results)
    violated = [guard for check in CHECKS for guard in check(section, results, cells)]
    return sorted(violated, key=lambda guard: not guard.blocks_ranking)


def general(results: Results) -> list[Guard]:
    """Those of the report as a whole."""
    return [guard for check in whole.CHECKS for guard in check(results)]
