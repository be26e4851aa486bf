"""Whether a finished report says only what its numbers say: every number in bold, every comparison, every sentence.

Reads the Markdown as a reader does and holds it against two tidy frames: `results` (a row a section, configuration,
seed and score) and `comparisons` (a row a section, configuration and score, as `reports.compare` made it). Means,
half-widths and differences are computed anew from the results.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reports.findings import COUNTED, OPEN, reason
from reports.statistics import ALPHA, summarise
from reports.tables import VERDICTS
from reports.text import MISSING, heading, number, plain, probability, signed
from reports.words import Language

# What only a sentence made of the statistics may say.
COMPARING = re.compile(
    r"\b(better|worse|best|worst|higher|lower|outperform\w*|beat(s|en)?|improve[sd]?|superior|inferior|surpass\w*|"
    r"exceed\w*|gain(s|ed)?|significant\w*|winner|wins)\b|优于|劣于|更好|更差|最佳|最好|提升|显著|超过",
    re.IGNORECASE,
)
SIZE = r"(?P<size>[+−]\d+\.\d{4}) ± (?P<half>\d+\.\d{4})"
P = r"p (?:= )?(?P<p>< 0\.0001|\d\.\d{4})"
NUMBERS = r"(?P<ours>-?\d+\.\d{4})"
DIFFERENCE = {
    "en": re.compile(
        rf"(?P<label>.+) is (?P<verdict>better|worse) than (?P<against>.+?) in (?P<score>.+?): "
        rf"{NUMBERS} against (?P<theirs>-?\d+\.\d{{4}}), a difference of {SIZE} "
        rf"\({P} after Holm over (?P<count>\d+) comparisons\)\."
    ),
    "zh": re.compile(
        rf"(?P<label>.+) 在 (?P<score>.+?) 上(?P<verdict>优于|劣于) (?P<against>.+?)：{NUMBERS} 对 "
        rf"(?P<theirs>-?\d+\.\d{{4}})，差异为 {SIZE}（对 (?P<count>\d+) 项比较作 Holm 校正后 {P}）。"
    ),
}
BETTER = {"better": "better", "优于": "better", "worse": "worse", "劣于": "worse"}
SMALLEST = r"(?P<smallest>\d+\.\d{4})"
# A list of scores, each with its counts: (what the list says, one of its entries)
LISTS = {
    "en": [
        *(
            (
                kind,
                re.compile(rf"{re.escape(words.en)} (?P<list>\d.+)\."),
                re.compile(
                    r"(?P<count>\d+) of (?P<all>\d+) comparisons in (?P<score>.+?)"
                    rf"(?: \({SMALLEST} would have been found\))?"
                ),
            )
            for kind, words in (COUNTED | OPEN).items()
        ),
        (
            "tied",
            re.compile(r"tied with the best are (?P<list>\d.+)\."),
            re.compile(r"(?P<count>\d+) of (?P<all>\d+) configurations in (?P<score>.+?)"),
        ),
    ],
    "zh": [
        *(
            (
                kind,
                re.compile(rf"{re.escape(words.zh)}：(?P<list>.+)。"),
                re.compile(rf"(?P<score>.+?) 的 (?P<all>\d+) 项比较中有 (?P<count>\d+) 项(?:（可发现 {SMALLEST}）)?"),
            )
            for kind, words in (COUNTED | OPEN).items()
        ),
        (
            "tied",
            re.compile(r"与最佳者并列：(?P<list>.+)。"),
            re.compile(r"(?P<score>.+?) 的 (?P<all>\d+) 种配置中有 (?P<count>\d+) 种"),
        ),
    ],
}
BETWEEN = {"en": re.compile(r", (?=\d+ of \d+ c)"), "zh": re.compile("，")}
EXPLAINED = {
    "en": re.compile(
        r"(?P<effect>.+) explains (?P<share>\d+\.\d) % of the variance of (?P<score>.+?) "
        rf"\({P} after Holm\)\."
    ),
    "zh": re.compile(rf"(?P<effect>.+) 解释了 (?P<score>.+?) 方差的 (?P<share>\d+\.\d) %（Holm 校正后 {P}）。"),
}
NOTHING = ("Nothing was compared.", "没有进行比较。")
# What stands in every report, and says how to read it.
EXPLAINING = (
    "Bold is every value that is tied with the best of its column: nothing was shown to be better, after Holm's "
    "correction over all pairs of the section.",
    "粗体表示与该列最佳值并列：经对本节所有配对的 Holm 校正后，没有任何一个值显示出比它更优。",
)
NUMBER = re.compile(r"(\*\*)?(-?\d+\.\d{4})(\*\*)?(?: ± (\d+\.\d{4}))?")


@dataclass(frozen=True)
class Numbers:
    """What a report may say. Frames as `results.csv` and `comparisons.csv` hold them."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    effects: pd.DataFrame

    @staticmethod
    def read(folder: Path) -> "Numbers":
        """Those that a report left beside itself."""
        names = ("results.csv", "comparisons.csv", "effects.csv")
        return Numbers(*(pd.read_csv(folder / name, low_memory=False) for name in names))

    def of(self, section: str, label: str, score: str) -> pd.DataFrame:
        """The line of a configuration; names as Markdown shows them."""
        known = self.comparisons
        return known[
            (known["section"].map(plain) == section)
            & (known["label"].map(plain) == label)
            & (known["value"].map(heading) == score)
        ]


