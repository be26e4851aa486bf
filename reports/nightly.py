"""Nightly regression: compare each night's scores and timings with the first night of its environment; its pages.

Everything is read from MLflow, which has one document per night.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Float
from mlflow import MlflowClient
from mlflow.entities import Run
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from scipy import special

from reports.markdown import difference_text, heading, plain, score_text, signed, unit
from reports.messages import FILES, Language, Message, Text, _, joined, using
from reports.mlflow_runs import Artifacts, all_runs
from reports.statistics import ALPHA, Measurements, decide
from reports.statistics.decide import ROUNDING, Verdict, verdict
from reports.tables import SIGNS, WORDS, Entry, Table

EXPERIMENT, DOCUMENT, VERSION = "nightly", "night.json", 3
ACKNOWLEDGED = "ablate.acknowledged"  # tag of a night: why later nights are compared with it
TIMINGS = {"training_seconds": False, "texts_per_second": True}  # → whether higher is better
TIMING_NAMES = {"training_seconds": _("seconds of training"), "texts_per_second": _("texts a second")}
PANEL = ""  # row that stands for the mean over all configurations
AGAINST: dict[Language, str] = {"en": "against.md", "zh": "against.zh.md"}
SHOWN = 30  # nights in the history
ORDER = ("not comparable", "worse", "better", "undecided", "no spread", "one seed", "too early", "equivalent")
NAMED = ("not comparable", "worse", "better")  # verdicts whose scores a headline names

Margin = Annotated[float, Field(gt=0, description="a smaller change does not matter")]
Values = Float[np.ndarray, " s"]


class Nightly(BaseModel):
    """Settings of the nightly regression: what counts as a change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    window: int = Field(10, ge=3, description="nights that timings are compared with, the first ones of an environment")
    false_alarms: float = Field(0.005, gt=0, le=0.05, description="share of nights that may fail without a cause")
    quality: Mapping[str, Margin] = Field(min_length=1, description="score → margin, e.g. test.accuracy: 0.005")
    speed: Margin = Field(description="the margin of timings, as a share: 0.1 is ten percent")


@dataclass(frozen=True)
class Night:
    """Results of one night; missing values are None."""

    when: str
    commit: str
    commits: list[tuple[str, str]]  # since the previous night: id and subject
    environment: dict[str, str]
    settings: Nightly
    scores: dict[str, dict[str, list[float | None]]]  # score → configuration → value per seed
    higher: dict[str, bool]  # score → whether higher is better
    texts: dict[str, int]  # score made of counts → number of texts
    timings: dict[str, list[float | None]]  # timing → value per cell
    failed: list[str] = field(default_factory=list)  # cells without a result, with the reason
    version: int = VERSION
    acknowledged: str = ""

    def values(self, score: str, row: str) -> Values | None:
        """Return a score per seed of a configuration, or of PANEL the mean over all; NaN for missing values."""
        rows = self.scores.get(score, {})
        if row != PANEL:
            return np.array(rows[row], dtype=float) if row in rows else None
        return np.mean([np.array(each, dtype=float) for each in rows.values()], axis=0) if rows else None

    def rows(self, score: str) -> list[str]:
        """Return the configurations of a score, after PANEL if there are several."""
        rows = list(self.scores.get(score, {}))
        return rows if len(rows) == 1 else [PANEL, *rows]

    def log_of(self, timing: str) -> float | None:
        """Return the mean logarithm of a timing, since cells and machines differ by factors; None without values."""
        values = [value for value in self.timings.get(timing, ()) if value]
        return float(np.mean(np.log(values))) if values else None


NIGHT = TypeAdapter(Night)


@dataclass(frozen=True)
class Change:
    """One score or timing compared with an earlier night. Numbers of timings are logarithms."""

    score: str
    row: str
    verdict: Verdict
    why: Text = ""
    now: float = math.nan
    difference: float = math.nan
    half_width: float = math.nan
    missing: bool = False  # True if tonight should have measured it and did not

    @property
    def fails(self) -> bool:
        return self.verdict == "worse" or self.missing

    @property
    def name(self) -> Text:
        name: Text = TIMING_NAMES[self.score] if self.score in TIMINGS else heading(self.score)
        return _("{score} of {configuration}", score=name, configuration=self.row) if self.row else name


