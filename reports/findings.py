"""What can be concluded, in sentences made of the statistics and of nothing else.

`claims.py` reads them again in the finished report and holds each against the numbers.
"""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from reports.compare import ALPHA, POWER, Comparisons
from reports.text import heading, number, plain, probability, signed, symbol
from reports.words import Words


def findings(comparisons: Comparisons, effects: dict[str, pd.DataFrame], section: str) -> list[Words]:
    """Of one section: what differs from its baseline, what could not be shown, which are tied, which axes matter."""
    return [
        sentence.of(plain(section))
        for value in dict.fromkeys(comparisons.frame["value"])
        for sentence in (
            *against_baseline(comparisons, value),
            *best(comparisons, value),
            *axes(effects.get(value), value),
        )
    ]


class Sentence(Words):
    """About one section, which it does not name itself."""

    def of(self, section: str) -> Words:
        return Words(f"{section}: {self.en}", f"{section}：{self.zh}")


def against_baseline(comparisons: Comparisons, value: str) -> Iterator[Sentence]:
    lines = comparisons.tested(value).to_dict("records")
    name = heading(value)
    for line in lines:
        if line["verdict"] in ("better", "worse"):
            yield difference(line, name, comparisons.hypotheses)
    open_ones = [line for line in lines if line["verdict"] == "not shown"]
    smallest = comparisons.detectable.get(value)
    if open_ones and smallest is not None:
        yield Sentence(
            f"{len(open_ones)} of {len(lines)} comparisons in {name} show no difference to the baseline; one of "
            f"{number(smallest)} would have been found with probability {POWER:.2f}.",
            f"{name} 的 {len(lines)} 项比较中，{len(open_ones)} 项未显示与基线的差异；"
            f"大小为 {number(smallest)} 的差异有 {POWER:.2f} 的概率被发现。",
        )
    shut = [line for line in lines if line["verdict"] == "impossible"]
    if shut:
        yield impossible(shut, lines, name, smallest)


def difference(line: dict[str, Any], name: str, hypotheses: int) -> Sentence:
    ours, theirs = number(line["mean"]), number(line["mean"] - line["difference"])
    half, p = number(line["difference_half_width"]), probability(line["p_holm"])
    size, equals = f"{signed(line['difference'])} ± {half}", "p " if p.startswith("<") else "p = "
    label, against = plain(line["label"]), plain(line["against"])
    chinese = "优于" if line["verdict"] == "better" else "劣于"
    return Sentence(
        f"{label} is {line['verdict']} than {against} in {name}: {ours} against {theirs}, a difference of {size} "
        f"({equals}{p} after Holm over {hypotheses} comparisons).",
        f"{label} 在 {name} 上{chinese} {against}：{ours} 对 {theirs}，差异为 {size}"
        f"（对 {hypotheses} 项比较作 Holm 校正后 {equals}{p}）。",
    )


def impossible(shut: list[dict[str, Any]], lines: list[dict[str, Any]], name: str, smallest: float | None) -> Sentence:
    """No test, or one that could have found only what there cannot be: this is no result."""
    count = f"{len(shut)} of {len(lines)}"
    if all(line["seeds"] < 2 for line in shut):
        return Sentence(
            f"for {count} comparisons in {name} there is one seed, so that no difference can be called real.",
            f"{name} 的 {len(lines)} 项比较中，{len(shut)} 项只有一个随机种子，无法断言任何差异是真实的。",
        )
    if smallest is None or all(not math.isfinite(line["p_holm"]) for line in shut):
        return Sentence(
            f"for {count} comparisons in {name} there is no spread between seeds to test with.",
            f"{name} 的 {len(lines)} 项比较中，{len(shut)} 项的随机种子之间没有差别，无法检验。",
        )
    return Sentence(
        f"for {count} comparisons in {name} no difference could have been shown: only one of {number(smallest)} would "
        f"have been found with probability {POWER:.2f}, and there is no room for it.",
        f"{name} 的 {len(lines)} 项比较中，{len(shut)} 项不可能显示差异：只有大小为 {number(smallest)} 的差异才有 "
        f"{POWER:.2f} 的概率被发现，而分数范围容不下它。",
    )


def best(comparisons: Comparisons, value: str) -> Iterator[Sentence]:
    """How many configurations are tied with the best: where all are, the table ranks nothing."""
    if value not in comparisons.pairs:
        return
    frame = comparisons.frame[comparisons.frame["value"] == value]
    count, name = int(frame["bold"].sum()), heading(value)
    if count == len(frame):
        yield Sentence(
            f"all {count} configurations are tied with the best in {name}.",
            f"全部 {count} 种配置在 {name} 上与最佳者并列。",
        )
    elif count:
        yield Sentence(
            f"{count} of {len(frame)} configurations are tied with the best in {name}.",
            f"{len(frame)} 种配置中有 {count} 种在 {name} 上与最佳者并列。",
        )


def axes(frame: pd.DataFrame | None, value: str) -> Iterator[Sentence]:
    name = heading(value)
    for line in [] if frame is None else frame.to_dict("records"):
        if line["p_holm"] < ALPHA:
            effect = " × ".join(plain(symbol(one)) for one in str(line["effect"]).split(" × "))
            share, p = f"{100 * line['share']:.1f}", probability(line["p_holm"])
            equals = "p " if p.startswith("<") else "p = "
            yield Sentence(
                f"{effect} explains {share} % of the variance of {name} ({equals}{p} after Holm).",
                f"{effect} 解释了 {name} 方差的 {share} %（Holm 校正后 {equals}{p}）。",
            )


def tested(comparisons: Comparisons) -> list[Words]:
    """How a section was tested, and what it could not have found: below its tables."""
    lines = comparisons.frame[comparisons.frame["against"].notna()]
    if lines.empty or not comparisons.hypotheses:
        return []
    by_text = lines["over_texts"].fillna(False).astype(bool)
    how, wie = ("seed and text", "种子与文本") if by_text.all() else ("seed, and by text where each text is known", "种子（逐文本结果已知时亦按文本）") if by_text.any() else ("seed", "种子")
    limits = [(heading(v), number(s)) for v, s in comparisons.detectable.items() if s is not None]
    detail = "; ".join(f"{size} in {name}" for name, size in limits)
    genau = "；".join(f"{name} 为 {size}" for name, size in limits)
    count, seeds = comparisons.hypotheses, comparisons.seeds
    return [
        Words(
            f"Tested: differences to the baseline paired by {how}, Student's t, Holm over {count} comparisons, "
            f"{100 * ALPHA:.0f} %. Found with probability {POWER:.2f}: {detail}.",
            f"检验：与基线的差异按{wie}配对，学生 t 检验，对 {count} 项比较作 Holm 校正，水平 {100 * ALPHA:.0f} %。"
            f"以 {POWER:.2f} 的概率能发现的差异：{genau}。",
        ),
        Words(
            f"Without assuming how seeds spread, {seeds} seeds allow no p below {comparisons.smallest_p:.4f}.",
            f"若不对种子间的分布作假设，{seeds} 个种子给不出低于 {comparisons.smallest_p:.4f} 的 p 值。",
        ),
    ]