def check(text: str, numbers: Numbers, language: Language = "en") -> list[str]:
    """What a report says and its numbers do not; empty where it is sound."""
    return [*frames(numbers), *sentences(text, numbers, language), *tables(text, numbers), *prose(text)]


def frames(numbers: Numbers) -> Iterator[str]:
    """The comparisons against the results: means, half-widths, differences, verdicts."""
    seeds = seeds_of(numbers)
    for line in numbers.comparisons.to_dict("records"):
        name = f"{line['section']}, {line['label']}, {line['value']}"
        own = seeds.get((line["section"], line["label"], line["value"]), {})
        summary = summarise(list(own.values()))
        if summary is None:
            if math.isfinite(line["mean"]):
                yield f"{name}: a mean of no result"
            continue
        if number(summary.mean) != number(line["mean"]):
            yield f"{name}: the mean is {number(summary.mean)}, not {number(line['mean'])}"
        half = line["half_width"]
        if summary.half_width is not None and number(summary.half_width) != number(half):
            yield f"{name}: the half-width is {number(summary.half_width)}, not {number(half)}"
        yield from against(name, line, own, seeds)


def against(
    name: str, line: dict[Any, Any], own: dict[int, float], seeds: dict[object, dict[int, float]]
) -> Iterator[str]:
    difference, verdict, p = line["difference"], line["verdict"], line["p_holm"]
    if not isinstance(line["against"], str):
        if verdict in ("better", "worse"):
            yield f"{name}: {verdict} than nothing"
        return
    theirs = seeds.get((line["section"], line["against"], line["value"]), {})
    both = sorted(own.keys() & theirs.keys())
    true = sum(own[seed] - theirs[seed] for seed in both) / len(both) if both else math.nan
    if signed(true) != signed(difference):
        yield f"{name}: the difference is {signed(true)}, not {signed(difference)}"
    if verdict in ("better", "worse"):
        if not p < ALPHA:
            yield f"{name}: {verdict} at p = {p:.4f}"
        if ((true > 0) == line["higher"]) != (verdict == "better"):
            yield f"{name}: {verdict}, and the difference is {signed(true)}"
        if len(both) < 2:
            yield f"{name}: {verdict} by {len(both)} seed"


def seeds_of(numbers: Numbers) -> dict[object, dict[int, float]]:
    """(section, label, score) → seed → value, computed from the results alone."""
    found: dict[object, dict[int, float]] = {}
    known = numbers.results[numbers.results["status"] == "finished"]
    names = ("section", "label", "variant", "score", "seed", "value")
    for section, label, variant, score, seed, value in zip(*(known[name] for name in names), strict=True):
        if pd.notna(value):
            name = f"{label} · {variant}" if isinstance(variant, str) and variant else label
            found.setdefault((section, name, score), {})[int(seed)] = float(value)
    return found


