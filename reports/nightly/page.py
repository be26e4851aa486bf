"""The nightly report in English and Chinese, from MLflow alone, byte for byte the same from the same nights."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.errors import UserError
from reports.bilingual import LANGUAGES, Language, Words
from reports.markdown import plain
from reports.nightly.alarms import false_alarms
from reports.nightly.history import nights as read
from reports.nightly.measured import Metric, Night, Rules, rules_of
from reports.nightly.settings import Nightly
from reports.nightly.verdict import Judgement, judge_by_documents

SHOWN = 30  # nights of the history
ORDER = ("measured nothing", "regressed", "improved", "inconclusive", "unchanged")
VERDICTS = {
    "measured nothing": Words("measured nothing", "未测得"),
    "regressed": Words("regressed", "退步"),
    "improved": Words("improved", "进步"),
    "inconclusive": Words("inconclusive", "无定论"),
    "unchanged": Words("unchanged", "无变化"),
}
HEADINGS = Words(
    "Metric|Tonight|Baseline|Difference|Detectable|p (Holm)|Verdict", "指标|今晚|基线|差值|可检出差值|p（Holm）|结论"
)
NAMES = {"README.md": "en", "README.zh.md": "zh"}


@dataclass(frozen=True)
class Said:
    """The report of the last night, and what of it is told elsewhere."""

    path: Path
    night: Night
    judgements: Sequence[Judgement]

    @property
    def failing(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.fails]

    @property
    def headline(self) -> str:
        return headline(self.judgements).en


def write_nightly(uri: str, output: Path) -> Said:
    """README.md and README.zh.md of the last night."""
    nights = read(uri)
    if not nights:
        raise UserError("MLflow holds no night yet: `ablate nightly` measures one")
    judged, rules = judge_by_documents(nights), rules_of(nights[-1])
    output.mkdir(parents=True, exist_ok=True)
    for name, language in NAMES.items():
        assert language in LANGUAGES
        fresh = output / f".{name}"
        fresh.write_text(text(nights, judged, rules, language), encoding="utf-8")
        os.replace(fresh, output / name)
    return Said(output / "README.md", nights[-1], judged[-1])


def text(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]], rules: Rules, language: Language) -> str:
    rest = [judgement for judgement in judged[-1] if judgement.metric.is_part]
    configurations: list[Words | str] = (
        [Words("## Configurations", "## 各配置"), judgement_table(rest, language)] if rest else []
    )
    blocks: list[Words | str] = [
        Words("# Nightly: ", "# 夜间回归：").in_language(language) + headline(judged[-1]).in_language(language),
        situation(nights, judged, rules.settings).in_language(language),
        judgement_table([judgement for judgement in judged[-1] if not judgement.metric.is_part], language),
        *configurations,
        *bulleted(Words("## Cells without a result", "## 没有结果的单元"), failed(nights[-1])),
        *bulleted(
            Words("## Commits since the last good night", "## 上一个正常夜晚以来的提交"), since_good(nights, judged)
        ),
        HOW,
        alarms(nights, rules.metrics, rules.settings),
        Words("## Nights", "## 历次"),
        history(nights, judged, language),
    ]
    return "\n\n".join(block if isinstance(block, str) else block.in_language(language) for block in blocks) + "\n"


HOW = Words(
    "Each metric is compared with the first nights of this environment, paired by seed; a difference is ± half of its "
    "95 % interval, of timings in percent. It has to stand out of the spread between seeds and of that between "
    "nights, after Holm's correction over the metrics of a night, be larger than the practical minimum, and be "
    "confirmed: quality by a second run in the same night, timings by the next night. Detectable is what would be "
    "seen four times of five.",
    "每个指标按种子配对，与本环境最初几晚比较；差值 ± 95 % 区间的一半，计时指标以百分比表示。"
    "变化须超出种子间与夜间波动，经 Holm 校正后显著，大于实际最小值，并得到证实："
    "质量指标由同晚第二次运行证实，计时指标由次晚证实。"
    "可检出差值是五次中能发现四次的变化。",
)


def headline(judgements: Sequence[Judgement]) -> Words:
    """Counts of the verdicts, and the names of what failed or improved."""
    en, zh = [], []
    for verdict in ORDER:
        names = [judgement.metric.name for judgement in judgements if judgement.verdict == verdict]
        if names:
            said = VERDICTS[verdict]
            named = verdict in ("measured nothing", "regressed", "improved")
            en.append(f"{len(names)} {said.en}" + (f" ({', '.join(map(plain, names))})" if named else ""))
            zh.append(f"{len(names)} 项{said.zh}" + (f"（{'、'.join(map(plain, names))}）" if named else ""))
    return Words(", ".join(en), "，".join(zh))


def situation(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]], settings: Nightly) -> Words:
    night, commit = nights[-1], nights[-1].document["commit"]
    epochs = list(dict.fromkeys(member.epoch for member in nights))
    members = [member for member in nights if member.epoch == night.epoch]
    window = members[: settings.window]
    number = epochs.index(night.epoch) + 1
    en = (
        f"Night of {night.when}, commit {commit or 'unknown'}. Environment {number} of {len(epochs)}, since "
        f"{members[0].when}; its window: {len(window)} of {settings.window} nights, to {window[-1].when}."
    )
    zh = (
        f"{night.when} 之夜，提交 {commit or '未知'}。第 {number} 个环境（共 {len(epochs)} 个），始于 "
        f"{members[0].when}；基线窗口：{settings.window} 晚中的 {len(window)} 晚，至 {window[-1].when}。"
    )
    if len(members) == 1 and len(nights) > 1:
        changed = plain(", ".join(environment_changes(nights[-2].document, night.document)))
        en += f" **New environment**, a new window begins: {changed}."
        zh += f" **环境已变**，开始新的基线窗口：{changed}。"
    return Words(en, zh)


def environment_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is another one in the environment of two nights."""
    old, new = before["environment"], now["environment"]
    names = dict.fromkeys((*old, *new))
    return [f"{n} {old.get(n, '–')} → {new.get(n, '–')}" for n in names if old.get(n) != new.get(n)]


