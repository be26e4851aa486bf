"""Whether a finished report says only what its numbers say: every number in bold, every comparison, every sentence.

Reads the Markdown as a reader does. What must stand there is made again from the tidy frames beside it, and nothing
else may: no line of another form. The frames are held against each other: means, half-widths, differences, Holm's
correction and verdicts are computed anew from `results.csv`.
"""

from reports.claims.document import check
from reports.claims.numbers import Numbers

__all__ = ["Numbers", "check"]
