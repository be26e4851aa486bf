"""What concerns the report as a whole."""

from collections.abc import Callable, Iterator
from itertools import pairwise

from contrastive.runs.recorded import Declaration, Provenance
from reports import sifted
from reports.bilingual import Words
from reports.guards.shown import Guard, listed
from reports.load import Results
from reports.markdown import plain

MUCH = 0.05  # of the rows


def redeclared(results: Results) -> Iterator[Guard]:
    """What was decided of how results are judged, after there were some."""
    if results.grid.declared and (count := results.grid.declared[0].finished):
        yield Guard(
            "declared",
            Words(
                f"{count} cell{'s' if count > 1 else ''} had results before it was declared how they are judged.",
                f"在声明如何评判之前，{count} 个单元已有结果。",
            ),
            False,
        )
    for before, after in pairwise(results.grid.declared):
        english, chinese = [], []
        for change in changed_declarations(before, after):
            english.append(change.en)
            chinese.append(change.zh)
        if english:
            count = after.finished
            yield Guard(
                "declared",
                Words(
                    f"Changed when {count} cell{'s' if count > 1 else ''} had results: {'; '.join(english)}.",
                    f"在 {count} 个单元已有结果之后改动：{'；'.join(chinese)}。",
                ),
                False,
            )


def changed_declarations(before: Declaration, after: Declaration) -> Iterator[Words]:
    for name in sorted({*before.margins, *after.margins}):
        was, now = (f"{d.margins[name]:g}" if name in d.margins else "none" for d in (before, after))
        if was != now:
            yield Words(f"the margin of {name} from {was} to {now}", f"{name} 的容差由 {was} 改为 {now}")
    for title in sorted({*before.families, *after.families}):
        if title not in before.families or title not in after.families:
            done = Words("added", "增加") if title in after.families else Words("removed", "删除")
            yield Words(f"the section {title} {done.en}", f"{done.zh}了小节 {title}")
            continue
        was, now = (", ".join(sorted(d.families[title])) for d in (before, after))
        if was != now:
            yield Words(f"what is tested in {title} from {was} to {now}", f"{title} 中检验的指标由 {was} 改为 {now}")
        yield from changed_rows(title, before, after)
    if before.embeddings is not None and after.embeddings is not None and before.embeddings != after.embeddings:
        was, now = (" / ".join(["those that trained", *(d.embeddings or [])]) for d in (before, after))
        yield Words(f"the embeddings that are compared from {was} to {now}", f"比较的嵌入由 {was} 改为 {now}")
    if before.test_texts and after.test_texts and before.test_texts != after.test_texts:
        was, now = (" / ".join(d.test_texts) for d in (before, after))
        yield Words(f"the test texts from {was} to {now}", f"测试文本由 {was} 改为 {now}")
    old, new = design(before), design(after)
    if old.en != new.en:
        yield Words(f"the seeds from {old.en} to {new.en}", f"种子由{old.zh}改为{new.zh}")


def changed_rows(title: str, before: Declaration, after: Declaration) -> Iterator[Words]:
    by_settings = bool(before.configurations and after.configurations)  # not noted by the first versions
    old, new = (
        d.configurations[title] if by_settings else {label: label for label in d.rows.get(title, [])}
        for d in (before, after)
    )
    if added := [label for key, label in new.items() if key not in old]:
        names = listed(added)
        yield Words(f"rows added to {title}: {names.en}", f"{title} 增加了行：{names.zh}")
    if removed := [label for key, label in old.items() if key not in new]:
        names = listed(removed)
        yield Words(f"rows removed from {title}: {names.en}", f"{title} 删除了行：{names.zh}")
    if not by_settings:
        return
    was, now = (listed([d.configurations[title][key] for key in d.baselines[title]]) for d in (before, after))
    if {*before.baselines[title]} != {*after.baselines[title]}:
        yield Words(f"the baseline of {title} from {was.en} to {now.en}", f"{title} 的基线由 {was.zh} 改为 {now.zh}")


def design(declaration: Declaration) -> Words:
    if declaration.most_seeds is not None:
        most = declaration.most_seeds
        return Words(f"as many as decide, at most {most}", f"判定所需（最多 {most} 个）")
    seeds = ", ".join(map(str, declaration.seeds))
    return Words(f"{seeds}, fixed beforehand", f"事先固定的 {seeds}")


def stale(results: Results) -> Iterator[Guard]:
    if kept := len(results.grid.stale_kept):
        yield Guard(
            "stale",
            Words(
                f"{kept} cells were kept although the code that computed them has changed since (--keep-stale).",
                f"有 {kept} 个单元在其代码改动之后仍被保留（--keep-stale）。",
            ),
            False,
        )


def commits(results: Results) -> Iterator[Guard]:
    values = distinct(results, lambda p: p.commit or "unknown")
    if len(values) > 1:
        names = listed(values)
        yield Guard(
            "commits",
            Words(
                f"The cells were computed at {len(values)} commits: {names.en}.",
                f"各单元在 {len(values)} 个提交上计算：{names.zh}。",
            ),
            False,
        )


def devices(results: Results) -> Iterator[Guard]:
    values = distinct(results, lambda p: p.hardware.device)
    if len(values) > 1:
        names = listed(values)
        yield Guard(
            "devices",
            Words(f"The cells ran on different devices: {names.en}.", f"各单元运行于不同的设备：{names.zh}。"),
            False,
        )


def much_dropped(results: Results) -> Iterator[Guard]:
    """Data sets of which so much was dropped that a reader would take them for something else."""
    for part, of, counts in sifted.sifted_parts(results):
        if sifted.rows_dropped(counts) > MUCH * counts["rows"]:
            yield Guard("dropped", sifted.sentence(part, of, counts), False)


def wordless(results: Results) -> Iterator[Guard]:
    """Texts of which the tokenizer leaves nothing: all of them have one embedding."""
    for data in sifted.counted_data(results):
        of = sifted.named(data)
        if counts := {part: count for part, count in data.wordless.items() if count}:
            parts = listed([f"{part} {count}" for part, count in counts.items()])
            yield Guard(
                "wordless",
                Words(
                    f"The tokenizer leaves nothing of some texts{of.en}: {parts.en}.",
                    f"分词后没有任何词元的文本{of.zh}：{parts.zh}。",
                ),
                False,
            )


def merged(results: Results) -> Iterator[Guard]:
    """Labels that differ in how they are written alone."""
    for data in sifted.counted_data(results):
        of, ways = sifted.named(data), data.merged.values()
        if ways:
            english = "; ".join(" and ".join(map(plain, some)) for some in ways)
            chinese = "；".join("、".join(map(plain, some)) for some in ways)
            yield Guard(
                "merged",
                Words(
                    f"Labels{of.en} that were taken for one class: {english}.",
                    f"以下标签{of.zh}写法不同，视为同一类别：{chinese}。",
                ),
                False,
            )


def distinct(results: Results, read: Callable[[Provenance], str]) -> list[str]:
    return sorted({read(cell.provenance) for cell in results.cells.values() if cell.provenance})


CHECKS = (redeclared, stale, much_dropped, wordless, merged, commits, devices)
