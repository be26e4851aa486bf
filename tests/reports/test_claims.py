"""A report that says what its numbers do not is found out; small reports are byte for byte what they were."""

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.runs.recorded import Reference
from reports.bilingual import FILES, LANGUAGES
from reports.build import write_report
from reports.claims import Numbers, check_texts, contradictions
from reports.claims.frames import frames
from tests.reports.made import made, put
from tests.tiers import rest_is_full

CE = [0.70, 0.71, 0.69, 0.705, 0.695]
VALUES = {
    "ce": CE,
    "good": [one + 0.1 + noise for one, noise in zip(CE, (0.002, 0, -0.002, 0.001, 0), strict=True)],
    "bad": [one - 0.1 + noise for one, noise in zip(CE, (0.002, 0, -0.002, 0.001, 0), strict=True)],
    "same": [0.702, 0.705, 0.693, 0.7, 0.699],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two scores, of which the second has no tested difference."""
    two = {label: {"test.accuracy": found, "test.macro_f1": VALUES["same"]} for label, found in VALUES.items()}
    _, results = made(two)
    put(results.grid.experiment, description="What we look at, with a lower priority.")
    results.grid.references.append(Reference("k-means of words", "", {"test.accuracy": 0.5}))
    place = tmp_path_factory.mktemp("report")
    write_report(results, place)
    return place


def problems(folder: Path, language: str, change: tuple[str, str] | None = None) -> list[str]:
    text = (folder / FILES[language]).read_text(encoding="utf-8")
    if change is not None:
        assert re.search(change[0], text), f"{change[0]} is nowhere in\n{text}"
        text = re.sub(change[0], change[1], text, count=1)
    return check_texts({language: text}, Numbers.read(folder))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sound_report_makes_no_false_claim(folder: Path, language: str):
    assert problems(folder, language) == []
    text = (folder / FILES[language]).read_text(encoding="utf-8")
    for said in {"en": (" is better than ", " is worse than ", "tied with"), "zh": ("优于", "劣于", "并列")}[language]:
        assert said in text.split("## ")[1]


BELOW = r"\n\*Differences to"
OWN = "| Model | score |\n| :-- | --: |\n| good | **0.9999** |\n"
TAMPERED = {
    "a half-width": (r"(\| same \| 0\.\d{4}) ± 0\.\d{4}", r"\1 ± 0.0001"),
    "the texts of the standard error": (r"On \d+ test texts", "On 25000 test texts"),
    "a comparison left out": (r"\n\| bad \| accuracy .*", ""),
    "a section left out": (r"\n## A section", "\n"),
    "bold for what is not tied": (r"\| bad \| (0\.\d{4})", r"| bad | **\1**"),
    "no bold for what is": (r"\| good \| \*\*(0\.\d{4})\*\*", r"| good | \1"),
    "the wrong way round": ("good is better than ce", "good is worse than ce"),
    "a number of a sentence": (r"(good is better than ce in accuracy \(test\)): 0\.\d{4}", r"\1: 0.9999"),
    "an interval": (r"(a difference of \+0\.\d{4}) ± 0\.\d{4}", r"\1 ± 0.0001"),
    "what an equivalence is held against": (r"lies within ± 0\.01", "lies within ± 0.001"),
    "an equivalence left out": (r"\n- A section: same and ce are equivalent in accuracy.*", ""),
    "ties": (r"tied with the best are \d of", "tied with the best are 4 of"),
    "praise below a table": (BELOW, "\nThis improves on all earlier work.\n\n*Differences to"),
    "what a section would have found": (r"(Found with probability 0\.80: )0\.\d{4}", r"\g<1>0.0001"),
    "the count below a table": (r"hold for all \d+ comparisons", "hold for all 60 comparisons"),
    "a margin": (r"(\| same \| acc.*?\| )0\.01 ", r"\g<1>0.05 "),
    "a line of how it was tested left out": (r"\n\*Differences to.*", ""),
    "the standard error": (r"a standard error of 0\.\d{4}", "a standard error of 0.0011"),
    "the number of seeds": (r"\d seeds a configuration", "2 seeds a configuration"),
    "how to read it left out": (r"\nBold is every.*", ""),
    "the probability of improvement": (r"(?m)^(\| same \|.*?\| )0\.\d\d", r"\g<1>0.99"),
    "counts of texts of nobody": (r"(?m)^(\| bad \| accuracy .*)–", r"\g<1>90 : 1"),
    "a number in the description": ("with a lower priority", "and F1 of good is 0.9999"),
    "bold in the description": ("with a lower priority", "with **good**"),
    "a bad end left out": (r"\n- A section: bad is worse.*", ""),
    "a conclusion told twice": (r"(\n- A section: bad is worse.*)", r"\1\1"),
    "a configuration left out of the table": (r"\n\| bad \| 0\..*", ""),
    "a reference that praises itself": (r"\n\| \*k-means of words\*.*", "\n| *ours, the best* | 0.9999 | 0.9999 |"),
    "a reference in bold": (r"(\n\| \*k-means of words\* \| )0\.\d{4}", r"\1**0.9999**"),
    "a section of one's own": (r"\n## A section", f"\n## Summary\n\n{OWN}\n## A section"),
    "a table of one's own": (BELOW, f"\n{OWN}\n*Differences to"),
    "a table as HTML": (BELOW, "\n<table><tr><td>0.99</td></tr></table>\n\n*Differences to"),
    "bold as HTML": (r"with a lower priority", "with <b>good</b>"),
    "an unknown line": (BELOW, "\nSee below.\n\n*Differences to"),
    "a guard that ranks": (BELOW, "\n> **Note** A: The runs do not agree whether more is better: x\n\n*Differences to"),
    "a note in bold": (BELOW, "\n*Note: see **good***\n\n*Differences to"),
    "a footer that compares": (r"\n\*Commit: ", "\n*Commit: good has an advantage, "),
    "counts of classes": (r"(?m)^(\| test \| )\d+", r"\g<1>900"),
}  # fmt: skip


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_what_the_numbers_do_not_say_is_found(folder: Path, change: tuple[str, str]):
    assert problems(folder, "en", change)


CHINESE = (
    ("good 在 (.+?) 上优于", r"good 在 \1 上劣于"),
    (r"差异为 \+0\.\d{4}", "差异为 +0.1999"),
    (r"± 0\.01 之内", "± 0.05 之内"),
    (r"(能发现的差异：.*?) 为 0\.\d{4}", r"\1 为 0.0001"),
    (r"标准误为 0\.\d{4}", "标准误为 0.0001"),
    (r"\n- A section：bad .*劣于.*", ""),
    (r"\n- A section：good", "\n- 我们的方法显著优于其他方法。\n- A section：good"),
)


def test_so_it_is_in_chinese(folder: Path):
    for change in CHINESE:
        assert problems(folder, "zh", change), change


def test_frames_that_contradict_each_other_are_found(folder: Path):
    numbers = Numbers.read(folder)
    text = (folder / "README.md").read_text(encoding="utf-8")
    changed = numbers.comparisons.copy()
    changed.loc[changed["label"] == "same", ["verdict"]] = "better"
    found = check_texts({"en": text}, Numbers(numbers.results, changed, numbers.effects))
    assert any("better at a difference" in problem for problem in found)
    changed = numbers.results.copy()
    changed.loc[(changed["label"] == "good") & (changed["seed"] == 0), "value"] += 0.05
    found = check_texts({"en": text}, Numbers(changed, numbers.comparisons, numbers.effects))
    assert any("the mean is" in problem for problem in found) and any("the difference is" in one for one in found)
    # a configuration left out of the frames
    fewer = numbers.comparisons[numbers.comparisons["label"] != "bad"]
    assert any("bad is not among" in one for one in frames(Numbers(numbers.results, fewer, numbers.effects)))


WORDS = (
    "helps, ahead of, boosts, dominates, increases, stronger, leads, more accurate, advantage, better, higher, best, "
    "高于, 强于, 领先, 胜过, 更高, 最优, 好于, 增益, 优势, 比基线好, 优于, 提升"
)


PLACES = {
    "note": (BELOW, "\n*Note: good {} ce*\n\n*Differences to"),
    "description": ("with a lower priority", "where good {} ce"),
    "caption": (r"!\[", "![good {} ce "),
    "guard": (BELOW, "\n> **Note** good {} ce\n\n*Differences to"),
    "heading": ("# small", "# small, good {} ce"),
}


def test_words_that_compare_are_found_in_a_note_and_one_of_them_wherever_it_stands(folder: Path):
    for word, place in [*((word, "note") for word in WORDS.split(", ")), *(("better", place) for place in PLACES)]:
        pattern, said = PLACES[place]
        assert any(word in problem for problem in problems(folder, "en", (pattern, said.format(word)))), (word, place)


GOOD, BAD = VALUES["good"], VALUES["bad"]
TWICE = ("ce a", "ce b", "x a", "x b", "y b")
ON_DATA: dict[str, Any] = {"data": {label: label[-1] for label in TWICE}}
ON_DATA["axes"] = {label: {"loss": label[:-2], "source": label[-1]} for label in TWICE}
AT = (("ce", 1), ("x", 1), ("ce", 2), ("x", 2))
PLACED = {label: {"loss": loss, "k": k} for label, (loss, k) in zip(VALUES, AT, strict=True)}
SOUND: dict[str, dict[str, Any]] = {
    "labels that compare": {"values": {"ce": CE, "better": GOOD, "worse": BAD, "the best": VALUES["same"]}},
    "a label like a baseline's": {"values": {"ce": CE, "ce (baseline)": GOOD, "good": BAD}},
    "labels like nothing": {"values": {"": CE, "nan": GOOD, "1.0": BAD}},
    "labels of markup": {"values": {"a*b*": CE, "a|b": GOOD, "<b>": BAD, "- x": VALUES["same"]}},
    "a title of conclusions": {"values": {"ce": CE, "good": GOOD}, "title": "What can be concluded"},
    "a title of the overview": {"values": {"ce": CE, "good": GOOD}, "title": "The whole grid"},
    "one seed": {"values": {"ce": CE[:1], "good": GOOD[:1]}},
    "no spread": {"values": {"ce": [0.5, 0.5], "good": [0.7, 0.7]}},
    "no results": {"values": {"ce": CE, "good": [math.nan] * 5}},
    "no seed in common": {"values": {"ce": [0.7, 0.71, math.nan, math.nan], "good": [math.nan, math.nan, 0.8, 0.81]}},
    "less is better": {"values": {"ce": CE, "good": GOOD}, "worse_is_more": ("test.accuracy",)},
    "two data sets": {"values": {"ce a": CE, "x a": GOOD, "y b": BAD}, **ON_DATA},
    "of one seed": {"values": {"ce a": CE[:1], "ce b": GOOD[:1], "x a": BAD[:1], "x b": GOOD[1:2]}, **ON_DATA},
    "a pivot": {"values": VALUES, "axes": PLACED, "table": {"columns": "k", "rows": "loss"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", rest_is_full(SOUND, ("a pivot", "labels of markup", "two data sets", "no results")))
def test_sound_reports_pass(tmp_path: Path, case: str):
    given = {"title": "A section"} | SOUND[case]
    values = {label: {"test.accuracy": found} for label, found in given.pop("values").items()}
    title, table = given.pop("title"), given.pop("table", {})
    part, results = made(values, **given, **table)
    put(part, title=title)
    write_report(results, tmp_path)
    assert contradictions(tmp_path) == []


def test_the_guards_own_words_pass(folder: Path):
    for said in (
        "The runs do not agree whether more is better: x.",
        "Nothing says whether more is better, and nothing is ranked by it: x.",
        "test.accuracy is not above the share of the largest class, which needs no training: good.",
    ):
        assert problems(folder, "en", (BELOW, f"\n> **Note** {said}\n\n*Differences to")) == []


FRAMES: dict[str, tuple[str, str, Any]] = {
    "p": ("same", "p", 0.001),
    "the interval": ("same", "difference_half_width", 0.9),
    "the margin": ("same", "margin", 0.0001),
    "which side of 0": ("same", "side", 1),
    "what would decide what is decided": ("good", "needs_seeds", 9),
    "the improvement": ("same", "improvement", 0.99),
    "a verdict": ("bad", "verdict", "undecided"),
    "no verdict": ("bad", "verdict", ""),
    "not comparable": ("bad", "verdict", "not comparable"),
    "which way is better": ("bad", "higher", False),
    "the half-width": ("good", "half_width", 0.0001),
    "the best is not bold": ("good", "bold", False),
}


@pytest.mark.parametrize("change", FRAMES.values(), ids=FRAMES)
def test_so_is_a_comparison_that_does_not_follow(folder: Path, change: tuple[str, str, Any]):
    numbers, (label, column, value) = Numbers.read(folder), change
    changed = numbers.comparisons.copy()
    changed.loc[(changed["label"] == label) & (changed["value"] == "test.accuracy"), column] = value
    assert list(frames(Numbers(numbers.results, changed, numbers.effects))) or column == "bold"
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert check_texts({"en": text}, Numbers(numbers.results, changed, numbers.effects))


GOLDEN = Path(__file__).parent / "golden"
OUTPUT = Path(__file__).parents[2] / "reports" / "output"
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|root|Users|tmp|work|mnt|data|var|opt|usr|srv)/|\b[A-Z]:\\\\")
# `python -m tests.reports.test_claims` writes the small reports again, after a change that is meant.
REPORTS = {"": 5, "one_seed": 1}  # folder below golden, and the number of seeds


def build(folder: Path, seeds: int) -> None:
    """One grid of two axes with its baseline, on texts of which each is known, and a score that counts down."""
    random = np.random.default_rng(7)
    easy = random.normal(size=80)
    shares = {"ce": 0.0, "k=4 · α=0.2": 0.1, "k=4 · α=0.5": 0.0, "k=8 · α=0.2": 1.6, "k=8 · α=0.5": -1.5}
    right = {
        label: easy + share + 0.3 * random.normal(size=(seeds, 80)) + 0.05 * random.normal(size=(seeds, 1)) > -0.6
        for label, share in shares.items()
    }
    values = {
        label: {"test.accuracy": list(each.mean(1)), "test.ece": list(0.1 + 0.01 * random.normal(size=seeds))}
        for label, each in right.items()
    }
    axes = {label: {"k": int(label[2]), "alpha": float(label[-3:])} for label in shares if label != "ce"}
    _, results = made(values, right, ("test.ece",), axes=axes, rows="k", columns="alpha")
    write_report(results, folder)


@pytest.mark.parametrize(("place", "seeds"), REPORTS.items())
def test_a_small_report_is_as_it_was(place: str, seeds: int, tmp_path: Path):
    build(tmp_path, seeds)
    for name in FILES.values():
        assert (tmp_path / name).read_text(encoding="utf-8") == (GOLDEN / place / name).read_text(encoding="utf-8")


def test_a_committed_report_makes_no_false_claim_and_names_no_absolute_path():
    folders = sorted(path.parent for path in OUTPUT.glob("*/comparisons.csv"))
    assert "quickstart" in [folder.name for folder in folders]
    for folder in folders:
        assert contradictions(folder) == []
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".csv", ".html", ".svg"):
                found = ABSOLUTE.search(path.read_text(encoding="utf-8"))
                assert found is None, f"{path} names {found and found[0]}"


if __name__ == "__main__":
    import tempfile

    for place, seeds in REPORTS.items():
        (GOLDEN / place).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), seeds)
            for name in FILES.values():
                (GOLDEN / place / name).write_bytes((Path(folder) / name).read_bytes())
    sys.stdout.write(f"written: {GOLDEN}\n")
