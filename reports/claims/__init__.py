"""Whether a finished report says only what its numbers say: every number in bold, every comparison, every sentence.

Reads the Markdown as a reader does. What must stand there is made again from the tidy frames beside it, and nothing
else may: no line of another form. The frames are held against each other: means, half-widths, differences, and
verdicts are computed anew from `results.csv`. Each report is checked before it takes the place of the
last one, and `ablate audit` checks it where it lies.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from reports.bilingual import FILES, Language
from reports.claims.document import Document
from reports.claims.frames import frames
from reports.claims.numbers import Numbers
from reports.claims.prose import prose

__all__ = ["Numbers", "check", "contradictions", "prose"]


def contradictions(folder: Path, quoted: Collection[str] = ()) -> list[str]:
    """What the report in a folder says and the numbers beside it do not; empty where it is sound. `quoted`: texts of
    the experiment file and errors of cells, which may say what they like."""
    texts = {language: (folder / name).read_text(encoding="utf-8") for language, name in FILES.items()}
    return check_texts(texts, Numbers.read(folder), quoted)


def check_texts(texts: Mapping[Language, str], numbers: Numbers, quoted: Collection[str] = ()) -> list[str]:
    """The same of texts, each as `README.md, line 12: …`."""
    problems = [f"comparisons.csv: {problem}" for problem in frames(numbers)]
    for language, text in texts.items():
        document = Document(text, numbers, language, quoted)
        problems += [problem.located(FILES[language], document.lines) for problem in document.problems()]
    return problems
