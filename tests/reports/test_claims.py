"""A report that says what its numbers do not is found out; one that says what they do is not."""

import re
from pathlib import Path

import pytest

from reports.build import write
from reports.claims import Numbers, check
from reports.words import LANGUAGES
from tests.reports.made import made

CE = [0.70, 0.71, 0.69, 0.705, 0.695]
VALUES = {
    "ce": CE,
    "good": [one + 0.1 + noise for one, noise in zip(CE, (0.002, 0, -0.002, 0.001, 0), strict=True)],
    "bad": [one - 0.1 + noise for one, noise in zip(CE, (0.002, 0, -0.002, 0.001, 0), strict=True)],
    "same": [0.702, 0.705, 0.693, 0.7, 0.699],
}
FILES = {"en": "README.md", "zh": "README.zh.md"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two scores, of which the second has no tested difference."""
    two = {label: {"test.accuracy": found, "test.macro_f1": VALUES["same"]} for label, found in VALUES.items()}
    _, results = made(two)
    place = tmp_path_factory.mktemp("report")
    write(results, place)
    return place


def problems(folder: Path, language: str, change: tuple[str, str] | None = None) -> list[str]:
    text = (folder / FILES[language]).read_text(encoding="utf-8")
    if change is not None:
        assert re.search(change[0], text), f"{change[0]} is nowhere in\n{text}"
        text = re.sub(change[0], change[1], text, count=1)
    return check(text, Numbers.read(folder), language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sound_report_makes_no_false_claim(folder: Path, language: str):
    assert problems(folder, language) == []
    text = (folder / FILES[language]).read_text(encoding="utf-8")
    for said in {"en": (" is better than ", " is worse than ", "tied with"), "zh": ("优于", "劣于", "并列")}[language]:
        assert said in text.split("## ")[1]


TAMPERED = {
    "a mean in the table": (r"\| good \| \*\*0\.8002\*\*", "| good | **0.8103**"),
    "a half-width": (r"(\| same \| 0\.\d{4}) ± 0\.\d{4}", r"\1 ± 0.0001"),
    "bold for what is not tied": (r"\| bad \| (0\.\d{4})", r"| bad | **\1**"),
    "no bold for what is": (r"\| good \| \*\*(0\.\d{4})\*\*", r"| good | \1"),
    "the wrong way round": ("good is better than ce", "good is worse than ce"),
    "two names exchanged": ("good is better than ce", "ce is better than good"),
    "a number of a sentence": (r"(good is better than ce in accuracy \(test\)): 0\.\d{4}", r"\1: 0.9999"),
    "a difference": (r"a difference of \+0\.\d{4}", "a difference of +0.1999"),
    "a p-value": (r"p (= 0\.\d{4}|< 0\.0001) after Holm", "p = 0.0123 after Holm"),
    "the number of comparisons": (r"after Holm over \d+", "after Holm over 1"),
    "a count": (r"by (\d) of (\d) comparisons", r"by 2 of 2 comparisons"),
    "ties": (r"tied with the best are \d of", "tied with the best are 4 of"),
    "what would have been found": (r"\(0\.\d{4} would have been found\)", "(0.0001 would have been found)"),
    "a sentence of one's own": (r"\n- A section: good", "\n- Our method wins clearly.\n- A section: good"),
    "praise below a table": (r"\n\*Tested", "\nThis improves on all earlier work.\n\n*Tested"),
    "a configuration that there is not": (r"- A section: good is", "- A section: great is"),
}  # fmt: skip


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_what_the_numbers_do_not_say_is_found(folder: Path, change: tuple[str, str]):
    assert problems(folder, "en", change)


CHINESE = {
    "the wrong way round": ("good 在 (.+?) 上优于", r"good 在 \1 上劣于"),
    "a difference": (r"差异为 \+0\.\d{4}", "差异为 +0.1999"),
    "a count": (r"项比较中有 \d 项", "项比较中有 9 项"),
    "praise": (r"\n- A section：good", "\n- 我们的方法显著优于其他方法。\n- A section：good"),
}


@pytest.mark.parametrize("change", CHINESE.values(), ids=CHINESE)
def test_so_it_is_in_chinese(folder: Path, change: tuple[str, str]):
    assert problems(folder, "zh", change)


def test_frames_that_contradict_each_other_are_found(folder: Path):
    numbers = Numbers.read(folder)
    text = (folder / "README.md").read_text(encoding="utf-8")
    changed = numbers.comparisons.copy()
    changed.loc[changed["label"] == "same", ["verdict"]] = "better"
    found = check(text, Numbers(numbers.results, changed, numbers.effects))
    assert any("better at p" in problem for problem in found)
    changed = numbers.results.copy()
    changed.loc[(changed["label"] == "good") & (changed["seed"] == 0), "value"] += 0.05
    found = check(text, Numbers(changed, numbers.comparisons, numbers.effects))
    assert any("the mean is" in problem for problem in found) and any("the difference is" in one for one in found)
