"""Guards: checks that put a warning above a table, or the whole report, whose results would mislead a reader.

`same` checks that cells of a section differ only in its axes, `results` looks for missing and odd results, `tuning`
names limits of a finding. Guards of the whole report are here: changed declarations, odd data.
"""

from collections.abc import Iterator
from itertools import pairwise

from contrastive.runs.recorded import Declaration, RecordedSection
from reports.guards.results import ABSENT, ODD, Guard, section_cells
from reports.guards.same import CHECKS
from reports.guards.tuning import tuning
from reports.messages import _, listed, n_
from reports.provenance import dropped_sentence, named, rows_dropped
from reports.study import Results

__all__ = ["Guard", "changed_declarations", "general", "guards", "tuning"]

MUCH = 0.05  # a data set with more than this share of its rows dropped gets a warning


def guards(section: RecordedSection, results: Results) -> list[Guard]:
    """Return the warnings of a section; those that block ranking come first."""
    cells = section_cells(section, results)
    fired = [guard for check in (*ABSENT, *CHECKS, *ODD) for guard in check(section, results, cells)]
    return sorted(fired, key=lambda guard: not guard.blocks_ranking)


def general(results: Results) -> list[Guard]:
    """Return the warnings of the report as a whole."""
    return [guard for check in REPORT_CHECKS for guard in check(results)]


def redeclared(results: Results) -> Iterator[Guard]:
    """Warn of declarations (margins, rows, seeds …) that were made or changed after there were results."""
    declared = results.study.declared
    if declared and (count := declared[0].finished):
        words = n_(
            "{count} cell had results before the analysis was declared.",
            "{count} cells had results before the analysis was declared.",
            count,
        )
        yield Guard("declared", words)
    for before, after in pairwise(declared):
        if changes := list(changed_declarations(before, after)):
            words = n_(
                "Changed after {count} cell had results: {changes}.",
                "Changed after {count} cells had results: {changes}.",
                after.finished,
                changes=_("; ").join(changes),
            )
            yield Guard("declared", words)


def changed_declarations(before: Declaration, after: Declaration) -> Iterator[str]:
    """Yield a phrase for each change between two declarations."""
    old, new = rules(before), rules(after)
    for name in sorted({*old, *new}):
        was, now = old.get(name, "none"), new.get(name, "none")
        if was != now:
            yield _("{name} from {was} to {now}", name=name, was=was, now=now)
    if before.tried and after.tried and before.tried != after.tried:
        yield _("the values to choose from: {values}", values=listed(after.tried, most=20))
    for title in sorted({*before.configurations, *after.configurations}):
        yield from changed_rows(title, before, after)


def rules(declaration: Declaration) -> dict[str, str]:
    """Return how results are judged: name of a rule → its value."""
    margins, families = declaration.margins.items(), declaration.families.items()
    return {
        **{_("the margin of {name}", name=name): f"{margin:g}" for name, margin in margins},
        **{_("the tested scores of “{title}”", title=title): ", ".join(sorted(names)) for title, names in families},
        _("the compared embeddings"): " / ".join(["those that trained", *(declaration.embeddings or [])]),
        _("the test examples"): " / ".join(declaration.test_texts),
        _("the seeds"): design(declaration),
        **{_("the value of “{row}”", row=row): chosen for row, chosen in declaration.chosen.items()},
    }


def changed_rows(title: str, before: Declaration, after: Declaration) -> Iterator[str]:
    """Yield a phrase for rows of a section that were added or removed, and for another baseline: by their settings,
    since labels depend on the other rows."""
    old, new = (declaration.configurations.get(title, {}) for declaration in (before, after))
    if added := [label for key, label in new.items() if key not in old]:
        yield _("rows added to “{title}”: {names}", title=title, names=listed(added))
    if removed := [label for key, label in old.items() if key not in new]:
        yield _("rows removed from “{title}”: {names}", title=title, names=listed(removed))
    old_keys, new_keys = (declaration.baselines.get(title, []) for declaration in (before, after))
    if old and new and {*old_keys} != {*new_keys}:
        was, now = listed([old[key] for key in old_keys]), listed([new[key] for key in new_keys])
        yield _("the baseline of “{title}” from {was} to {now}", title=title, was=was, now=now)


def design(declaration: Declaration) -> str:
    if declaration.most_seeds is not None:
        return _("as many as needed to decide, at most {most}", most=declaration.most_seeds)
    return _("{seeds}, fixed in advance", seeds=", ".join(map(str, declaration.seeds)))


def much_dropped(results: Results) -> Iterator[Guard]:
    """Warn of data sets that lost more than the share MUCH of their rows."""
    for data in results.study.data:
        for part, counts in data.sifted.items():
            if rows_dropped(counts) > MUCH * counts["rows"]:
                yield Guard("dropped", dropped_sentence(part, data, counts))


def odd_texts(results: Results) -> Iterator[Guard]:
    """Warn of texts without any known token, which all get the same embedding, and of labels that differ only in
    spelling."""
    for data in results.study.data:
        if counts := [f"{part} {count}" for part, count in data.wordless.items() if count]:
            words = _(
                "Texts{of} without any token that the tokenizer knows: {parts}.", of=named(data), parts=listed(counts)
            )
            yield Guard("wordless", words)
        if data.merged:
            labels = _("; ").join(_(" and ").join(spellings) for spellings in data.merged.values())
            words = _("Labels{of} that were merged into one class: {labels}.", of=named(data), labels=labels)
            yield Guard("merged", words)


REPORT_CHECKS = (redeclared, much_dropped, odd_texts)
