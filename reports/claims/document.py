"""A report line by line: each is of a form that a report has, and says what its numbers say."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pandas as pd

from contrastive.config.cell import Data
from reports.bilingual import Language
from reports.claims.contradiction import Contradiction, exactly
from reports.claims.frames import blocked, own_seeds
from reports.claims.numbers import Numbers, SectionNumbers
from reports.claims.prose import prose, worded
from reports.claims.tables import captions, check_class_counts, check_tables, table_blocks
from reports.markdown import PAGE, heading, number, plain
from reports.reading import how_to_read

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


class Document:
    """The parts of a report: what stands above its first heading, and what stands below each."""

    def __init__(self, text: str, numbers: Numbers, language: Language, quoted: Collection[str] = ()):
        self.numbers, self.language, self.fixed = numbers, language, fixed(language)
        self.quoted = {plain(text) for text in quoted}
        self.lines = text.split("\n")
        parts: list[list[str]] = [[]]
        for line in self.lines:
            if line.startswith("## "):
                parts.append([])
            parts[-1].append(line)
        below = parts[-1].index("---") if "---" in parts[-1] else len(parts[-1])
        self.head, self.parts, self.footer = parts[0], parts[1:], parts[-1][below + 1 :]
        if self.parts:
            self.parts[-1] = self.parts[-1][:below]
        frame = numbers.comparisons
        values, named = list(frame["value"].unique()), [*frame["label"].unique(), *numbers.titles]
        self.names = [*map(plain, named), *map(heading, values), *self.quoted]
        # as a picture names them
        self.names += [*map(PAGE.text, named), *(heading(value, PAGE) for value in values)]

    def word(self, english: str) -> str:
        """A fixed text of the template in the language of this report."""
        return dict(literals())[english] if self.language == "zh" else english

    def problems(self) -> Iterator[Contradiction]:
        titles = [self.word(CONCLUSIONS), *map(plain, self.numbers.titles)]
        headings = [part[0].removeprefix("## ") for part in self.parts]
        if headings not in (titles, [*titles, self.word(OVERVIEW)]):
            changed = [title for title in headings if title not in titles] or headings
            yield Contradiction(f"the sections are {headings}, not {titles}", f"## {changed[0]}" if changed else "")
            return
        yield from self.above()
        yield from self.concluded(self.parts[0])
        for section, part in zip(self.numbers.sections.values(), self.parts[1:], strict=False):
            yield from self.section(section, part)
        for part in self.parts[len(titles) :]:
            yield from self.others(part[1:], figures=True)
        yield from self.others(self.footer, footers=True)

    def above(self) -> Iterator[Contradiction]:
        """The name, what the author says of it, guards, and how the numbers are to be read."""
        name, *rest = self.head
        if not re.fullmatch(r"# [\w.\\-]+", name):
            yield from self.authored(name, name.removeprefix("# "))
        errors = [line for line in rest if ERROR[self.language].fullmatch(line)]
        lines = [line for line in rest if line and line not in self.fixed and line not in errors]
        setting = next((number for number, line in enumerate(lines) if SETTING.fullmatch(line)), len(lines))
        by_itself = bool(self.numbers.comparisons["most_seeds"].notna().any())
        seeds = self.numbers.results["seed"].nunique()
        drawn = {str(flag) == "True" for flag in self.numbers.comparisons.get("drawn", [])} or {False}
        how = [line.in_language(self.language) for line in how_to_read(seeds, by_itself, drawn)]
        yield from exactly(how, lines[setting + 1 :], lines[setting] if setting < len(lines) else name)
        guards = [line for line in lines[:setting] if line.startswith(NOTE[self.language])]
        yield from self.others(guards)
        description = [line for line in lines[:setting] if line not in guards]
        for line in description:
            yield from self.authored(line, line)
        odd = [line for line in description[:1] if line.startswith(("|", "#", "- ", ">", "!"))]
        for line in [line for line in description[1:] + odd if line not in self.quoted]:
            yield Contradiction(f"a line of no known form: {line}", line)
        yield from check_standard_errors(errors, self.numbers.results, self.language)

    def authored(self, line: str, text: str) -> Iterator[Contradiction]:
        """What the experiment file says may stand there; what else stands in its place claims nothing."""
        if text not in self.quoted:
            yield from (Contradiction(problem, line) for problem in prose(text))

    def concluded(self, part: list[str]) -> Iterator[Contradiction]:
        """Exactly the sentences that the statistics make."""
        colon, (title, *lines) = ": " if self.language == "en" else "：", part
        true = [
            f"- {plain(section.title)}{colon}{sentence.in_language(self.language)}"
            for section in self.numbers.sections.values()
            for sentence in section.findings
        ] or [f"- {self.word(NOTHING)}"]
        yield from exactly(true, [line for line in lines if line.startswith("- ")], title)
        rest = [line for line in lines if not line.startswith("- ")]
        for block in table_blocks(rest):
            yield from check_class_counts(block)
        yield from self.others([line for line in rest if not line.startswith("|")])

    def section(self, section: SectionNumbers, part: list[str]) -> Iterator[Contradiction]:
        title, *lines = part
        guarded = any(line.startswith(NOTE[self.language]) for line in lines)
        yield from check_tables(section, title, lines, self.language)
        for problem in ranked(section, self.numbers, guarded):
            yield Contradiction(problem, title)
        forbidden, others = blocked(section)
        if forbidden and (others or not guarded):
            yield Contradiction(f"{forbidden} comparisons are not made, and nothing forbids them", title)
        yield from exactly(section.runs, [line for line in lines if line.startswith("- ")], title)
        yield from self.emphasised(section, title, [line for line in lines if line.startswith("*")])
        yield from self.others(self.plain_lines(section, lines), figures=True, footers=True)

    def emphasised(self, section: SectionNumbers, title: str, lines: list[str]) -> Iterator[Contradiction]:
        """How it was tested, exactly; the author's note, which claims nothing; footers."""
        notes = {line: note[1] for line in lines if (note := OF_AUTHOR[self.language].fullmatch(line))}
        rest = [line for line in lines if line not in notes and not FOOTERS.fullmatch(line)]
        yield from exactly([f"*{line.in_language(self.language)}*" for line in section.tested], rest, title)
        for line, text in notes.items():
            yield from self.authored(line, text)
        for line in list(notes)[1:]:
            yield Contradiction("a section has one note of its author", line)

    def plain_lines(self, section: SectionNumbers, lines: list[str]) -> Iterator[str]:
        """What is neither part of a table nor its caption, no run, and no line that `emphasised` looks at."""
        own = captions(section, self.language)
        for line in lines:
            folded = SUMMARY.fullmatch(line)
            caption = folded[1] if folded else line
            if line.startswith(("|", "- ")) or (line.startswith("*") and not FOOTERS.fullmatch(line)):
                continue
            if line != "</details>" and not any(re.fullmatch(pattern, caption) for pattern in own):
                yield line

    def others(self, lines: Iterable[str], figures: bool = False, footers: bool = False) -> Iterator[Contradiction]:
        """Guards, pictures, footers and what the template says in each report; anything else is nobody's."""
        for line in lines:
            text = self.own_words(line, figures, footers)
            if text is None:
                yield Contradiction(f"a line of no known form: {line}", line)
            else:
                yield from (Contradiction(problem, line) for problem in worded(text, self.names))

    def own_words(self, line: str, figures: bool, footers: bool) -> str | None:
        """What a line says beside its form; nothing where its form says all; None where it has no known form."""
        if not line or line in self.fixed or (figures and LEFT_OUT.fullmatch(line)):
            return ""
        if line.startswith(NOTE[self.language]):
            return line.removeprefix(NOTE[self.language])
        if figures and (figure := FIGURE.fullmatch(line)):
            return figure["alt"]
        footer = FOOTERS.fullmatch(line) if footers else None
        return footer[1] if footer else None


