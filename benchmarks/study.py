"""The page of the study: each question of configs/study over all settings, beside what the documents claimed.

    ablate run configs/study/recipes.yaml --until-decided --max-seeds 8 --budget 45m    # each file names its command
    python -m benchmarks.study            # writes reports/output/study from the reports below ABLATE_HOME

A question is the title of sections that name their setting in brackets, `Does R-Drop help? (tweets, MiniLM)`; the claim
of the documents is the note of the first of them. Settings (data and encoder) are put together by a random-effects
model: weights by Paule and Mandel, intervals by Hartung, Knapp, Sidik and Jonkman, never narrower than without spread.
"""

import argparse
import itertools
import json
import math
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from benchmarks import fixed_design
from contrastive.config.experiment import Experiment
from contrastive.grid.load import load_experiment
from reports import markdown
from reports.figures import canvas

STUDY = Path(__file__).parents[1] / "configs/study"
REPLICATION, DRAW = "study-replication", 20261127  # file, and seed of the draw
MOST = 50  # settings that are named as what would decide an open question; more are "more than 50"
PALE = 0.2  # a half-width above this is drawn pale
FEWEST = 3  # settings of a mean that has an interval: with two, Student's t has 12.7 standard errors
ORDER = ["better", "worse", "equivalent", "mean", "open"]  # first words of the verdicts
CHANCE = (
    "± is the 95 % interval of the weighted mean over the settings. If nothing had any effect, about {expected:.0f} of "
    "these {count} means would still look better or worse, or more because of interim checks; as some share a baseline "
    "or trainings, they could be wrong together. In the settings, the intervals of a question hold together at 95 %: "
    "of {sections} questions × settings, up to about {wrong:.0f} may have a false verdict."
)
SHAPES = {"better": "^", "worse": "v", "equivalent": "s"}
INTRODUCTION, NOTES, METHOD = (STUDY / f"{name}.md" for name in ("introduction", "notes", "method"))  # by hand
WORDS = [
    (r" · (encoder_lr|middle)=[^·]*?(?= ·|$)", ""),  # differ between settings, and make no other row
    (r"batch_size=(\d+) · accumulate=\d+", r"batch \1"),  # a step each 64 texts
    (r"encoder_lr=", "rate "), (r"layer_decay=1$", "no decay"), (r"layer_decay=", "decay "),
    (r"whiten:\d+", "whitened"), (r"cluster · clusters=(\d+)", r"\1 clusters"), (r"\bk=", "K="),
    (r"\blayers=", "layers "), (r"^untrained · ce$", "untrained"),
]  # fmt: skip
REPLICATED = (
    "Three verdicts, drawn from the {count} that are decided in primary scores (those of learning rates, on validation "
    "texts, are among them), are repeated with six seeds that the study did not use. The draw's seed was fixed after "
    "rates.yaml had run and before the first cell of any question."
)
LEGEND = (
    "In the figures, a mark is a setting, by its colour: △ better, ▽ worse, □ equivalent, ○ undecided (pale: ± more "
    "than 20 points). A bar is the 95 % interval of the weighted mean over three settings or more, its tick the mean, "
    "and the grey band the margin. Bars do not account for interim checks or for the number of rows. Where a row has "
    "another name in MiniLM than in the encoder from scratch, such as its layers, `/` stands between the two."
)
NOT_RUN = "Not run yet."
RUN = "{run} of {files} files of questions have been run."
PREDICTED = re.compile(r"Predicted: (.+?) for (\d+) cells; measured: (.+?); .*?median ([\d.]+)")  # of a report's footer
SAYS_NOTHING = 0.5  # a half-width above this is of two or three seeds, and its size means nothing
Fresh = dict[tuple[str, str, str], pd.Series]  # lines of comparisons.csv by section, row and score
NAMED = 4  # most rows of a verdict that are named in a question's line