def judgement_table(judgements: Sequence[Judgement], language: Language) -> str:
    rows = [
        [
            plain(judgement.metric.name),
            level(judgement.metric, judgement.tonight),
            level(judgement.metric, judgement.baseline),
            difference_in_words(judgement),
            change(judgement.metric, judgement.detectable, sign=False),
            "" if math.isnan(judgement.p) else f"{judgement.p:.4f}",
            verdict_in_words(judgement, language),
        ]
        for judgement in sorted(judgements, key=lambda judgement: ORDER.index(judgement.verdict))
    ]
    return markdown_table([HEADINGS.in_language(language).split("|"), *rows])


def level(metric: Metric, value: float) -> str:
    return "" if math.isnan(value) else f"{metric.shown(value):.4g}"


def difference_in_words(judgement: Judgement) -> str:
    width = change(judgement.metric, judgement.half_width, sign=False)
    return f"{change(judgement.metric, judgement.difference)} ± {width}" if width else ""


def change(metric: Metric, value: float, sign: bool = True) -> str:
    if math.isnan(value):
        return ""
    if metric.is_timing:
        return f"{100 * math.expm1(min(value, 9.0)):{'+' if sign else ''}.1f} %"
    return f"{value:{'+' if sign else ''}.4f}"


def verdict_in_words(judgement: Judgement, language: Language) -> str:
    said, why = VERDICTS[judgement.verdict].in_language(language), judgement.why.in_language(language)
    strong = f"**{said}**" if judgement.verdict in ("regressed", "measured nothing", "improved") else said
    return f"{strong}: {why}" if why else strong


def failed(night: Night) -> list[str]:
    return [plain(line) for run in night.document["runs"] for line in run["failed"]]


def since_good(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]]) -> list[str]:
    """The commits of the nights after the last one in which nothing failed; of a good night, what it brought."""
    good = [number for number, night in enumerate(judged[:-1]) if not any(judgement.fails for judgement in night)]
    after = nights[good[-1] + 1 :] if good else nights[-1:]
    brought = [line for night in reversed(after) for line in night.document["commits"]]
    return [f"{commit} {plain(subject)}" for commit, subject in brought]


def alarms(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> Words:
    count, judged = false_alarms(nights, metrics, settings)
    share = f" ({count / judged:.1%})" if judged else ""
    return Words(
        f"A/A: the same configurations at one half of the seeds against the other half, by the same test and before "
        f"any confirmation: {count} false alarms in {judged} nights{share}; {settings.false_alarms:.1%} are allowed.",
        f"A/A：同样的配置，一半种子对另一半，用同一检验、未经证实：{judged} 晚中有 {count} 次误报{share}；"
        f"允许 {settings.false_alarms:.1%}。",
    )


def history(nights: Sequence[Night], judged: Sequence[Sequence[Judgement]], language: Language) -> str:
    epochs = list(dict.fromkeys(night.epoch for night in nights))
    headings = Words("Night|Commit|Environment|Verdict", "夜晚|提交|环境|结论").in_language(language).split("|")
    rows = [
        [
            night.when,
            night.document["commit"],
            str(epochs.index(night.epoch) + 1),
            headline(judgements).in_language(language),
        ]
        for night, judgements in zip(nights, judged, strict=True)
    ]
    return markdown_table([headings, *reversed(rows[-SHOWN:])])


def bulleted(heading: Words, items: Sequence[str]) -> list[Words | str]:
    return [heading, "\n".join(f"- {item}" for item in items)] if items else []


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "| " + " | ".join(":--" for _ in rows[0]) + " |", *rest])
