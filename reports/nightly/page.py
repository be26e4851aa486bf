"""The nightly report in English and Chinese, from MLflow alone, byte for byte the same from the same nights."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.errors import UserError
from reports.markdown import plain
from reports.messages import FILES, Said, _, joined, using
from reports.nightly.alarms import false_alarms, repeated
from reports.nightly.history import read_history
from reports.nightly.judgement import Judgement
from reports.nightly.measured import Metric, Night, Rules, rules_of
from reports.nightly.settings import Nightly
from reports.nightly.verdict import judge_by_documents

SHOWN = 30  # nights of the history
ORDER = ("measured nothing", "regressed", "improved", "inconclusive", "unchanged")
VERDICTS = {
    "measured nothing": _("measured nothing"),
    "regressed": _("regressed"),
    "improved": _("improved"),
    "inconclusive": _("inconclusive"),
    "unchanged": _("unchanged"),
}
HEADINGS = _("Metric|Now|Before|Difference|Detectable|p (corrected)|Verdict")


@dataclass(frozen=True)
class NightlyResult:
    """The report of the last night, and what of it is told elsewhere."""

    path: Path
    night: Night
    judgements: Sequence[Judgement]

    @property
    def failing(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.fails]

    @property
    def headline(self) -> str:
        return str(headline(self.judgements))


def write_nightly(uri: str, output: Path) -> NightlyResult:
    """README.md and README.zh.md of the last night."""
    recorded = read_history(uri)
    nights = recorded.nights
    if not nights:
        left_out = f" ({recorded.older} of an older version are left out)" if recorded.older else ""
        raise UserError(f"MLflow holds no night yet{left_out}: `ablate nightly` measures one")
    judged, rules = judge_by_documents(nights), rules_of(nights[-1])
    for language, name in FILES.items():
        with using(language):
            replace_page(output / name, text(nights, judged, rules, recorded.older))
    return NightlyResult(output / "README.md", nights[-1], judged[-1])


def replace_page(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(content, encoding="utf-8")
    os.replace(fresh, path)


def text(
    nights: Sequence[Night],
    judged: Sequence[Sequence[Judgement]],
    rules: Rules,
    older: int = 0,
) -> str:
    blocks: list[Said] = [
        _("# Nightly: {verdicts}", verdicts=headline(judged[-1])),
        situation(nights, rules.settings, older),
        *judgement_tables(judged[-1]),
        *bulleted(WITHOUT_RESULT, failed(nights[-1])),
        *bulleted(_("## Commits since the last good night"), since_good(nights, judged)),
        HOW_SCORES,
        HOW_TIMINGS,
        alarms(nights, rules.metrics, rules.settings),
        _("## Nights"),
        history(nights, judged),
    ]
    return as_page(blocks)


def as_page(blocks: Sequence[Said]) -> str:
    return "\n\n".join(map(str, blocks)) + "\n"


WITHOUT_RESULT = _("## Cells without a result")
HOW_SCORES = _(
    "Scores are compared by the statistics of all reports, paired by seed. One that is the same at "
    "every seed is unchanged. One that moved is called where its interval leaves 0 and the difference"
    " is larger than its margin, and is unchanged where the interval lies within ± margin. The "
    "intervals of all scores that moved hold together: half of what may err is for the panel's means,"
    " half for single configurations. Detectable is what would be seen four times of five."
)
HOW_TIMINGS = _(
    "Timings are compared with the window; ± is half of a 95 % interval, in percent. A change has to "
    "stand out of the spread between cells and of that between nights, be larger than its margin, and"
    " be seen again the next night."
)


def headline(judgements: Sequence[Judgement]) -> Said:
    """Counts of the verdicts, and the names of what failed or improved."""
    said = list[Said]()
    for verdict in ORDER:
        names = [plain(judgement.metric.name) for judgement in judgements if judgement.verdict == verdict]
        if names:
            count = _("{count} {verdict}", count=len(names), verdict=VERDICTS[verdict])
            named = verdict in ("measured nothing", "regressed", "improved")
            said.append(_("{verdict} ({names})", verdict=count, names=joined(names, _(", "))) if named else count)
    return joined(said, _(", "))


def situation(nights: Sequence[Night], settings: Nightly, older: int) -> Said:
    night, commit = nights[-1], nights[-1].document["commit"]
    epochs = list(dict.fromkeys(member.epoch for member in nights))
    members = [member for member in nights if member.epoch == night.epoch]
    window = members[: settings.window]
    said = [
        _(
            "Night of {when}, commit {commit}. Environment {number} of {count}, since {since}: scores are compared "
            "with that night, timings with a window of {window} of {settings} nights, to {to}.",
            when=night.when, commit=commit or _("unknown"), number=epochs.index(night.epoch) + 1, count=len(epochs),
            since=members[0].when, window=len(window), settings=settings.window, to=window[-1].when,
        )
    ]  # fmt: skip
    if len(members) == 1 and len(nights) > 1:
        changed = plain(", ".join(environment_changes(nights[-2].document, night.document)))
        said.append(_("**New environment**, tonight is its first night: {changed}.", changed=changed))
    if older:
        said.append(_("Nights of an older version of ablate are left out: {older}.", older=older))
    return joined(said, _(" "))


def environment_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is another one in the environment of two nights."""
    old, new = before["environment"], now["environment"]
    names = dict.fromkeys((*old, *new))
    return [f"{n} {old.get(n, '–')} → {new.get(n, '–')}" for n in names if old.get(n) != new.get(n)]