@dataclass(frozen=True)
class NightlyResult:
    """Path of the page, with what the command line and MLflow show of it."""

    path: Path
    night: Night
    changes: Sequence[Change]

    @property
    def failing(self) -> list[Change]:
        return [change for change in self.changes if change.fails]

    @property
    def headline(self) -> str:
        return str(headline(self.changes))


def changes_of(night: Night, earlier: Sequence[Night]) -> list[Change]:
    """Compare a night with earlier ones of its environment; scores are compared with the first of them."""
    return [*score_changes(night, earlier[0] if earlier else None), *timing_changes(night, earlier)]


def comparable(nights: Sequence[Night], number: int) -> list[Night]:
    """Return the earlier nights with the same environment, from the last acknowledged one on."""
    same = [night for night in nights[:number] if night.environment == nights[number].environment]
    return same[max((i for i, night in enumerate(same) if night.acknowledged), default=0) :]


def changes_of_all(nights: Sequence[Night]) -> list[list[Change]]:
    """Judge each night by its own settings, so that later nights change no verdict."""
    return [changes_of(night, comparable(nights, number)) for number, night in enumerate(nights)]


def score_changes(now: Night, then: Night | None) -> list[Change]:
    """Compare scores, paired by seed. Those that moved share the rate of false alarms: half of it is for the panel's
    mean, so that many configurations cost it little power."""
    rows = [(score, row) for score in now.settings.quality for row in now.rows(score) or [PANEL]]
    untested = {key: untested_change(*key, now, then) for key in rows}
    moved = [key for key in rows if untested[key] is None]
    families = len({row == PANEL for _score, row in moved})
    changes = []
    for score, row in rows:
        if (change := untested[score, row]) is None:
            tests = sum((moved_row == PANEL) == (row == PANEL) for _score, moved_row in moved)
            assert then is not None
            change = tested_change(score, row, now, then, now.settings.false_alarms / families / tests)
        changes.append(change)
    return changes


def untested_change(score: str, row: str, now: Night, then: Night | None) -> Change | None:
    """Return the change of a score that needs no test or cannot be tested; None if it is to be tested."""
    ours, theirs = now.values(score, row), None if then is None else then.values(score, row)
    if ours is None or score not in now.higher:
        return Change(score, row, "not comparable", _("tonight has no such score"), missing=True)
    mean = float(ours.mean())
    if not np.isfinite(ours).all():
        why = _("{count} of {all} cells have no such score", count=int(np.isnan(ours).sum()), all=len(ours))
        return Change(score, row, "not comparable", why, missing=True)
    if then is None:
        return Change(score, row, "too early", _("the first night of this environment"), mean)
    if theirs is None or len(theirs) != len(ours) or not np.isfinite(theirs).all():
        return Change(score, row, "not comparable", _("the earlier night has no such score"), mean)
    if np.allclose(ours, theirs, rtol=ROUNDING, atol=0):
        return Change(score, row, "equivalent", _("the same at every seed"), mean, 0.0, 0.0)
    return None


def tested_change(score: str, row: str, now: Night, then: Night, level: float) -> Change:
    """Test a score at a significance level, paired by seed."""
    values = np.stack([each for night in (now, then) if (each := night.values(score, row)) is not None])
    (decided,) = decide(Measurements(values, texts=now.texts.get(score)), ((0, 1),), level / ALPHA)
    outcome = verdict(decided.difference, decided.half_width, then.higher.get(score, now.higher[score]),
                   now.settings.quality[score], decided.seeds)  # fmt: skip
    return Change(score, row, outcome, "", float(values[0].mean()), decided.difference, decided.half_width)


