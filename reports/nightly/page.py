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
from reports.nightly.alarms import false_alarms, repeated
from reports.nightly.history import read_history
from reports.nightly.judgement import Judgement
from reports.nightly.measured import Metric, Night, Rules, rules_of
from reports.nightly.settings import Nightly
from reports.nightly.verdict import judge_by_documents

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
    "Metric|Now|Before|Difference|Detectable|p (corrected)|Verdict", "指标|现在|此前|差值|可检出差值|p（校正后）|结论"
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
    recorded = read_history(uri)
    nights = recorded.nights
    if not nights:
        left_out = f" ({recorded.older} of an older version are left out)" if recorded.older else ""
        raise UserError(f"MLflow holds no night yet{left_out}: `ablate nightly` measures one")
    judged, rules = judge_by_documents(nights), rules_of(nights[-1])
    for name, language in NAMES.items():
        assert language in LANGUAGES
        replace_page(output / name, text(nights, judged, rules, language, recorded.older))
    return Said(output / "README.md", nights[-1], judged[-1])


def replace_page(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(content, encoding="utf-8")
    os.replace(fresh, path)


def text(
    nights: Sequence[Night],
    judged: Sequence[Sequence[Judgement]],
    rules: Rules,
    language: Language,
    older: int = 0,
) -> str:
    blocks: list[Words | str] = [
        Words("# Nightly: ", "# 夜间回归：").in_language(language) + headline(judged[-1]).in_language(language),
        situation(nights, rules.settings, older),
        *judgement_tables(judged[-1], language),
        *bulleted(WITHOUT_RESULT, failed(nights[-1])),
        *bulleted(
            Words("## Commits since the last good night", "## 上一个正常夜晚以来的提交"), since_good(nights, judged)
        ),
        HOW_SCORES,
        HOW_TIMINGS,
        alarms(nights, rules.metrics, rules.settings),
        Words("## Nights", "## 历次"),
        history(nights, judged, language),
    ]
    return as_page(blocks, language)


def as_page(blocks: Sequence[Words | str], language: Language) -> str:
    return "\n\n".join(block if isinstance(block, str) else block.in_language(language) for block in blocks) + "\n"


WITHOUT_RESULT = Words("## Cells without a result", "## 没有结果的单元")
HOW_SCORES = Words(
    "Scores are compared by the statistics of all reports, paired by seed. One that is the same at every seed is "
    "unchanged. One that moved is called where its interval leaves 0 and the difference is larger than its margin, and "
    "is unchanged where the interval lies within ± margin. The intervals of all scores that moved hold together: half "
    "of what may err is for the panel's means, half for single configurations. Detectable is what would be seen four "
    "times of five.",
    "质量指标按种子配对，采用与所有报告相同的统计方法。每个种子都相同的指标为无变化。"
    "有变化的指标：区间不含 0 且差值大于其界限时判定进步或退步；区间落在 ± 界限之内时为无变化。"
    "所有有变化的指标的区间同时成立：允许误报的一半用于各配置的均值，一半用于单个配置。"
    "可检出差值是五次中能发现四次的变化。",
)
HOW_TIMINGS = Words(
    "Timings are compared with the window; ± is half of a 95 % interval, in percent. A change has to stand out of the "
    "spread between cells and of that between nights, be larger than its margin, and be seen again the next night.",
    "计时指标与基线窗口比较；± 为 95 % 区间的一半，以百分比表示。"
    "变化须超出单元间与夜间的波动，大于其界限，并在次晚再次出现。",
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


def situation(nights: Sequence[Night], settings: Nightly, older: int) -> Words:
    night, commit = nights[-1], nights[-1].document["commit"]
    epochs = list(dict.fromkeys(member.epoch for member in nights))
    members = [member for member in nights if member.epoch == night.epoch]
    window = members[: settings.window]
    number = epochs.index(night.epoch) + 1
    en = (
        f"Night of {night.when}, commit {commit or 'unknown'}. Environment {number} of {len(epochs)}, since "
        f"{members[0].when}: scores are compared with that night, timings with a window of {len(window)} of "
        f"{settings.window} nights, to {window[-1].when}."
    )
    zh = (
        f"{night.when} 之夜，提交 {commit or '未知'}。第 {number} 个环境（共 {len(epochs)} 个），始于 "
        f"{members[0].when}：质量指标与该晚比较，计时指标与基线窗口比较（{settings.window} 晚中的 {len(window)} 晚，"
        f"至 {window[-1].when}）。"
    )
    if len(members) == 1 and len(nights) > 1:
        changed = plain(", ".join(environment_changes(nights[-2].document, night.document)))
        en += f" **New environment**, tonight is its first night: {changed}."
        zh += f" **环境已变**，今晚是其第一晚：{changed}。"
    if older:
        en += f" Nights of an older version of ablate are left out: {older}."
        zh += f" 未计入旧版本 ablate 的 {older} 晚。"
    return Words(en, zh)


def environment_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is another one in the environment of two nights."""
    old, new = before["environment"], now["environment"]
    names = dict.fromkeys((*old, *new))
    return [f"{n} {old.get(n, '–')} → {new.get(n, '–')}" for n in names if old.get(n) != new.get(n)]


def judgement_tables(judgements: Sequence[Judgement], language: Language) -> list[Words | str]:
    """Of the panel, and of its configurations."""
    whole, parts = ([said for said in judgements if said.metric.is_part == part] for part in (False, True))
    tables: list[Words | str] = [judgement_table(whole, language)]
    return [*tables, Words("## Configurations", "## 各配置"), judgement_table(parts, language)] if parts else tables


def judgement_table(judgements: Sequence[Judgement], language: Language) -> str:
    rows = [
        [
            plain(judgement.metric.name),
            level(judgement.metric, judgement.tonight),
            level(judgement.metric, judgement.baseline),
            difference_shown(judgement),
            change(judgement.metric, judgement.detectable, sign=False),
            "" if math.isnan(judgement.p) else f"{judgement.p:.4f}",
            verdict_in_words(judgement, language),
        ]
        for judgement in sorted(judgements, key=lambda judgement: ORDER.index(judgement.verdict))
    ]
    return markdown_table([HEADINGS.in_language(language).split("|"), *rows])


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


def verdict_in_words(judgement: Judgement, language: Language) -> str:
    said, why = VERDICTS[judgement.verdict].in_language(language), judgement.why.in_language(language)
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


def alarms(nights: Sequence[Night], metrics: Sequence[Metric], settings: Nightly) -> Words:
    same, repeats = repeated(nights, metrics)
    count, judged = false_alarms(nights, metrics, settings)
    share = f" ({count / judged:.1%})" if judged else ""
    return Words(
        f"A/A: of {repeats} nights with the commit of the night before {same} gave every score the same bits. Timings "
        f"of one half of the cells against the other half, by the same test and before any confirmation: {count} false "
        f"alarms in {judged} nights{share}; {settings.false_alarms:.1%} are allowed.",
        f"A/A：与前一晚提交相同的 {repeats} 晚中，{same} 晚的所有质量指标逐位相同。"
        f"计时指标：一半单元对另一半，用同一检验、未经证实：{judged} 晚中有 {count} 次误报{share}；"
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
