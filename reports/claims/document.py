"""A report line by line: each is of a form that a report has, and says what its numbers say."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import pandas as pd

from contrastive.config.cell import Data
from reports.bilingual import Language
from reports.build import how_to_read
from reports.claims.frames import blocked, frames
from reports.claims.numbers import Numbers
from reports.claims.prose import prose, worded
from reports.claims.tables import captions, tables
from reports.findings import findings, tested
from reports.markdown import PAGE, heading, number, plain

TEMPLATE = Path(__file__).parents[1] / "templates" / "report.md.j2"
LITERAL = re.compile(r'\{\{ say\("((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\) \}\}')
NOTE = {"en": "> **Note** ", "zh": "> **注意** "}
OF_AUTHOR = {"en": re.compile(r"\*Note: (.*)\*"), "zh": re.compile(r"\*注: (.*)\*")}
SETTING = re.compile(r"(?:Data|数据) `.+`(?:, encoder|, 编码器) `.+`\.")
ERROR = {
    "en": re.compile(
        r"On (?P<count>\d+) test texts(?: of (?P<data>.+))?, one accuracy has a standard error of (?P<size>\d\.\d{4}) "
        r"by the choice of texts alone\."
    ),
    "zh": re.compile(
        r"在 (?:(?P<data>.+) 的 )?(?P<count>\d+) 条测试文本上，"
        r"仅由文本的选取，单个准确率的标准误为 (?P<size>\d\.\d{4})。"
    ),
}
FOOTERS = re.compile(
    r"\*((?:Computed on|Hardware|Predicted|Versions|Commit): .*|Computed with .*"
    r"|(?:实验环境|硬件|预测|计算方式|版本|提交)：.*"
    r"|\d+ cells; .*|\d+ 个单元；.*)\*"
)
FIGURE = re.compile(r"!\[(?P<alt>.*)\]\(figures/[a-z0-9-]+\.(?:png|svg)\)")
LEFT_OUT = re.compile(r"> \*\*(?:No picture|无图)\*\* [\w -]+(?:: |：)(`+)(?!`)(?:(?!\1).)+\1")  # an error, quoted
SUMMARY = re.compile(r"<details><summary>(.*)</summary>")
CONCLUSIONS, OVERVIEW, NOTHING = "What can be concluded", "The whole grid", "Nothing was compared."


def check(text: str, numbers: Numbers, language: Language = "en") -> list[str]:
    """What a report says and its numbers do not; empty where it is sound."""
    return [*frames(numbers), *Document(text, numbers, language).problems()]


class Document:
    """The parts of a report: what stands above its first heading, and what stands below each."""

    def __init__(self, text: str, numbers: Numbers, language: Language):
        self.numbers, self.language, self.fixed = numbers, language, fixed(language)
        parts: list[list[str]] = [[]]
        for line in text.split("\n"):
            if line.startswith("## "):
                parts.append([])
            parts[-1].append(line)
        below = parts[-1].index("---") if "---" in parts[-1] else len(parts[-1])
        self.head, self.parts, self.footer = parts[0], parts[1:], parts[-1][below + 1 :]
        if self.parts:
            self.parts[-1] = self.parts[-1][:below]
        frame = numbers.comparisons
        values = [heading(value) for value in frame["value"].unique()]
        named = [*frame["label"].unique(), *numbers.titles]
        self.names = [plain(one) for one in named] + values
        # as a picture names them
        self.names += [PAGE.text(one) for one in named] + [heading(value, PAGE) for value in frame["value"].unique()]

    def word(self, english: str) -> str:
        """A fixed text of the template in the language of this report."""
        return {found[0]: found[1] for found in literals()}[english] if self.language == "zh" else english

    def problems(self) -> Iterator[str]:
        titles = [self.word(CONCLUSIONS), *map(plain, self.numbers.titles)]
        found = [part[0].removeprefix("## ") for part in self.parts]
        if found not in (titles, [*titles, self.word(OVERVIEW)]):
            yield f"the sections are {found}, not {titles}"
            return
        yield from self.above()
        yield from self.concluded(self.parts[0][1:])
        for title, part in zip(self.numbers.titles, self.parts[1:], strict=False):
            yield from self.section(title, part[1:])
        yield from (one for part in self.parts[len(titles) :] for one in self.others(part[1:], figures=True))
        yield from self.others(self.footer, footers=True)

    def above(self) -> Iterator[str]:
        """The name, what the author says of it, guards, and how the numbers are to be read."""
        name, *rest = self.head
        if not re.fullmatch(r"# [\w.\\-]+", name):
            yield from prose(name, name.removeprefix("# "))
        errors = [line for line in rest if ERROR[self.language].fullmatch(line)]
        lines = [line for line in rest if line and line not in self.fixed and line not in errors]
        setting = next((place for place, line in enumerate(lines) if SETTING.fullmatch(line)), len(lines))
        seeds = self.numbers.results["seed"].nunique()
        true = [line.in_language(self.language) for line in how_to_read(seeds)]
        yield from exactly(true, lines[setting + 1 :], "how to read it")
        guards = [line for line in lines[:setting] if line.startswith(NOTE[self.language])]
        yield from self.others(guards)
        said = [line for line in lines[:setting] if line not in guards]
        yield from (problem for line in said for problem in prose(line, line))
        for line in said[1:] + [line for line in said[:1] if line.startswith(("|", "#", "- ", ">", "!"))]:
            yield f"a line of no known form: {line}"
        yield from self.standard_errors(errors)

    def standard_errors(self, lines: list[str]) -> Iterator[str]:
        """What chance alone makes of one accuracy: of its mean and the number of texts, of each data set."""
        known = self.numbers.results
        known = known[(known["score"] == "test.accuracy") & ~known["variant"].fillna("").astype(bool)]
        axes = data_axes(known)
        parts = [part for count in range(1, len(axes) + 1) for part in combinations(axes, count)]
        groups = [known, *(group for part in parts for _, group in known.groupby(list(part), dropna=False))]
        may = {one for group in groups for one in errors(group)}
        for line in lines:
            found = ERROR[self.language].fullmatch(line)
            if found and not {(found["count"], found["size"]), ("", found["size"])} & may:
                yield f"the standard error is one of {sorted(may)}: {line}"
            if found and not axes and found["data"] is not None:
                yield f"there is one data set: {line}"
        if not axes and len(lines) > 1:
            yield f"the standard error is told {len(lines)} times"

    def concluded(self, lines: list[str]) -> Iterator[str]:
        """Exactly the sentences that the statistics make."""
        colon, language = ": " if self.language == "en" else "：", self.language
        true = [
            f"- {plain(title)}{colon}{sentence.in_language(language)}"
            for title in self.numbers.titles
            for sentence in findings(self.numbers.of(title), self.numbers.effects_of(title))
        ] or [f"- {self.word(NOTHING)}"]
        yield from exactly(true, [line for line in lines if line.startswith("- ")], "conclusions")
        rest = [line for line in lines if not line.startswith("- ")]
        yield from tables(None, rest, self.numbers, language)
        yield from self.others([line for line in rest if not line.startswith("|")])

    def section(self, title: str, lines: list[str]) -> Iterator[str]:
        compared = self.numbers.of(title)
        guarded = any(line.startswith(NOTE[self.language]) for line in lines)
        yield from tables(title, lines, self.numbers, self.language)
        yield from ranked(title, self.numbers, guarded)
        forbidden, others = blocked(self.numbers, title)
        if forbidden and (others or not guarded):
            yield f"{title}: {forbidden} comparisons are not made, and nothing forbids them"
        how = [f"*{line.in_language(self.language)}*" for line in tested(compared)]
        cells = self.numbers.results[self.numbers.results["section"] == title].drop_duplicates(["row", "cell"])
        runs = [
            f"- {plain(of.iloc[0]['label'])}: {', '.join(of['cell'])}" for _, of in cells.groupby("row", sort=False)
        ]
        yield from exactly(runs, [line for line in lines if line.startswith("- ")], title)
        said = [line for line in lines if line.startswith("*")]
        notes = [line for line in said if OF_AUTHOR[self.language].fullmatch(line)]
        footers = [line for line in said if FOOTERS.fullmatch(line)]
        yield from exactly(how, [line for line in said if line not in notes and line not in footers], title)
        for line in notes:
            found = OF_AUTHOR[self.language].fullmatch(line)
            yield from prose(line, found[1] if found else line)
        if len(notes) > 1:
            yield f"{title}: {len(notes)} notes, of one author"
        mine = captions(compared, self.language)
        rest = [line for line in lines if line not in how and line not in runs and line not in notes]
        plain_lines = []
        for line in rest:
            folded = SUMMARY.fullmatch(line)
            caption = folded[1] if folded else line
            if not (line.startswith("|") or line == "</details>" or any(re.fullmatch(one, caption) for one in mine)):
                plain_lines.append(line)
        yield from self.others(plain_lines, figures=True, footers=True)

    def others(self, lines: Iterable[str], figures: bool = False, footers: bool = False) -> Iterator[str]:
        """Guards, pictures, footers and what the template says in each report; anything else is nobody's."""
        for line in lines:
            note = NOTE[self.language]
            if not line or line in self.fixed:
                continue
            if line.startswith(note):
                yield from worded(line, line.removeprefix(note), self.names)
            elif figures and LEFT_OUT.fullmatch(line):
                continue
            elif figures and (found := FIGURE.fullmatch(line)):
                yield from worded(line, found["alt"], self.names)
            elif footers and (found := FOOTERS.fullmatch(line)):
                yield from worded(line, found[1], self.names)
            else:
                yield f"a line of no known form: {line}"