@dataclass(frozen=True)
class Pooled:
    """A difference over settings, with its 95 % interval, and the share of its variance that lies between settings."""

    mean: float
    half_width: float
    heterogeneity: float

    def verdict(self, margin: float) -> str:
        if not math.isfinite(self.half_width):
            return "open"
        if abs(self.mean) + self.half_width < margin:
            return f"mean within {100 * margin:g} point{'' if round(100 * margin, 6) == 1 else 's'}"
        if abs(self.mean) > self.half_width:
            return "better" if self.mean > 0 else "worse"
        return "open"

    def settings(self, count: int, margin: float) -> int | None:
        """Return how many settings would decide what `count` leave open, if mean and spread stay as they are."""
        if self.verdict(margin) != "open" or not math.isfinite(self.half_width):
            return None
        spread = self.half_width * count**0.5 / quantile(count)
        decided = (
            n
            for n in range(count + 1, MOST + 1)
            if replace(self, half_width=spread * quantile(n) / n**0.5).verdict(margin) != "open"
        )
        return next(decided, MOST + 1)


@dataclass(frozen=True)
class Answer:
    """One row of a question, beside its baseline, in every setting."""

    row: str
    baseline: str
    score: str
    lines: pd.DataFrame  # of comparisons.csv, one for each setting
    pooled: Pooled
    margin: float
    primary: str

    @property
    def verdict(self) -> str:
        """Return what every setting says, or else what holds over the settings."""
        own = set(self.lines.verdict)
        if len(self.lines) > 1 and len(own) == 1 and own <= set(SHAPES):
            return f"{own.pop()} in {'both settings' if len(self.lines) == 2 else 'every setting'}"
        return self.pooled.verdict(self.margin)

    @property
    def name(self) -> str:
        return f"{self.row} − {self.baseline}"

    @property
    def needs(self) -> str:
        """Return how many settings would decide an open question."""
        count = self.pooled.settings(len(self.lines), self.margin) if self.verdict == "open" else None
        return "" if count is None else f", needs {count if count <= MOST else f'more than {MOST}'} settings"

    @property
    def fragile(self) -> str:
        """Return the settings without which what holds over them would not, if enough remain for an interval."""
        settings, held = list(self.lines.setting), self.verdict.split()[0]
        if held == "open" or len(settings) <= FEWEST:
            return ""
        lost = [name for name in settings if self.without(name).verdict.split()[0] != held]
        some = "the settings" if lost == settings else f"{len(lost)} of the {len(settings)} settings"
        named = lost[0] if len(lost) == 1 else f"any one of {some}"
        return f" (not without {named})" if lost else ""

    def without(self, setting: str) -> "Answer":
        kept = self.lines[self.lines.setting != setting]
        return replace(self, lines=kept, pooled=pooled_lines(kept))

    @property
    def size(self) -> str:
        """Return the range over settings if all agree or are too few, else the mean, and what is open in some only."""
        gains = sorted(gains_of(self.lines))
        if re.search("settings?$", self.verdict) or not math.isfinite(self.pooled.half_width):
            shown = f"{signed(gains[0])} to {signed(gains[-1])}"
        else:
            shown = points(self.pooled.mean, self.pooled.half_width)
        decided = self.lines.verdict[self.lines.verdict.isin(SHAPES)].value_counts(sort=False)
        counts = ", ".join(f"{word} in {count} of {len(self.lines)}" for word, count in decided.items())
        shown += f" ({counts})" if counts and self.verdict == "open" else ""
        lost = [
            each.setting
            for each in self.lines.itertuples()
            if each.again is not None and each.again.verdict != each.verdict
        ]
        return shown + (f" (not at fresh seeds: {'; '.join(lost)})" if lost else "")


@dataclass(frozen=True)
class Question:
    title: str
    claim: str
    answers: list[Answer]


def quantile(count: int) -> float:
    """Return the factor of a standard error that makes it a 95 % interval over so many settings."""
    return float(stats.t.ppf(0.975, count - 1))


