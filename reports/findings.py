"""What can be concluded, in sentences made of the statistics and of nothing else.

`reports.claims` reads them again in the finished report and holds each against the numbers.
"""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from reports.bilingual import Words
from reports.compare import Comparisons
from reports.markdown import MARKDOWN, Markup, heading, number, probability, signed, symbol
from reports.statistics import ALPHA, POWER


def findings(comparisons: Comparisons, effects: dict[str, pd.DataFrame], to: Markup = MARKDOWN) -> list[Words]:
    """Of one section: what differs from its baseline, what could not be shown, which are tied, which axes matter."""
    values = list(dict.fromkeys(comparisons.frame["value"]))
    single = [sentence for value in values for sentence in difference_sentences(comparisons, value, to)]
    return [
        *(single if len(single) <= MOST else ()),
        *(
            sentence
            for kind in COUNTED
            if len(single) > MOST
            for sentence in count_sentences(comparisons, values, kind, to)
        ),
        *(sentence for value in values for sentence in axes(effects.get(value), value, to)),
        *(sentence for kind in OPEN for sentence in count_sentences(comparisons, values, kind, to)),
        *ties(comparisons, to),
    ]


def difference_sentences(comparisons: Comparisons, value: str, to: Markup) -> Iterator[Words]:
    name, count = heading(value, to), comparisons.hypotheses
    for line in comparisons.lines.get(value, []):
        if line["verdict"] not in ("better", "worse"):
            continue
        ours, theirs = number(line["mean"]), number(line["mean"] - line["difference"])
        size = f"{signed(line['difference'])} ± {number(line['difference_half_width'])}"
        label, against, p = to.text(line["label"]), to.text(line["against"]), equals(line["p_holm"])
        chinese = "优于" if line["verdict"] == "better" else "劣于"
        yield Words(
            f"{label} is {line['verdict']} than {against} in {name}: {ours} against {theirs}, a difference of {size} "
            f"({p} after Holm over {count} comparisons).",
            f"{label} 在 {name} 上{chinese} {against}：{ours} 对 {theirs}，差异为 {size}"
            f"（对 {count} 项比较作 Holm 校正后 {p}）。",
        )


def equals(value: float) -> str:
    text = probability(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


MOST = 10  # differences of a section that are told one by one
COUNTED = {
    "better": Words("better than their baseline are", "优于各自的基线"),
    "worse": Words("worse than their baseline are", "劣于各自的基线"),
}
# Comparisons that found nothing, by the reason: found nothing is not the same as could not find.
OPEN = {
    "not shown": Words("no difference to the baseline is shown by", "未显示与基线的差异"),
    "no room": Words("so few seeds cannot settle", "种子太少，无法判断"),
    "blocked": Words("the notes above the table forbid", "表上方的提示不允许作以下比较"),
    "no results": Words("there are no results at the same seeds for", "没有相同种子的结果"),
    "one seed": Words(
        "there is one seed, so that no difference can be called real, in", "只有一个随机种子，无法断言差异真实"
    ),
    "no spread": Words("seeds that do not differ leave nothing to test with in", "随机种子之间没有差别，无法检验"),
}


def reason(line: dict[Any, Any]) -> str:
    """Its verdict; for one that was impossible, why."""
    if line["verdict"] == "not comparable":
        return "no results" if line["common"] == 0 else "blocked"
    if line["verdict"] != "impossible":
        return str(line["verdict"])
    if math.isfinite(line["p_holm"]):
        return "no room"
    return "one seed" if line["common"] < 2 else "no spread"


def count_sentences(comparisons: Comparisons, values: list[str], kind: str, to: Markup) -> Iterator[Words]:
    """One sentence of all scores, with what would have been found where there was a test."""
    english, chinese = [], []
    for value in values:
        lines = comparisons.lines.get(value, [])
        count, smallest = sum(reason(line) == kind for line in lines), comparisons.detectable.get(value)
        if not count:
            continue
        name, limit = heading(value, to), ("", "")
        if smallest is not None and kind in ("not shown", "no room"):
            limit = (f" ({number(smallest)} would have been found)", f"（可发现 {number(smallest)}）")
        english.append(f"{count} of {len(lines)} comparisons in {name}{limit[0]}")
        chinese.append(f"{name} 的 {len(lines)} 项比较中有 {count} 项{limit[1]}")
    if english:
        said = (COUNTED | OPEN)[kind]
        yield Words(f"{said.en} {', '.join(english)}.", f"{said.zh}：{'，'.join(chinese)}。")


def ties(comparisons: Comparisons, to: Markup) -> Iterator[Words]:
    """How many configurations are tied with the best: where all are, the table ranks nothing."""
    english, chinese = [], []
    for value in comparisons.pairs:
        frame = comparisons.frame[comparisons.frame["value"] == value]
        count, name = int(frame["bold"].sum()), heading(value, to)
        english.append(f"{count} of {len(frame)} configurations in {name}")
        chinese.append(f"{name} 的 {len(frame)} 种配置中有 {count} 种")
    if english:
        yield Words(f"tied with the best are {', '.join(english)}.", f"与最佳者并列：{'，'.join(chinese)}。")


def axes(frame: pd.DataFrame | None, value: str, to: Markup) -> Iterator[Words]:
    name = heading(value, to)
    for line in [] if frame is None else frame.to_dict("records"):
        if line["p_holm"] < ALPHA:
            effect = " × ".join(to.text(symbol(factor)) for factor in str(line["effect"]).split(" × "))
            share, p = f"{100 * line['share']:.1f}", equals(line["p_holm"])
            yield Words(
                f"{effect} explains {share} % of the variance of {name} ({p} after Holm).",
                f"{effect} 解释了 {name} 方差的 {share} %（Holm 校正后 {p}）。",
            )


BY_TEXT = Words("seed and text", "种子与文本")
BY_SEED = Words("seed", "种子")
PARTLY = Words("seed, and by text where each text is known", "种子（逐文本结果已知时亦按文本）")


def tested(comparisons: Comparisons, to: Markup = MARKDOWN) -> list[Words]:
    """How a section was tested, and what it could not have found: below its tables."""
    lines = comparisons.frame[comparisons.frame["against"].notna()]
    if lines.empty or not comparisons.hypotheses:
        return []
    by_text = lines["over_texts"].fillna(False).astype(bool)
    how = BY_TEXT if by_text.all() else PARTLY if by_text.any() else BY_SEED
    limits = [(heading(v, to), number(s)) for v, s in comparisons.detectable.items() if s is not None]
    english = "; ".join(f"{size} in {name}" for name, size in limits)
    chinese = "；".join(f"{name} 为 {size}" for name, size in limits)
    count, seeds = comparisons.hypotheses, comparisons.seeds
    return [
        Words(
            f"Tested: differences to the baseline paired by {how.en}, Student's t, Holm over {count} comparisons, "
            f"{100 * ALPHA:.0f} %. Found with probability {POWER:.2f}: {english}.",
            f"检验：与基线的差异按{how.zh}配对，学生 t 检验，对 {count} 项比较作 Holm 校正，水平 {100 * ALPHA:.0f} %。"
            f"以 {POWER:.2f} 的概率能发现的差异：{chinese}。",
        ),
        Words(
            f"Without assuming how seeds spread, {seeds} seeds allow no p below {comparisons.smallest_p:.4f}.",
            f"若不对种子间的分布作假设，{seeds} 个种子给不出低于 {comparisons.smallest_p:.4f} 的 p 值。",
        ),
    ]