def check_standard_errors(lines: list[str], results: pd.DataFrame, language: Language) -> Iterator[Contradiction]:
    """What chance alone makes of one accuracy: of the mean of all, where there is one data set; of several, each of
    which is named, within what single rows leave possible, for the numbers do not say which row is on which data."""
    accuracies = results[(results["score"] == "test.accuracy") & ~results["variant"].fillna("").astype(bool)]
    counts = {int(count) for count in accuracies["count"].dropna() if count}
    for line in dict.fromkeys(lines):
        error = ERROR[language].fullmatch(line)
        if error is None:
            continue
        alone = error["data"] is None
        if lines.count(line) > 1 or (alone and len(lines) > 1):
            yield Contradiction(f"the standard error is told {len(lines)} times", line)
        means = accuracies["value"] if alone else accuracies.groupby(["section", "row"])["value"].mean()
        lowest, highest = (means.mean(), means.mean()) if alone else (means.min(), means.max())
        may = [size_range(lowest, highest, count) for count in counts if count == int(error["count"])]
        if not any(low <= error["size"] <= high for low, high in may):
            yield Contradiction(f"the numbers say a standard error of {may}, on {sorted(counts)} texts: {line}", line)


def size_range(lowest: float, highest: float, count: int) -> tuple[str, str]:
    """The standard errors of an accuracy between two on so many texts: it is the largest at a half."""
    lowest, highest = max(0.0, lowest), min(1.0, highest)  # a wrong score may lie outside
    sizes = [(mean * (1 - mean) / count) ** 0.5 for mean in (lowest, highest, min(max(0.5, lowest), highest))]
    return number(min(sizes)), number(max(sizes))


def ranked(section: SectionNumbers, numbers: Numbers, guarded: bool) -> Iterator[str]:
    """Where something is bold, so is the best; where nothing is, something forbids it."""
    frame = section.compared.frame
    frame = frame[frame["tested"]]
    seeds = [set(own_seeds(line, numbers)) for line in frame.to_dict("records")]
    one_data, by_itself = not data_axes(numbers.results), section.compared.most_seeds is not None
    may = bool(seeds) and len(seeds[0]) > 1 and (by_itself or all(each == seeds[0] for each in seeds))
    several = frame["label"].nunique() > 1
    if not frame["bold"].any() and may and several and one_data and not guarded:
        yield "nothing is bold, and nothing forbids it"
    if frame["bold"].any() and not may:
        yield "bold over unequal seeds or one"
    for value, lines in frame.groupby("value", sort=False):
        if frame["bold"].any() and one_data and several:
            order = lines["mean"].to_numpy(float) * (1 if bool(lines["higher"].iloc[0]) else -1)
            if not lines["bold"].iloc[int(order.argmax())]:
                yield f"the best in {value} is not bold"


def data_axes(frame: pd.DataFrame) -> list[str]:
    axes = (str(name) for name in frame if str(name).startswith("axis."))
    return [axis for axis in axes if axis.removeprefix("axis.") in Data.model_fields]


@cache
def literals() -> list[tuple[str, str]]:
    return [(en, zh) for en, zh in LITERAL.findall(TEMPLATE.read_text(encoding="utf-8"))]


@cache
def fixed(language: Language) -> set[str]:
    """The lines that the template says in any report, whatever its numbers."""
    of_language = 1 if language == "en" else 2
    lines = [LITERAL.sub(lambda words: words[of_language], line) for line in TEMPLATE.read_text("utf-8").splitlines()]
    return {line for line in lines if "{{" not in line and "{%" not in line} - {"---"} | {"</details>"}