def pool(differences: np.ndarray, errors: np.ndarray) -> Pooled:
    """Put independent differences together; fewer than FEWEST have no interval over settings that says anything."""
    if len(differences) < FEWEST:
        return Pooled(float(differences.mean()) if len(differences) else math.nan, math.nan, math.nan)
    found = combine_effects(differences, errors**2, method_re="iterated")
    spread = max(1.0, float(found.scale_hksj_re)) ** 0.5 * float(found.sd_eff_w_re)
    half = quantile(len(differences)) * spread
    return Pooled(float(found.mean_effect_re), half, max(0.0, float(found.i2)))


def questions(experiment: Experiment, comparisons: pd.DataFrame, fresh: Fresh) -> Iterator[Question]:
    """Yield the questions of an experiment file, in its order, with the answers that have been tested.

    `fresh`: what fresh seeds found, as `again` returns it.
    """
    repeated = [fresh.get(key) for key in comparisons[["section", "label", "value"]].itertuples(index=False, name=None)]
    comparisons = comparisons.assign(again=pd.Series(repeated, comparisons.index, dtype=object))
    tested = comparisons[comparisons.difference.notna() & comparisons.standard_error.gt(0)]
    stems: dict[str, list[str]] = {}
    for section in experiment.sections:
        stems.setdefault(section.title.partition(" (")[0], []).append(section.title)
    notes = {section.title: section.note for section in experiment.sections}
    for stem, titles in stems.items():
        mine = tested[tested.section.isin(titles)].assign(setting=lambda frame: frame.section.map(setting))
        groups = mine.groupby(["row", "value"], sort=False)  # the sections of a question have the same rows
        primary = experiment.report.primary or "test.accuracy"
        yield Question(stem, notes[titles[0]], [answer(str(score), lines, primary) for (_, score), lines in groups])


def answer(score: str, lines: pd.DataFrame, primary: str) -> Answer:
    pooled = pooled_lines(lines)
    row, baseline = (" / ".join(dict.fromkeys(map(readable, lines[name]))) for name in ("label", "against"))
    return Answer(row, baseline, score, lines, pooled, float(lines.margin.min()), primary)


def readable(label: str) -> str:
    """Return the name of a row without what differs between the settings, and without names of options."""
    for pattern, words in WORDS:
        label = re.sub(pattern, words, label)
    return label


def pooled_lines(lines: pd.DataFrame) -> Pooled:
    return pool(gains_of(lines), lines.standard_error.to_numpy(float))


def gains_of(lines: pd.DataFrame) -> np.ndarray:
    return lines.difference.to_numpy(float) * np.where(lines.higher.astype(bool), 1.0, -1.0)


def setting(title: str) -> str:
    return title.partition(" (")[2].rstrip(")")


def signed(difference: float) -> str:
    return markdown.signed(100 * difference, 1)


def points(difference: float, half: float) -> str:
    if half > SAYS_NOTHING:
        return f"{signed(difference)} ± > {100 * SAYS_NOTHING:.0f}"
    return f"{signed(difference)} ± {markdown.fixed(100 * half, 1)}" if math.isfinite(half) else "–"