def exactly(true: list[str], said: list[str], where: str) -> Iterator[str]:
    """Nothing missing, nothing added."""
    yield from (f"{where}: not said, and true: {line}" for line in (Counter(true) - Counter(said)))
    yield from (f"{where}: said, and not true: {line}" for line in (Counter(said) - Counter(true)))


def ranked(title: str, numbers: Numbers, guarded: bool) -> Iterator[str]:
    """Where something is bold, so is the best; where nothing is, something forbids it."""
    frame = numbers.of(title).frame
    frame = frame[frame["tested"]]
    seeds = [set(numbers.seeds.get((title, *pair), {})) for pair in zip(frame["label"], frame["value"], strict=True)]
    one_data = not data_axes(numbers.results)
    may = bool(seeds) and len(seeds[0]) > 1 and all(one == seeds[0] for one in seeds)
    several = frame["label"].nunique() > 1
    if not frame["bold"].any() and may and several and one_data and not guarded:
        yield f"{title}: nothing is bold, and nothing forbids it"
    if frame["bold"].any() and not may:
        yield f"{title}: bold over unequal seeds or one"
    for value, lines in frame.groupby("value", sort=False):
        if frame["bold"].any() and one_data and several:
            order = lines["mean"].to_numpy(float) * (1 if bool(lines["higher"].iloc[0]) else -1)
            if not lines["bold"].iloc[int(order.argmax())]:
                yield f"{title}: the best in {value} is not bold"


def data_axes(known: pd.DataFrame) -> list[str]:
    axes = (str(name) for name in known if str(name).startswith("axis."))
    return [axis for axis in axes if axis.removeprefix("axis.") in Data.model_fields]


def errors(known: pd.DataFrame) -> set[tuple[str, str]]:
    values = known["value"].dropna()
    counts = {int(one) for one in known["count"].dropna()}
    mean = float(values.mean()) if len(values) else float("nan")
    return {(str(count), number((mean * (1 - mean) / count) ** 0.5)) for count in counts if count}


def literals() -> list[tuple[str, str]]:
    return [(en, zh) for en, zh in LITERAL.findall(TEMPLATE.read_text(encoding="utf-8"))]


def fixed(language: Language) -> set[str]:
    """The lines that the template says in any report, whatever its numbers."""
    of_language = 1 if language == "en" else 2
    lines = [LITERAL.sub(lambda found: found[of_language], line) for line in TEMPLATE.read_text("utf-8").splitlines()]
    return {line for line in lines if "{{" not in line and "{%" not in line} - {"---"} | {"</details>"}
