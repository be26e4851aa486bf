"""The panel by the code of now against the panel at a commit, both measured on this machine: for a pull request."""

from pathlib import Path

from reports.bilingual import LANGUAGES, Language, Words
from reports.markdown import plain
from reports.nightly import page
from reports.nightly.judgement import Judgement
from reports.nightly.measured import Night, Rules, rules_of
from reports.nightly.verdict import judge_nights

NAMES = {"against.md": "en", "against.zh.md": "zh"}
NO_TIMINGS = Words(
    "Timings are not judged: one run cannot tell slow code from a busy machine; the nights can.",
    "不判断计时指标：单次运行无法区分代码变慢与机器繁忙，夜间回归可以。",
)


def judge_against(then: Night, now: Night) -> list[Judgement]:
    """As a second night is judged, but for the timings, which need more nights."""
    rules = [
        Rules([metric for metric in own.metrics if not metric.is_timing], own.settings)
        for own in (rules_of(then), rules_of(now))
    ]
    return judge_nights([then, now], rules)[-1]


def write_against(then: Night, now: Night, output: Path) -> page.Said:
    """against.md and against.zh.md."""
    judgements = judge_against(then, now)
    for name, language in NAMES.items():
        assert language in LANGUAGES
        page.replace_page(output / name, comparison(then, now, judgements, language))
    return page.Said(output / "against.md", now, judgements)


def comparison(then: Night, now: Night, judgements: list[Judgement], language: Language) -> str:
    old, new = (night.document["commit"] or "unknown" for night in (then, now))
    brought = [f"{commit} {plain(subject)}" for commit, subject in now.document["commits"]]
    title = Words(f"# Against {old}: ", f"# 与 {old} 比较：").in_language(language)
    return page.as_page(
        [
            title + page.headline(judgements).in_language(language),
            Words(
                f"{now.when}. Before is commit {old}, by its own code; now is {new}.",
                f"{now.when}。“此前”为提交 {old}，由其自身代码测量；“现在”为 {new}。",
            ),
            *page.judgement_tables(judgements, language),
            *page.bulleted(Words("## Cells without a result before", "## 此前没有结果的单元"), page.failed(then)),
            *page.bulleted(page.WITHOUT_RESULT, page.failed(now)),
            *page.bulleted(Words("## Commits since then", "## 此后的提交"), brought),
            page.HOW_SCORES,
            NO_TIMINGS,
        ],
        language,
    )
