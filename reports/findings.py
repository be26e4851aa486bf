"""What can be concluded, in sentences made of the statistics and of nothing else."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from reports.bilingual import Words
from reports.compare import Comparisons
from reports.guards.shown import listed
from reports.markdown import MARKDOWN, Markup, heading, number, probability, signed, symbol
from reports.rows import ANY
from reports.statistics import ALPHA, POWER
from reports.verdicts import DECIDED, TESTED


def findings(comparisons: Comparisons, effects: dict[str, pd.DataFrame], to: Markup = MARKDOWN) -> list[Words]:
    """Of one section: what was decided against its baseline, what was not and what would decide it, which are tied,
    which axes matter."""
    values = list(dict.fromkeys(comparisons.frame["value"]))
    lines = [line for value in values for line in comparisons.lines.get(value, [])]
    decided = [line for line in lines if line["verdict"] in DECIDED]
    undecided = [line for line in lines if line["verdict"] == "undecided"]
    return [
        *stopped(comparisons),
        *told_or_counted(decided, [decided_sentence(line, comparisons, to) for line in decided], lines, to),
        *(sentence for value in values for sentence in axes(effects.get(value), value, to)),
        *told_or_counted(undecided, [undecided_sentence(line, to) for line in undecided], lines, to),
        *counted([line for line in lines if line["verdict"] not in TESTED], lines, to),
        *ties(comparisons, to),
    ]


MOST = 10  # comparisons of a section that are told one by one
STOPPED = {
    "decided": Words("seeds were added until every comparison was decided", "不断增加种子，直到所有比较都已判定"),
    "most seeds": Words("seeds were added up to the most that were allowed", "种子已增加到允许的上限"),
    "budget": Words("the budget ended before every comparison was decided", "预算在所有比较判定之前用尽"),
    "not comparable": Words(
        "no further seeds were added, for what is not decided cannot be compared", "其余未定者无法比较，未再增加种子"
    ),
    "nothing to compare": Words("no further seeds were added, for nothing is compared", "没有可比较的，未增加种子"),
    "": Words("it is not finished: seeds are still to be added", "尚未完成：还要增加种子"),
}


def stopped(comparisons: Comparisons) -> Iterator[Words]:
    """Of a study that stops by itself: with how many seeds it did, and why."""
    if comparisons.most_seeds is None:
        return
    counts, why = comparisons.frame["seeds"], STOPPED[comparisons.ended]
    few, many = int(counts.min()), int(counts.max())
    between = f"{few} to {many}" if few < many else f"{few}"
    yield Words(
        f"{why.en}: {between} a configuration. A difference is over the seeds that both have.",
        f"{why.zh}：每种配置 {between.replace(' to ', ' 至 ')} 个种子。差异基于双方共有的种子。",
    )


def told_or_counted(
    some: list[dict[Any, Any]], sentences: list[Words], lines: list[dict[Any, Any]], to: Markup
) -> list[Words]:
    return sentences if len(sentences) <= MOST else list(counted(some, lines, to))


def decided_sentence(line: dict[Any, Any], comparisons: Comparisons, to: Markup) -> Words:
    name, label, against = heading(line["value"], to), to.text(line["label"]), to.text(line["against"])
    ours, theirs = number(line["mean"]), number(line["mean"] - line["difference"])
    size, limit = with_interval(line), margin_in_words(line)
    if line["verdict"] == "equivalent":
        little = LITTLE[int(line["side"])]
        return Words(
            f"{label} and {against} are equivalent in {name}: the difference, {size}, lies within ± {limit}, which was "
            f"declared too small to matter{little.en}.",
            f"{label} 与 {against} 在 {name} 上等效：差异 {size} 落在声明为无关紧要的 ± {limit} 之内{little.zh}。",
        )
    chinese = "优于" if line["verdict"] == "better" else "劣于"
    return Words(
        f"{label} is {line['verdict']} than {against} in {name}: {ours} against {theirs}, a difference of {size}.",
        f"{label} 在 {name} 上{chinese} {against}：{ours} 对 {theirs}，差异为 {size}。",
    )


LITTLE = {
    1: Words("; it is better, by less than matters", "；它更好，但差异小到无关紧要"),
    0: Words("", ""),
    -1: Words("; it is worse, by less than matters", "；它更差，但差异小到无关紧要"),
}


def undecided_sentence(line: dict[Any, Any], to: Markup) -> Words:
    name, label, against = heading(line["value"], to), to.text(line["label"]), to.text(line["against"])
    needs = what_decides(line)
    return Words(
        f"undecided is {label} against {against} in {name}: {with_interval(line)}. {needs.en}",
        f"{label} 与 {against} 在 {name} 上未定：{with_interval(line)}。{needs.zh}",
    )


def what_decides(line: dict[Any, Any]) -> Words:
    """Seeds or test texts, if the difference is the one that is seen."""
    english, chinese = [], []
    if math.isfinite(line["needs_seeds"]):
        seeds, minutes = int(line["needs_seeds"]), line["needs_seconds"] / 60
        beside = f" ({minutes:.1f} more minutes of training)" if math.isfinite(minutes) else ""
        english.append(f"{seeds} seeds{beside}")
        chinese.append(f"{seeds} 个种子" + (f"（再训练 {minutes:.1f} 分钟）" if math.isfinite(minutes) else ""))
    if math.isfinite(line["needs_texts"]):
        english.append(f"{int(line['needs_texts'])} test texts")
        chinese.append(f"{int(line['needs_texts'])} 条测试文本")
    if not english:
        return Words(
            "Not even 64 seeds and 100 times the test texts would decide a difference of this size.",
            "对这样大小的差异，64 个种子加 100 倍的测试文本也不足以判定。",
        )
    both = Words(" together with ", "加") if line["needs_both"] is True else Words(" or ", "或")
    return Words(
        f"If the difference is the one seen, {both.en.join(english)} would decide it.",
        f"若真实差异即为所见，{both.zh.join(chinese)}可以判定。",
    )


def with_interval(line: dict[Any, Any]) -> str:
    return f"{signed(line['difference'])} ± {number(line['difference_half_width'])}"


def margin_in_words(line: dict[Any, Any]) -> str:
    return f"{line['margin']:g}"


KINDS = {
    "better": Words("better than their baseline are", "优于各自的基线"),
    "worse": Words("worse than their baseline are", "劣于各自的基线"),
    "equivalent": Words("equivalent to their baseline are", "与各自的基线等效"),
    "undecided": Words("undecided are", "未定"),
    "not comparable": Words("the notes above the table forbid", "表上方的提示不允许作以下比较"),
    "no results": Words("there are no results at the same seeds for", "没有相同种子的结果"),
    "one seed": Words(
        "there is one seed, so that no difference can be called real, in", "只有一个随机种子，无法断言差异真实"
    ),
    "no spread": Words("seeds that do not differ leave nothing to test with in", "随机种子之间没有差别，无法检验"),
}


def counted(some: list[dict[Any, Any]], lines: list[dict[Any, Any]], to: Markup) -> Iterator[Words]:
    """One sentence a verdict, of all scores."""
    for kind, said in KINDS.items():
        english, chinese = [], []
        for value in dict.fromkeys(line["value"] for line in some):
            count = sum(line["value"] == value and kind_of(line) == kind for line in some)
            total, name = sum(line["value"] == value for line in lines), heading(value, to)
            if count:
                english.append(f"{count} of {total} comparison{'s' if total > 1 else ''} in {name}")
                chinese.append(f"{name} 的 {total} 项比较中有 {count} 项")
        if english:
            yield Words(f"{said.en} {', '.join(english)}.", f"{said.zh}：{'，'.join(chinese)}。")


def kind_of(line: dict[Any, Any]) -> str:
    """Its verdict; of one that was forbidden, whether there was anything to compare."""
    return "no results" if line["verdict"] == "not comparable" and line["common"] == 0 else str(line["verdict"])


def ties(comparisons: Comparisons, to: Markup) -> Iterator[Words]:
    """How many configurations are tied with the best: where all are, the table ranks nothing."""
    english, chinese = [], []
    for value in comparisons.pairs:
        frame = comparisons.frame[(comparisons.frame["value"] == value) & comparisons.frame["tested"]]
        count, name = int(frame["bold"].sum()), heading(value, to)
        english.append(f"{count} of {len(frame)} configurations in {name}")
        chinese.append(f"{name} 的 {len(frame)} 种配置中有 {count} 种")
    if english:
        yield Words(f"tied with the best are {', '.join(english)}.", f"与最佳者并列：{'，'.join(chinese)}。")


def axes(frame: pd.DataFrame | None, value: str, to: Markup) -> Iterator[Words]:
    name = heading(value, to)
    for line in [] if frame is None else frame.to_dict("records"):
        if line["p"] < ALPHA:
            effect = " × ".join(to.text(symbol(factor)) for factor in str(line["effect"]).split(" × "))
            share, p = f"{100 * line['share']:.1f}", equals(line["p"])
            yield Words(
                f"{effect} explains {share} % of the variance of {name} ({p}).",
                f"{effect} 解释了 {name} 方差的 {share} %（{p}）。",
            )


def equals(value: float) -> str:
    text = probability(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def unequal_note(comparisons: Comparisons) -> list[Words]:
    """Rows that vary from seed to seed otherwise than the rest, so that nothing is pooled with them."""
    if not comparisons.unequal:
        return []
    names = listed(comparisons.unequal)
    return [
        Words(
            "From seed to seed these comparisons seem to vary otherwise than the rest, so that their own spread counts "
            f"beside that of all: {names.en}. They need more seeds.",
            f"以下比较在种子间的波动似与其余不同，其自身的波动也计入：{names.zh}。需要更多种子。",
        )
    ]


def same_note(comparisons: Comparisons) -> list[Words]:
    """Vectors that are the same whatever trained, so that all configurations are one row."""
    labels = dict.fromkeys(comparisons.frame["label"])
    kinds = [label.removeprefix(f"{ANY} · ") for label in labels if label.startswith(f"{ANY} · ")]
    if not kinds:
        return []
    names = listed(kinds)
    return [
        Words(
            f"Nothing that these configurations train reaches these vectors, which are one row: {names.en}.",
            f"这些配置的训练不影响以下向量，因此合为一行：{names.zh}。",
        )
    ]


BY_TEXT = Words("seed and text", "种子与文本")
BY_SEED = Words("seed", "种子")
PARTLY = Words("seed, and by text where each text is known", "种子（逐文本结果已知时亦按文本）")


def tested(comparisons: Comparisons, to: Markup = MARKDOWN) -> list[Words]:
    """How a section was tested, and what it could not have found: below its tables."""
    lines = comparisons.frame[comparisons.frame["verdict"].isin(TESTED)]
    if lines.empty:
        return []
    by_text = lines["over_texts"].fillna(False).astype(bool)
    how = BY_TEXT if by_text.all() else PARTLY if by_text.any() else BY_SEED
    sizes = {value: comparisons.detectable.get(value) for value in dict.fromkeys(comparisons.frame["value"])}
    limits = [(heading(value, to), number(size)) for value, size in sizes.items() if size is not None]
    english = "; ".join(f"{size} in {name}" for name, size in limits)
    chinese = "；".join(f"{name} 为 {size}" for name, size in limits)
    count, sure = comparisons.hypotheses, f"{100 * (1 - ALPHA):.0f} %"
    looks = Words(
        f" It looked several times, at up to {comparisons.most_seeds} seeds; the intervals hold for all looks.",
        f"其间多次查看，最多 {comparisons.most_seeds} 个种子；区间对所有查看同时成立。",
    )
    more = looks if comparisons.most_seeds is not None else Words("", "")
    return [
        Words(
            f"Differences to the baseline, paired by {how.en}; their intervals hold for all {count} "
            f"comparison{'s' if count > 1 else ''} together with {sure}. "
            f"Found with probability {POWER:.2f}: {english}.{more.en}",
            f"与基线的差异按{how.zh}配对，区间以 {sure} 对全部 {count} 项比较同时成立。"
            f"以 {POWER:.2f} 的概率能发现的差异：{chinese}。{more.zh}",
        )
    ]