def sentences(text: str, numbers: Numbers, language: Language) -> Iterator[str]:
    """Each conclusion: one of the known forms, with the numbers of its configurations."""
    for line in concluded(text):
        title, body = parted(line, numbers, language)
        if found := DIFFERENCE[language].fullmatch(body):
            yield from difference(line, found.groupdict() | {"section": title}, numbers)
        elif found := EXPLAINED[language].fullmatch(body):
            yield from explained(line, found.groupdict() | {"section": title}, numbers)
        elif known := [(kind, found, one) for kind, form, one in LISTS[language] if (found := form.fullmatch(body))]:
            kind, found, one = known[0]
            for part in BETWEEN[language].split(found["list"]):
                if entry := one.fullmatch(part):
                    yield from counted(line, kind, entry.groupdict() | {"section": title}, numbers)
                else:
                    yield f"no statistic says `{part}`: {line}"
        elif line not in NOTHING:
            yield f"no statistic says: {line}"


def parted(line: str, numbers: Numbers, language: Language) -> tuple[str, str]:
    """The section that a conclusion is about, and what it says of it."""
    colon = ": " if language == "en" else "："
    titles = sorted(map(plain, dict.fromkeys(numbers.comparisons["section"])), key=len, reverse=True)
    title = next((title for title in titles if line.startswith(title + colon)), "")
    return title, line.removeprefix(title + colon)


def concluded(text: str) -> list[str]:
    """The lines of the section of conclusions, which is the first of a report."""
    parts = re.split(r"^## .*$", text, flags=re.MULTILINE)
    return [line[2:] for line in (parts[1] if len(parts) > 1 else "").splitlines() if line.startswith("- ")]


def difference(said: str, found: dict[str, str], numbers: Numbers) -> Iterator[str]:
    lines = numbers.of(found["section"], found["label"], found["score"])
    lines = lines[lines["against"].map(lambda name: plain(name) == found["against"])]
    if len(lines) != 1:
        yield f"no comparison of the results is: {said}"
        return
    line = lines.iloc[0]
    true = {
        "verdict": line["verdict"],
        "ours": number(line["mean"]),
        "theirs": number(line["mean"] - line["difference"]),
        "size": signed(line["difference"]),
        "half": number(line["difference_half_width"]),
        "p": probability(line["p_holm"]),
        "count": str(hypotheses(numbers, line["section"])),
    }
    told = found | {"verdict": BETTER[found["verdict"]]}
    yield from (f"{told[key]} is {value} in: {said}" for key, value in true.items() if told[key] != value)


def hypotheses(numbers: Numbers, section: str) -> int:
    return int(numbers.comparisons.loc[numbers.comparisons["section"] == section, "p_holm"].notna().sum())


def counted(said: str, kind: str, found: dict[str, str | None], numbers: Numbers) -> Iterator[str]:
    """How many of a section's comparisons, or configurations, are of a kind in a score."""
    known = numbers.comparisons
    here = known[(known["section"].map(plain) == found["section"]) & (known["value"].map(heading) == found["score"])]
    compared = here[here["against"].notna()]
    count = here["bold"].sum() if kind == "tied" else sum(reason(line) == kind for line in compared.to_dict("records"))
    true = {"count": int(count), "all": len(here if kind == "tied" else compared)}
    yield from (f"{found[key]} is {value} in: {said}" for key, value in true.items() if found[key] != str(value))
    smallest = found.get("smallest")
    if smallest is not None and {smallest} != {number(one) for one in compared["detectable"]}:
        yield f"{smallest} is not what would have been found: {said}"


def explained(said: str, found: dict[str, str | None], numbers: Numbers) -> Iterator[str]:
    known = numbers.effects
    here = known[
        (known["section"].map(plain) == found["section"])
        & (known["value"].map(heading) == found["score"])
        & (known["shown"].map(plain) == found["effect"])
    ]
    if len(here) != 1 or f"{100 * here.iloc[0]['share']:.1f}" != found["share"]:
        yield f"no effect of the results is: {said}"
    elif probability(here.iloc[0]["p_holm"]) != found["p"] or not here.iloc[0]["p_holm"] < ALPHA:
        yield f"p is {probability(here.iloc[0]['p_holm'])} in: {said}"