def timing_changes(now: Night, earlier: Sequence[Night]) -> Iterator[Change]:
    """Compare the last two nights with a window of nights; two, because a machine may be busy for one night."""
    size, level = now.settings.window, now.settings.false_alarms / len(TIMINGS)
    margin = math.log1p(now.settings.speed)
    for name, higher in TIMINGS.items():
        if (tonight := now.log_of(name)) is None:
            yield Change(name, PANEL, "not comparable", _("tonight has no such score"), missing=True)
            continue
        nights = [log for night in earlier if (log := night.log_of(name)) is not None]
        if len(nights) <= size:
            waits = _("night {number} of the {count} that are needed", number=len(nights) + 1, count=size + 2)
            yield Change(name, PANEL, "too early", waits, tonight)
            continue
        window, last = np.array(nights[:size]), np.array([nights[-1], tonight])
        difference = float(last.mean() - window.mean())
        error = float(window.std(ddof=1)) * (1 / size + 1 / len(last)) ** 0.5
        half_width = -float(special.stdtrit(size - 1, level / 2)) * error
        outcome = verdict(difference, half_width, higher, margin, size)
        lone = outcome in ("better", "worse") and (np.abs(last - window.mean()) <= margin).any()
        why: Text = _("seen in one night of two") if lone else ""
        yield Change(name, PANEL, "undecided" if lone else outcome, why, tonight, difference, half_width)


def read_nights(uri: str) -> list[Night]:
    """Read all nights, oldest first, without incomplete ones and those that another version recorded."""
    client = MlflowClient(tracking_uri=uri)
    runs, artifacts = night_runs(client), Artifacts(client)
    nights = []
    for run in runs:
        path = artifacts.path(run.info.run_id, run.info.artifact_uri or "", DOCUMENT)
        content = None if path is None else json.loads(path.read_text(encoding="utf-8"))
        if content and content["version"] == VERSION:
            night = NIGHT.validate_python(content)
            nights.append(replace(night, acknowledged=run.data.tags.get(ACKNOWLEDGED, "")))
    return sorted(nights, key=lambda night: night.when)