def judgement_tables(judgements: Sequence[Judgement]) -> list[Said]:
    """Of the panel, and of its configurations."""
    whole, parts = ([said for said in judgements if said.metric.is_part == part] for part in (False, True))
    tables: list[Said] = [judgement_table(whole)]
    return [*tables, _("## Configurations"), judgement_table(parts)] if parts else tables


def judgement_table(judgements: Sequence[Judgement]) -> str:
    rows = [
        [
            plain(judgement.metric.name),
            level(judgement.metric, judgement.tonight),
            level(judgement.metric, judgement.baseline),
            difference_shown(judgement),
            change(judgement.metric, judgement.detectable, sign=False),
            "" if math.isnan(judgement.p) else f"{judgement.p:.4f}",
            verdict_in_words(judgement),
        ]
        for judgement in sorted(judgements, key=lambda judgement: ORDER.index(judgement.verdict))
    ]
    return markdown_table([str(HEADINGS).split("|"), *rows])


def level(metric: Metric, value: float) -> str:
    return "" if math.isnan(value) else f"{metric.shown(value):.4g}"


def difference_shown(judgement: Judgement) -> str:
    width = change(judgement.metric, judgement.half_width, sign=False)
    return f"{change(judgement.metric, judgement.difference)} ± {width}" if width else ""


def change(metric: Metric, value: float, sign: bool = True) -> str:
    if math.isnan(value):
        return ""
    if metric.is_timing:
        return f"{100 * math.expm1(min(value, 9.0)):{'+' if sign else ''}.1f} %"
    return f"{value:{'+' if sign else ''}.4f}"


def verdict_in_words(judgement: Judgement) -> str:
    said, why = str(VERDICTS[judgement.verdict]), str(judgement.why)
    strong = f"**{said}**" if judgement.verdict in ("regressed", "measured nothing", "improved") else said
    return f"{strong}: {why}" if why else strong


def failed(night: Night) -> list[str]:
    return [plain(line) for line in night.document["failed"]]


def since_good(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]]) -> list[str]:
    """The commits of the nights after the last one in which nothing failed; of a good night, what it brought."""
    good = [number for number, night in enumerate(judged[:-1]) if not any(judgement.fails for judgement in night)]
    after = nights[good[-1] + 1 :] if good else nights[-1:]
    brought = [line for night in reversed(after) for line in night.document["commits"]]
    return [f"{commit} {plain(subject)}" for commit, subject in brought]


def alarms(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> Said:
    same, repeats = repeated(nights, metrics)
    count, judged = false_alarms(nights, metrics, settings)
    share = f" ({count / judged:.1%})" if judged else ""
    return _(
        "A/A: of {repeats} nights with the commit of the night before {same} gave every score the same "
        "bits. Timings of one half of the cells against the other half, by the same test and before any "
        "confirmation: {count} false alarms in {judged} nights{share}; {false_alarms:.1%} are allowed.",
        repeats=repeats,
        same=same,
        count=count,
        judged=judged,
        share=share,
        false_alarms=settings.false_alarms,
    )


def history(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]]) -> str:
    epochs = list(dict.fromkeys(night.epoch for night in nights))
    headings = str(_("Night|Commit|Environment|Verdict")).split("|")
    rows = [
        [
            night.when,
            night.document["commit"],
            str(epochs.index(night.epoch) + 1),
            str(headline(judgements)),
        ]
        for night, judgements in zip(nights, judged, strict=True)
    ]
    return markdown_table([headings, *reversed(rows[-SHOWN:])])


def bulleted(heading: Said, items: Sequence[str]) -> list[Said]:
    return [heading, "\n".join(f"- {item}" for item in items)] if items else []


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "| " + " | ".join(":--" for _ in rows[0]) + " |", *rest])