def tables(text: str, numbers: Numbers) -> Iterator[str]:
    """Every number of a table, and whether it is bold; a pivot by the numbers that it holds."""
    for title, body in re.findall(r"^## (.*)\n((?:(?!^## ).*\n?)*)", text, flags=re.MULTILINE):
        known = numbers.comparisons[numbers.comparisons["section"].map(plain) == title]
        if known.empty:
            continue
        right = {printed_of(line) for line in known.to_dict("records") if math.isfinite(line["mean"])}
        printed = set()
        for heads, rows in parsed(body):
            if heads[0] in COMPARED:
                yield from compared_rows(title, heads, rows, known)
            elif heads[0] in LISTED or "\\" in heads[0]:
                for row in rows:
                    found = scores_in(row)
                    printed |= found
                    yield from (f"{title}: {as_text(*one)} is no result: {' | '.join(row)}" for one in found - right)
            if heads[0] in LISTED:
                yield from listed(title, heads, rows, known)
        yield from (f"{title}: {as_text(*one)} is not in the table" for one in right - printed)


COMPARED = ("Compared to its baseline", "与基线比较")
LISTED = ("Configuration", "配置")


def parsed(body: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Head and rows of each table; references, which are no configurations, left out."""
    for block in re.findall(r"(?:^\|.*\n?)+", body, flags=re.MULTILINE):
        lines = [[one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield lines[0], [line for line in lines[2:] if not line[0].startswith("*")]


def scores_in(row: list[str]) -> set[tuple[str, str, bool]]:
    return {(value, half, bool(bold)) for one in row[1:] for bold, value, _, half in NUMBER.findall(one)}


def as_text(value: str, half: str, bold: bool) -> str:
    return (f"**{value}**" if bold else value) + (f" ± {half}" if half else "")


def printed_of(line: dict[Any, Any]) -> tuple[str, str, bool]:
    """Mean, half-width and boldness of a line, as a table has them."""
    half = number(line["half_width"]) if math.isfinite(line["half_width"]) else ""
    return number(line["mean"]), half, bool(line["bold"])


def listed(title: str, heads: list[str], rows: list[list[str]], known: pd.DataFrame) -> Iterator[str]:
    """In a list, each number stands with its own configuration and score."""
    for row in rows:
        label = re.sub(r"( \(baseline\)|（基线）)$", "", row[0])
        for score, entry in zip(heads[1:], row[1:], strict=True):
            lines = known[(known["label"].map(plain) == label) & (known["value"].map(heading) == score)]
            if len(lines) == 1 and entry != as_printed(lines.iloc[0]):
                yield f"{title}: {label} has {as_printed(lines.iloc[0])} in {score}, not {entry}"


def compared_rows(title: str, heads: list[str], rows: list[list[str]], known: pd.DataFrame) -> Iterator[str]:
    """Each comparison with its difference, p and verdict."""
    compared = known[known["against"].notna()]
    for row in rows:
        lines = compared[compared["label"].map(plain) == row[0]]
        if len(heads) == COLUMNS_WITH_SCORE:
            lines = lines[lines["value"].map(heading) == row.pop(1)]
        if len(lines) != 1:
            yield f"{title}: no comparison is {' | '.join(row)}"
            continue
        line = lines.iloc[0]
        half, p = line["difference_half_width"], line["p_holm"]
        size = signed(line["difference"]) + (f" ± {number(half)}" if math.isfinite(half) else "")
        true = (size, probability(p) if math.isfinite(p) else MISSING, VERDICTS[line["verdict"]])
        said = (row[1], row[2], row[-1])
        if said[:2] != true[:2] or said[2] not in (true[2].en, true[2].zh):
            yield f"{title}: {row[0]} is {', '.join(true[:2])}, {true[2].en}, not {', '.join(said)}"


COLUMNS_WITH_SCORE = 7


def as_printed(line: pd.Series) -> str:
    if not math.isfinite(line["mean"]):
        return MISSING
    text = f"**{number(line['mean'])}**" if line["bold"] else number(line["mean"])
    return f"{text} ± {number(line['half_width'])}" if math.isfinite(line["half_width"]) else text


def prose(text: str) -> Iterator[str]:
    """No other line compares anything: not a note, not a caption, not what explains the report."""
    said = set(concluded(text))
    for line in text.splitlines():
        bare = line.removeprefix("- ")
        if line.startswith("|") or bare in said or bare in EXPLAINING:
            continue
        if found := COMPARING.search(line.replace("Expected best", "").replace("期望最优值", "")):  # a quantity's name
            yield f"`{found[0]}` is said without a statistic: {line}"
