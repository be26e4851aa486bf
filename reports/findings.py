"""What can be concluded, in sentences made of the statistics and of nothing else."""

import math
from collections.abc import Iterator, Sequence

from reports.bilingual import Words
from reports.compare import Comparison, RowScore, Section
from reports.guards.shown import listed
from reports.markdown import MARKDOWN, Markup, heading, number, probability, signed, symbol
from reports.rows import ANY
from reports.section_effects import Effect
from reports.statistics import ALPHA, POWER
from reports.verdicts import DECIDED

Compared = tuple[RowScore, Comparison]


def findings(section: Section, effects: Sequence[Effect], to: Markup = MARKDOWN) -> list[Words]:
    """Of one section: what was decided against its baseline, what was not and what would decide it, which are tied,
    which axes matter."""
    decided = [pair for pair in section.compared if pair[0].verdict in DECIDED]
    undecided = [pair for pair in section.compared if pair[0].verdict == "undecided"]
    return [
        *stopped(section),
        *told_or_counted(decided, [decided_sentence(*pair, to) for pair in decided], section, to),
        *axes(effects, to),
        *told_or_counted(undecided, [undecided_sentence(*pair, to) for pair in undecided], section, to),
        *counted([pair for pair in section.compared if not pair[1].tested], section, to),
        *ties(section, to),
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


def stopped(section: Section) -> Iterator[Words]:
    """Of a study that stops by itself: with how many seeds it did, and why."""
    if section.most_seeds is None:
        return
    counts, why = [score.seeds for score in section.scores], STOPPED[section.ended]
    few, many = min(counts), max(counts)
    between = f"{few} to {many}" if few < many else f"{few}"
    yield Words(
        f"{why.en}: {between} a configuration. A difference is over the seeds that both have.",
        f"{why.zh}：每种配置 {between.replace(' to ', ' 至 ')} 个种子。差异基于双方共有的种子。",
    )


def told_or_counted(some: list[Compared], sentences: list[Words], section: Section, to: Markup) -> list[Words]:
    return sentences if len(sentences) <= MOST else list(counted(some, section, to))


def decided_sentence(score: RowScore, compared: Comparison, to: Markup) -> Words:
    name, label, against = heading(score.value, to), to.text(score.row.label), to.text(compared.against.label)
    ours, theirs = number(score.mean), number(score.mean - compared.difference)
    size = with_interval(compared)
    if score.verdict == "equivalent":
        little, limit = LITTLE[compared.side], f"{score.margin:g}"
        return Words(
            f"{label} and {against} are equivalent in {name}: the difference, {size}, lies within ± {limit}, which was "
            f"declared too small to matter{little.en}.",
            f"{label} 与 {against} 在 {name} 上等效：差异 {size} 落在声明为无关紧要的 ± {limit} 之内{little.zh}。",
        )
    chinese = "优于" if score.verdict == "better" else "劣于"
    return Words(
        f"{label} is {score.verdict} than {against} in {name}: {ours} against {theirs}, a difference of {size}.",
        f"{label} 在 {name} 上{chinese} {against}：{ours} 对 {theirs}，差异为 {size}。",
    )


LITTLE = {
    1: Words("; it is better, by less than matters", "；它更好，但差异小到无关紧要"),
    0: Words("", ""),
    -1: Words("; it is worse, by less than matters", "；它更差，但差异小到无关紧要"),
}


def undecided_sentence(score: RowScore, compared: Comparison, to: Markup) -> Words:
    name, label, against = heading(score.value, to), to.text(score.row.label), to.text(compared.against.label)
    needs = what_decides(compared)
    return Words(
        f"undecided is {label} against {against} in {name}: {with_interval(compared)}. {needs.en}",
        f"{label} 与 {against} 在 {name} 上未定：{with_interval(compared)}。{needs.zh}",
    )


def what_decides(compared: Comparison) -> Words:
    """Seeds or test texts, if the difference is the one that is seen."""
    english, chinese, needs = [], [], compared.needs
    if needs and needs.seeds is not None:
        minutes = compared.needs_seconds / 60
        beside = f" ({minutes:.1f} more minutes of training)" if math.isfinite(minutes) else ""
        english.append(f"{needs.seeds} seeds{beside}")
        chinese.append(f"{needs.seeds} 个种子" + (f"（再训练 {minutes:.1f} 分钟）" if math.isfinite(minutes) else ""))
    if needs and needs.texts is not None:
        english.append(f"{needs.texts} test texts")
        chinese.append(f"{needs.texts} 条测试文本")
    if not english:
        return Words(
            "Not even 64 seeds and 100 times the test texts would decide a difference of this size.",
            "对这样大小的差异，64 个种子加 100 倍的测试文本也不足以判定。",
        )
    both = Words(" together with ", "加") if needs and needs.together else Words(" or ", "或")
    return Words(
        f"If the difference is the one seen, {both.en.join(english)} would decide it.",
        f"若真实差异即为所见，{both.zh.join(chinese)}可以判定。",
    )


def with_interval(compared: Comparison) -> str:
    return f"{signed(compared.difference)} ± {number(compared.half_width)}"


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


def counted(some: Sequence[Compared], section: Section, to: Markup) -> Iterator[Words]:
    """One sentence a verdict, of all scores."""
    for kind, said in KINDS.items():
        english, chinese = [], []
        for value in dict.fromkeys(score.value for score, _ in some):
            count = sum(score.value == value and kind_of(compared) == kind for score, compared in some)
            total, name = sum(score.value == value for score, _ in section.compared), heading(value, to)
            if count:
                english.append(f"{count} of {total} comparison{'s' if total > 1 else ''} in {name}")
                chinese.append(f"{name} 的 {total} 项比较中有 {count} 项")
        if english:
            yield Words(f"{said.en} {', '.join(english)}.", f"{said.zh}：{'，'.join(chinese)}。")


def kind_of(compared: Comparison) -> str:
    """Its verdict; of one that was forbidden, whether there was anything to compare."""
    return "no results" if compared.verdict == "not comparable" and compared.seeds == 0 else compared.verdict


def ties(section: Section, to: Markup) -> Iterator[Words]:
    """How many configurations are tied with the best: where all are, the table ranks nothing."""
    english, chinese = [], []
    for value in section.pairs:
        own, name = [score for score in section.scores if score.value == value and score.tested], heading(value, to)
        count = sum(score.bold for score in own)
        english.append(f"{count} of {len(own)} configurations in {name}")
        chinese.append(f"{name} 的 {len(own)} 种配置中有 {count} 种")
    if english:
        yield Words(f"tied with the best are {', '.join(english)}.", f"与最佳者并列：{'，'.join(chinese)}。")


def axes(effects: Sequence[Effect], to: Markup) -> Iterator[Words]:
    for effect in effects:
        if effect.p < ALPHA:
            name, factors = heading(effect.value, to), " × ".join(to.text(symbol(f)) for f in effect.factors)
            share, p = f"{100 * effect.share:.1f}", equals(effect.p)
            yield Words(
                f"{factors} explains {share} % of the variance of {name} ({p}).",
                f"{factors} 解释了 {name} 方差的 {share} %（{p}）。",
            )


def equals(value: float) -> str:
    text = probability(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def unequal_note(section: Section) -> list[Words]:
    """Rows that vary from seed to seed otherwise than the rest, so that nothing is pooled with them."""
    if not section.unequal:
        return []
    names = listed(section.unequal)
    return [
        Words(
            "From seed to seed these comparisons seem to vary otherwise than the rest, so that their own spread counts "
            f"beside that of all: {names.en}. They need more seeds.",
            f"以下比较在种子间的波动似与其余不同，其自身的波动也计入：{names.zh}。需要更多种子。",
        )
    ]


def same_note(section: Section) -> list[Words]:
    """Vectors that are the same whatever trained, so that all configurations are one row."""
    labels = [row.label for row in section.rows]
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


def tested(section: Section, to: Markup = MARKDOWN) -> list[Words]:
    """How a section was tested, and what it could not have found: below its tables."""
    by_text = [compared.by_text for _, compared in section.compared if compared.tested]
    if not by_text:
        return []
    how = BY_TEXT if all(by_text) else PARTLY if any(by_text) else BY_SEED
    sizes = {value: section.detectable.get(value) for value in section.values}
    limits = [(heading(value, to), number(size)) for value, size in sizes.items() if size is not None]
    english = "; ".join(f"{size} in {name}" for name, size in limits)
    chinese = "；".join(f"{name} 为 {size}" for name, size in limits)
    count, sure = section.hypotheses, f"{100 * (1 - ALPHA):.0f} %"
    looks = Words(
        f" It looked several times, at up to {section.most_seeds} seeds; the intervals hold for all looks.",
        f"其间多次查看，最多 {section.most_seeds} 个种子；区间对所有查看同时成立。",
    )
    more = looks if section.most_seeds is not None else Words("", "")
    return [
        Words(
            f"Differences to the baseline, paired by {how.en}; their intervals hold for all {count} "
            f"comparison{'s' if count > 1 else ''} together with {sure}. "
            f"Found with probability {POWER:.2f}: {english}.{more.en}",
            f"与基线的差异按{how.zh}配对，区间以 {sure} 对全部 {count} 项比较同时成立。"
            f"以 {POWER:.2f} 的概率能发现的差异：{chinese}。{more.zh}",
        )
    ]
