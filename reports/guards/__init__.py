"""Guards: checks that put a warning above a table, or the whole report, whose results would mislead a reader.

`same.SAME` lists what must be equal in all cells of a section. Other checks are functions: of cells beside each other
in `same`, of single rows in `rows`. Those of the whole report are here: changed declarations, stale cells, several
commits or devices, odd data.
"""

from collections.abc import Iterator
from itertools import pairwise

from contrastive.runs.recorded import Declaration, RecordedSection
from reports.guards import rows, same
from reports.guards.rows import Guard, listed, section_cells
from reports.messages import _, n_
from reports.provenance import dropped_sentence, named, rows_dropped
from reports.study import Results

__all__ = ["Guard", "changed_declarations", "general", "guards"]

CHECKS = (*rows.CHECKS, *same.CHECKS, *same.SCORE_CHECKS)
MUCH = 0.05  # a data set with more than this share of its rows dropped gets a warning


def guards(section: RecordedSection, results: Results) -> list[Guard]:
    """Return the warnings of a section; those that block ranking come first."""
    cells = section_cells(section, results)
    found = [guard for check in CHECKS for guard in check(section, results, cells)]
    return sorted(found, key=lambda guard: not guard.blocks_ranking)


def general(results: Results) -> list[Guard]:
    """Return the warnings of the report as a whole."""
    return [guard for check in REPORT_CHECKS for guard in check(results)]


def redeclared(results: Results) -> Iterator[Guard]:
    """Warn of declarations (margins, rows, seeds …) that were made or changed after there were results."""
    if results.study.declared and (count := results.study.declared[0].finished):
        words = n_(
            "{count} cell had results before the analysis was declared.",
            "{count} cells had results before the analysis was declared.",
            count,
        )
        yield Guard("declared", words)
    for before, after in pairwise(results.study.declared):
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
    for name in sorted({*before.margins, *after.margins}):
        was, now = (f"{d.margins[name]:g}" if name in d.margins else "none" for d in (before, after))
        if was != now:
            yield _("the margin of {name} from {was} to {now}", name=name, was=was, now=now)
    for title in sorted({*before.families, *after.families}):
        if title not in before.families or title not in after.families:
            done = _("added") if title in after.families else _("removed")
            yield _("section {title} {done}", title=title, done=done)
            continue
        was, now = (", ".join(sorted(d.families[title])) for d in (before, after))
        if was != now:
            yield _("the tested scores of {title} from {was} to {now}", title=title, was=was, now=now)
        yield from changed_rows(title, before, after)
    if before.embeddings != after.embeddings:
        was, now = (" / ".join(["those that trained", *(d.embeddings or [])]) for d in (before, after))
        yield _("the compared embeddings from {was} to {now}", was=was, now=now)
    if before.test_texts != after.test_texts:
        was, now = (" / ".join(d.test_texts) for d in (before, after))
        yield _("the test examples from {was} to {now}", was=was, now=now)
    old, new = design(before), design(after)
    if old != new:
        yield _("the seeds from {old} to {new}", old=old, new=new)


def changed_rows(title: str, before: Declaration, after: Declaration) -> Iterator[str]:
    old, new = (declaration.configurations[title] for declaration in (before, after))
    if added := [label for key, label in new.items() if key not in old]:
        yield _("rows added to {title}: {names}", title=title, names=listed(added))
    if removed := [label for key, label in old.items() if key not in new]:
        yield _("rows removed from {title}: {names}", title=title, names=listed(removed))
    was, now = (listed([d.configurations[title][key] for key in d.baselines[title]]) for d in (before, after))
    if {*before.baselines[title]} != {*after.baselines[title]}:
        yield _("the baseline of {title} from {was} to {now}", title=title, was=was, now=now)


def design(declaration: Declaration) -> str:
    if declaration.most_seeds is not None:
        return _("as many as needed to decide, at most {most}", most=declaration.most_seeds)
    return _("{seeds}, fixed in advance", seeds=", ".join(map(str, declaration.seeds)))


def stale(results: Results) -> Iterator[Guard]:
    if kept := len(results.study.stale_kept):
        words = _(
            "{kept} cells were kept although the code that computed them has changed since (--keep-stale).", kept=kept
        )
        yield Guard("stale", words)


def mixed(results: Results) -> Iterator[Guard]:
    """Warn of cells from several commits or devices."""
    known = [cell.provenance for cell in results.cells.values() if cell.provenance]
    commits, devices = sorted({p.commit or "unknown" for p in known}), sorted({p.hardware.device for p in known})
    if len(commits) > 1:
        words = _("The cells were computed at {count} commits: {names}.", count=len(commits), names=listed(commits))
        yield Guard("commits", words)
    if len(devices) > 1:
        yield Guard("devices", _("The cells ran on different devices: {names}.", names=listed(devices)))


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
    for data in results.study.data:
        if data.merged:
            labels = _("; ").join(_(" and ").join(spellings) for spellings in data.merged.values())
            words = _("Labels{of} that were merged into one class: {labels}.", of=named(data), labels=labels)
            yield Guard("merged", words)


REPORT_CHECKS = (redeclared, stale, much_dropped, odd_texts, mixed)