def table(question: Question) -> str:
    """Return a question's table: a line for each row, a column for each setting, and what holds over all of them."""
    settings = list(dict.fromkeys(name for each in question.answers for name in each.lines.setting))
    head = ["", *settings, "weighted mean", "verdict"]
    body = []
    for each in question.answers:
        by_setting = each.lines.set_index("setting")
        shown = {
            name: in_setting(line) + (f"; at fresh seeds {in_setting(line.again)}" if line.again is not None else "")
            for name, line in by_setting.iterrows()
        }
        cells = [shown.get(name, "") for name in settings]
        whole = points(each.pooled.mean, each.pooled.half_width)
        whole += f", I² {100 * each.pooled.heterogeneity:.0f} %" if math.isfinite(each.pooled.half_width) else ""
        score = "" if each.score == each.primary else f" ({each.score.partition('.')[2]})"
        body.append([f"{each.name}{score}", *cells, whole, f"**{each.verdict}**{each.needs}{each.fragile}"])
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(found: list[Question], path: Path) -> None:
    """Draw the answers in primary scores: a mark for each setting, a bar for the interval over them, the margin
    shaded."""
    primary = {each.title: [one for one in each.answers if one.score == one.primary] for each in found}
    shown = {title: answers for title, answers in primary.items() if answers}
    rows = len(shown) + sum(map(len, shown.values()))
    with canvas.style():
        figure = canvas.canvas(0.19 * rows + 0.8, 7.5)
        axes = figure.add_subplot()
        place, names = 0, dict[int, str]()
        settings = dict.fromkeys(own for answers in shown.values() for each in answers for own in each.lines.setting)
        colours = dict(zip(settings, itertools.cycle(canvas.COLOURS[1:])))
        for title, answers in shown.items():
            names[place] = title
            place += 1
            for each in answers:
                names[place] = each.name
                for gain, line in zip(gains_of(each.lines), each.lines.itertuples(), strict=True):
                    pale = {"alpha": 0.35} if line.difference_half_width > PALE else {}
                    shape = SHAPES.get(line.verdict, "o")
                    axes.plot(
                        100 * gain, place, shape, ms=3.5, mfc="none", color=colours[line.setting], zorder=3, **pale
                    )
                if math.isfinite(each.pooled.half_width):
                    middle, half = 100 * each.pooled.mean, 100 * each.pooled.half_width
                    axes.plot([middle - half, middle + half], [place, place], color=canvas.COLOURS[0], lw=4, alpha=0.4)
                    axes.plot(middle, place, "|", ms=7, mew=1.5, color=canvas.COLOURS[0])
                place += 1
        axes.axvspan(-1, 1, color="#e4e8ec", zorder=0)
        axes.axvline(0, color="black", lw=0.6)
        axes.set_yticks(list(names), list(names.values()))
        for label, number in zip(axes.get_yticklabels(), names, strict=True):
            if names[number] in shown:
                label.set_fontweight("bold")
        axes.set_ylim(place - 0.5, -0.5)
        axes.set_xlabel("difference to the baseline, points")
        marks = [axes.plot([], [], "o", ms=3.5, mfc="none", color=colour)[0] for colour in colours.values()]
        figure.legend(marks, [*colours], ncols=len(colours), loc="outside upper right", frameon=False)
        canvas.save(figure, path, "")


def summary(found: list[Question]) -> str:
    """Return a line for each question: what the documents claim, and what holds for its rows in the primary score."""
    asked = {each.title: [one for one in each.answers if one.score == one.primary] for each in found}
    lines = [
        f"| [{each.title}](#{anchor(each.title)}) | {claim(each)} | {in_words(asked[each.title])} |"
        for each in found
        if asked[each.title]
    ]
    count = sum(math.isfinite(each.pooled.half_width) for answers in asked.values() for each in answers)
    head = ["| question | the documents | here, points |", "| --- | --- | --- |"]
    sections = len({name for each in found for answer in each.answers for name in answer.lines.section})
    chance = CHANCE.format(count=count, expected=0.05 * count, sections=sections, wrong=0.05 * sections)
    return "\n".join([*head, *lines]) + "\n\n" + chance


def claim(question: Question) -> str:
    """Return the first sentence of a question's note."""
    return re.split(r"(?<=\.)\s", question.claim)[0].rstrip(".").removeprefix("The document: ")


def in_words(answers: list[Answer]) -> str:
    """Return a sentence of verdicts, each with its rows and means over the settings, or with their number and range."""
    by_verdict: dict[str, list[Answer]] = {}
    for each in sorted(answers, key=lambda each: ORDER.index(each.verdict.split()[0])):
        by_verdict.setdefault(each.verdict, []).append(each)
    baselines, said = {each.baseline for each in answers}, []
    for verdict, own in by_verdict.items():
        rows = "; ".join(f"{each.row if len(baselines) == 1 else each.name} {each.size}" for each in own)
        if len(own) > NAMED:
            means = sorted(each.pooled.mean for each in own)
            rows = f"{len(own)} of {len(answers)} rows, means {signed(means[0])} to {signed(means[-1])}"
        said.append(f"**{verdict}**: {rows}")
    against = f"against {answers[0].baseline}: " if len(baselines) == 1 else ""
    return against + ". ".join(said)