def night_runs(client: MlflowClient) -> list[Run]:
    """Return the finished runs of nights, newest first."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        return []
    runs = all_runs(client, experiment.experiment_id)
    return [run for run in runs if run.data.tags.get("ablate.kind") == "night" and run.info.status == "FINISHED"]


def write_nightly(nights: Sequence[Night], output: Path) -> NightlyResult:
    """Write README.md and README.zh.md of the last night. `nights` must not be empty."""
    judged = changes_of_all(nights)
    write_pages(output, FILES, lambda: night_page(nights, judged))
    return NightlyResult(output / FILES["en"], nights[-1], judged[-1])


def write_against(then: Night, now: Night, output: Path) -> NightlyResult:
    """Write against.md and against.zh.md, without timings: one run cannot tell slow code from a busy machine."""
    changes = score_changes(now, then)
    write_pages(output, AGAINST, lambda: against_page(then, now, changes))
    return NightlyResult(output / AGAINST["en"], now, changes)


def write_pages(output: Path, names: Mapping[Language, str], blocks: Callable[[], list[Text]]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for language, name in names.items():
        with using(language):
            fresh = output / f".{name}"
            fresh.write_text("\n\n".join(map(str, blocks())) + "\n", encoding="utf-8")
            os.replace(fresh, output / name)


def night_page(nights: Sequence[Night], judged: Sequence[Sequence[Change]]) -> list[Text]:
    night, earlier = nights[-1], comparable(nights, len(nights) - 1)
    return [
        _("# Nightly: {headline}", headline=headline(judged[-1])),
        _("Night of {when}, commit {commit}.", when=night.when, commit=night.commit or _("unknown")),
        compared_with(night, earlier, nights),
        changes_table(judged[-1]),
        *bulleted(_("## Cells without a result"), night.failed),
        *bulleted(_("## Commits since the last night in which nothing was worse"), commits_since(nights, judged)),
        how_scores(night),
        HOW_TIMINGS,
        *bulleted(_("## Acknowledged"), [f"{each.when}: {each.acknowledged}" for each in nights if each.acknowledged]),
        _("## Nights"),
        history(nights, judged),
    ]


def against_page(then: Night, now: Night, changes: Sequence[Change]) -> list[Text]:
    return [
        _("# Against {old}: {headline}", old=then.commit, headline=headline(changes)),
        _("The panel by the code of commit {old}, and by that of {new}.", old=then.commit, new=now.commit or "?"),
        changes_table(changes),
        *bulleted(_("## Cells without a result before"), then.failed),
        *bulleted(_("## Cells without a result"), now.failed),
        *bulleted(_("## Commits since then"), [" ".join(commit) for commit in now.commits]),
        how_scores(now),
    ]


HOW_SCORES = _(
    "Scores are compared seed by seed, as in every report: worse or better where the interval of the difference leaves "
    "out 0, equivalent where it lies within the margin, undecided otherwise. The intervals of all scores that moved "
    "hold together in {share} of nights."
)
HOW_TIMINGS = _(
    "Timings compare the mean of tonight and last night with the first nights of the environment; "
    "both nights have to differ by more than the margin."
)


def how_scores(night: Night) -> Text:
    return HOW_SCORES.of(share=f"{1 - night.settings.false_alarms:.1%}")


def headline(changes: Sequence[Change]) -> Text:
    """Count the changes by verdict, and name those that are worse, better or not comparable."""
    parts = list[Text]()
    for name in ORDER:
        matching = [change for change in changes if change.verdict == name]
        count: Text = _("{count} {verdict}", count=len(matching), verdict=WORDS[name])
        if matching and name in NAMED:
            named = joined([change.name for change in matching], _(", "))
            count = _("{verdict} ({names})", verdict=count, names=named)
        parts += [count] if matching else []
    return joined(parts, _(", "))


def compared_with(night: Night, earlier: Sequence[Night], nights: Sequence[Night]) -> Text:
    """Say which night it is compared with; for the first night of an environment, what changed in the environment."""
    if earlier:
        first = earlier[0]
        return _("It is compared with the night of {when}, commit {commit}.", when=first.when, commit=first.commit)
    if len(nights) < 2:
        return _("It is the first night.")
    before, now = nights[-2].environment, night.environment
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    changed = ", ".join(f"{name} {before.get(name, '–')} → {now.get(name, '–')}" for name in names)
    return _("It is the first night of a **new environment**: {changed}.", changed=plain(changed))


def changes_table(changes: Sequence[Change]) -> str:
    body = [
        [
            Entry(change.name),
            Entry(level(change)),
            Entry(difference(change)),
            Entry(verdict_text(change), bold=change.fails),
        ]
        for change in sorted(changes, key=lambda change: ORDER.index(change.verdict))
    ]
    return Table(None, [_("Score"), _("now"), _("Difference"), _("Verdict")], body).markdown()


def level(change: Change) -> str:
    if math.isnan(change.now):
        return "–"
    return f"{math.exp(change.now):.4g}" if change.score in TIMINGS else score_text(change.score, change.now)


def difference(change: Change) -> str:
    if math.isnan(change.difference):
        return "–"
    if change.score not in TIMINGS:
        return difference_text(unit(change.score) * change.difference, unit(change.score) * change.half_width)
    shown, width = (100 * math.expm1(min(value, 9.0)) for value in (change.difference, change.half_width))
    return f"{signed(shown, 1)} % ± {width:.1f} %"


def verdict_text(change: Change) -> Text:
    word: Text = joined([part for part in (SIGNS.get(change.verdict), WORDS[change.verdict]) if part], " ")
    return joined([word, change.why], _(": ")) if change.why else word


def commits_since(nights: Sequence[Night], judged: Sequence[Sequence[Change]]) -> list[str]:
    """Return the commits since the last earlier night in which nothing failed; if there is none, those of tonight."""
    good = [number for number, changes in enumerate(judged[:-1]) if not any(change.fails for change in changes)]
    after = nights[good[-1] + 1 :] if good else nights[-1:]
    return [" ".join(commit) for night in reversed(after) for commit in night.commits]


def history(nights: Sequence[Night], judged: Sequence[Sequence[Change]]) -> str:
    rows = [
        [Entry(night.when), Entry(night.commit), Entry(headline(changes))]
        for night, changes in zip(nights, judged, strict=True)
    ]
    return Table(None, [_("Night"), _("Commit"), _("Verdict")], rows[: -SHOWN - 1 : -1]).markdown()


def bulleted(title: Message, items: Sequence[str]) -> list[Text]:
    return [title, "\n".join(f"- {plain(item)}" for item in items)] if items else []
