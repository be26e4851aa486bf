"""The panel by the code of now against the panel at a commit, both measured on this machine: for a pull request."""

from pathlib import Path

from reports.markdown import plain
from reports.messages import Language, _, using
from reports.nightly import page
from reports.nightly.judgement import Judgement
from reports.nightly.measured import Night, Rules, rules_of
from reports.nightly.verdict import judge_nights

NAMES: dict[Language, str] = {"en": "against.md", "zh": "against.zh.md"}
NO_TIMINGS = _("Timings are not judged: one run cannot tell slow code from a busy machine; the nights can.")


def judge_against(then: Night, now: Night) -> list[Judgement]:
    """As a second night is judged, but for the timings, which need more nights."""
    rules = [
        Rules([metric for metric in own.metrics if not metric.is_timing], own.settings)
        for own in (rules_of(then), rules_of(now))
    ]
    return judge_nights([then, now], rules)[-1]


def write_against(then: Night, now: Night, output: Path) -> page.NightlyResult:
    """against.md and against.zh.md."""
    judgements = judge_against(then, now)
    for language, name in NAMES.items():
        with using(language):
            page.replace_page(output / name, comparison(then, now, judgements))
    return page.NightlyResult(output / "against.md", now, judgements)


def comparison(then: Night, now: Night, judgements: list[Judgement]) -> str:
    old, new = (night.document["commit"] or "unknown" for night in (then, now))
    brought = [f"{commit} {plain(subject)}" for commit, subject in now.document["commits"]]
    return page.as_page(
        [
            _("# Against {old}: {verdicts}", old=old, verdicts=page.headline(judgements)),
            _("{when}. Before is commit {old}, by its own code; now is {new}.", when=now.when, old=old, new=new),
            *page.judgement_tables(judgements),
            *page.bulleted(_("## Cells without a result before"), page.failed(then)),
            *page.bulleted(page.WITHOUT_RESULT, page.failed(now)),
            *page.bulleted(_("## Commits since then"), brought),
            page.HOW_SCORES,
            NO_TIMINGS,
        ]
    )
