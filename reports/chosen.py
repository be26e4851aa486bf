"""Values that were chosen for rows on validation texts: a table of all that were tried, and sentences."""

from contrastive.runs.recorded import ChosenRow, RecordedSection
from reports.markdown import heading, score_text
from reports.messages import _, listed, n_
from reports.study import Results, Study
from reports.tables import Entry, Table

BARS = "▁▂▃▄▅▆▇█"


def chosen_of(section: RecordedSection, results: Results) -> list[ChosenRow]:
    return [each for each in results.study.chosen if each.section == section.title and each.tried]


def given_rows(study: Study) -> list[str]:
    """Return the names of the rows that write a value themselves which is chosen for others."""
    return list(dict.fromkeys(each.row for each in study.chosen if not each.tried))


def chosen_sentences(section: RecordedSection, results: Results) -> list[str]:
    """Say how values were chosen, for which rows not, and which are at the edge of what was tried."""
    rows, choice = chosen_of(section, results), results.study.choice
    if not rows or choice is None:
        return []
    words = n_(
        "The values of {names} were chosen for each row by {score} at seed {seeds}.",
        "The values of {names} were chosen for each row by {score} at seeds {seeds}.",
        len(choice.seeds),
        names=listed(choice.names),
        score=heading(choice.by),
        seeds=listed(choice.seeds),
    )
    lines = [words]
    given = [each for each in results.study.chosen if each.section == section.title and not each.tried]
    lines += [_("Not chosen: {row}, whose row gives {value}.", row=each.row, value=each.chosen) for each in given]
    alike = dict[tuple[str, ...], list[str]]()
    for row in section.rows:
        alike.setdefault(tuple(row.cells), []).append(row.label)
    same = [labels for labels in alike.values() if len(labels) > 1]
    lines += [_("With the chosen values, {rows} are the same training.", rows=listed(labels)) for labels in same]
    return lines


def chosen_table(section: RecordedSection, results: Results) -> Table | None:
    """Return the mean score of each value that was tried, the chosen one in bold; None if nothing was chosen."""
    rows, choice = chosen_of(section, results), results.study.choice
    if not rows or choice is None:
        return None
    tried = list(dict.fromkeys(value for each in rows for value in each.tried))
    body = [
        [Entry(each.row), Entry(bars(each, tried)), *(tried_entry(each, value, choice.by) for value in tried)]
        for each in rows
    ]
    caption = _("What was chosen, by {score}", score=heading(choice.by))
    return Table(caption, [_("Configuration"), "", *tried], body, folded=True)


def bars(row: ChosenRow, tried: list[str]) -> str:
    """Return a bar for each value that the row tried, from its lowest score to its highest; a dot where training
    diverged."""
    means = [row.tried[value] for value in tried if value in row.tried]
    known = [mean for mean in means if mean is not None]
    low, width = min(known), max(known) - min(known) or 1.0
    return "".join("·" if mean is None else BARS[round((mean - low) / width * (len(BARS) - 1))] for mean in means)


def tried_entry(row: ChosenRow, value: str, score: str) -> Entry:
    if value not in row.tried:
        return Entry("")
    mean = row.tried[value]
    return Entry(_("diverged") if mean is None else score_text(score, mean), mean, bold=value == row.chosen)