def anchor(title: str) -> str:
    """Return the link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def experiments() -> dict[Path, Experiment]:
    return {file: load_experiment(file).experiment for file in sorted(STUDY.glob("*.yaml"))}


def reported(reports: Path) -> Iterator[tuple[Path, Experiment, pd.DataFrame]]:
    """Yield the files that have been run, but for the replication, with the lines of their comparisons.csv."""
    for file, experiment in experiments().items():
        compared = reports / experiment.name / "comparisons.csv"
        if compared.exists() and experiment.name != REPLICATION:
            yield file, experiment, pd.read_csv(compared)


def decided(reports: Path) -> list[tuple[str, str, str]]:
    """Return file, section and row of all verdicts in primary scores that are not undecided."""
    return [
        (file.name, str(line.section), str(line.label))
        for file, experiment, lines in reported(reports)
        for line in lines[lines.verdict.isin(SHAPES) & (lines.value == experiment.report.primary)].itertuples()
    ]


def drawn_for_replication(reports: Path) -> list[tuple[str, str, str]]:
    """Return file, section and row of three verdicts, drawn by a seed that was fixed beforehand."""
    verdicts = decided(reports)
    return random.Random(DRAW).sample(verdicts, min(3, len(verdicts)))


def again(reports: Path) -> Fresh:
    """Return what fresh seeds find, by section, row and score."""
    compared = reports / REPLICATION / "comparisons.csv"
    lines = pd.read_csv(compared).dropna(subset="difference") if compared.exists() else pd.DataFrame()
    return {(line.section, line.label, line.value): line for _, line in lines.iterrows()}


def replicated(reports: Path) -> str:
    """Return a table of the replicated verdicts: what the study found, and what fresh seeds find."""
    fresh = again(reports)
    if not fresh:
        return NOT_RUN
    firsts = pd.concat([lines for *_, lines in reported(reports)])
    lines = ["| | score | first | fresh seeds |", "| --- | --- | --- | --- |"]
    for (section, label, value), second in fresh.items():
        own = firsts[(firsts.section == section) & (firsts.label == label) & (firsts.value == value)]
        for _, first in own.dropna(subset="difference").iterrows():
            lines.append(
                f"| {section} {label} − {first.against} | {value} | {in_setting(first)} | {in_setting(second)} |"
            )
    return "\n".join(lines)


def in_setting(line: pd.Series) -> str:
    """Return difference, verdict and number of seeds of a line of comparisons.csv."""
    return f"{points(line.difference, line.difference_half_width)} {line.verdict} ({line.common:.0f})"


def beside_fixed() -> str:
    """Return each verdict of a fixed design beside that of an adaptive run on the same machine."""
    if not fixed_design.FILE.exists():
        return NOT_RUN
    fixed = json.loads(fixed_design.FILE.read_text(encoding="utf-8"))
    ours = {(each["section"], each["label"]): pd.Series(each) for each in fixed["adaptive"]["verdicts"]}
    words = (
        f"{fixed['file']}, by the clock ({fixed['processor']}): {fixed['seconds'] / 60:.0f} minutes for "
        f"{fixed['seeds']} seeds of every row, {fixed['cells']} trainings, with Hydra and joblib, a process a core; "
        f"{fixed['adaptive']['seconds'] / 60:.0f} minutes for the {fixed['adaptive']['cells']} trainings of "
        "`ablate run --until-decided` and their report. The fixed design tests with paired t-tests over seeds alone "
        "and Holm's method in each section; the adaptive intervals count test texts too."
    )
    table, pairs = ["| | fixed design | adaptive |", "| --- | --- | --- |"], list[tuple[str, str]]()
    for each in fixed["verdicts"]:
        fixed_words = f"{100 * each['difference']:+.1f} {each['verdict']} (p = {each['p']:.3f})".replace("-", "−")
        own = ours[each["section"], each["row"]]
        table.append(f"| {each['section']} {each['row']} | {fixed_words} | {in_setting(own)} |")
        pairs.append((each["verdict"], own.verdict))
    return words + " " + agreement(pairs) + "\n\n" + "\n".join(table)


def agreement(pairs: list[tuple[str, str]]) -> str:
    """Return in how many comparisons a fixed design and an adaptive run say better or worse."""
    sides = ("better", "worse")
    both = [(fixed, own) for fixed, own in pairs if fixed in sides and own in sides]
    return (
        f"Of {len(pairs)} comparisons, both call {len(both)} better or worse, "
        f"{sum(fixed != own for fixed, own in both)} of them in opposite directions; the fixed design alone "
        f"{sum(fixed in sides for fixed, _ in pairs) - len(both)}, the adaptive run alone "
        f"{sum(own in sides for _, own in pairs) - len(both)}. The adaptive run calls "
        f"{sum(own == 'equivalent' for _, own in pairs)} equivalent, which the fixed design does not test."
    )


def cost(report: Path) -> str:
    """Return the cells of a report, their hours, and the minutes that were predicted and measured."""
    cells = pd.read_csv(report / "results.csv").drop_duplicates("cell").dropna(subset="seconds")
    said = PREDICTED.search((report / "README.md").read_text(encoding="utf-8"))
    predicted = "{} for {} of them | {} | {}".format(*said.groups()) if said else "– | – | –"
    return f"{len(cells)} | {float(cells.seconds.sum()) / 3600:.1f} | {predicted}"


def part(file: Path, experiment: Experiment, report: Path, output: Path, fresh: Fresh) -> tuple[str, list[Question]]:
    """Return the section of one file, and its questions; draw its figure."""
    head = f"## {experiment.description}\n\n"
    if not (report / "comparisons.csv").exists():
        return f"{head}{NOT_RUN}\n", []
    found = list(questions(experiment, pd.read_csv(report / "comparisons.csv"), fresh))
    draw(found, output / f"figures/{file.stem}.svg")
    figure = f"![Differences to the baselines in every setting, and their weighted means](figures/{file.stem}.svg)"
    body = [f"### {each.title}\n\n{each.claim}\n\n{table(each) if each.answers else NOT_RUN}\n" for each in found]
    return f"{head}[The report of this file](../{experiment.name}/README.md)\n\n{figure}\n\n" + "\n".join(body), found


def write(reports: Path, output: Path) -> None:
    """Write the page from the reports in a folder."""
    parts, answered, ran = list[str](), list[Question](), 0
    costs = [
        "| file | trainings | CPU-hours | predicted, CPU-min | measured, CPU-min | measured / predicted, median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for file, experiment in experiments().items():
        report = reports / experiment.name
        if (report / "results.csv").exists():
            costs.append(f"| [{file.name}](../../../configs/study/{file.name}) | {cost(report)} |")
        if experiment.evaluation.splits == ("test",) and experiment.name != REPLICATION:
            words, found = part(file, experiment, report, output, again(reports))
            parts.append(words)
            ran += bool(found)
            answered += found
    before, notes, method = (file.read_text(encoding="utf-8") for file in (INTRODUCTION, NOTES, METHOD))
    text = [
        before,
        RUN.format(run=ran, files=len(parts)),
        *([summary(answered)] if answered else []),
        notes,
        LEGEND,
        *parts,
        "## Fresh seeds",
        REPLICATED.format(count=len(decided(reports))),
        replicated(reports),
        "## What it cost",
        "\n".join(costs),
        "### Beside a fixed design",
        beside_fixed(),
        method,
    ]
    output.mkdir(parents=True, exist_ok=True)
    (output / "README.md").write_text("\n\n".join(each.strip() for each in text) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="print the three verdicts to be replicated")
    reports = Path(os.environ.get("ABLATE_HOME", ".")) / "reports/output"
    if parser.parse_args().draw:
        print("\n".join(map(" | ".join, drawn_for_replication(reports))))
        return
    write(reports, reports / "study")
    print(reports / "study/README.md")


if __name__ == "__main__":
    main()
