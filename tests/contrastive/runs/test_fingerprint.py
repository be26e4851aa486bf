"""Digests of plain data and of code."""

from pathlib import Path

import pytest

from contrastive.config import registry
from contrastive.runs import fingerprint
from contrastive.runs.fingerprint import canonical_json


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Digest of a module of a little project of its own, whose source the test writes."""
    monkeypatch.setattr("contrastive.config.registry.PACKAGE_ROOT", tmp_path)
    monkeypatch.setattr("contrastive.config.registry.PACKAGES", ("little",))
    (tmp_path / "little").mkdir()
    (tmp_path / "little" / "__init__.py").write_text("")

    def forget() -> None:
        for name in ("code_digests", "code_digest", "code_of", "definitions"):
            getattr(fingerprint, name).cache_clear()
        for name in ("syntax_tree", "entries"):
            getattr(registry, name).cache_clear()

    def digest(**sources: str) -> str:
        for name, text in sources.items():
            (tmp_path / "little" / f"{name}.py").write_text(text)
        forget()
        return fingerprint.code_digest(("little.first",))

    yield digest
    forget()


def test_canonical_json():
    assert canonical_json({"b": 1, "a": 2.0}) == canonical_json({"a": 2, "b": 1.0}) == '{"a":2,"b":1}'
    assert canonical_json([True, None, "é", 0.1]) == '[true,null,"é",0.1]'
    for bad in (float("nan"), float("inf"), {1: 2}, {"a": {3}}, object()):
        with pytest.raises((ValueError, TypeError), match="cannot be part of an identity"):
            canonical_json(bad)


def test_code_digest_ignores_comments_and_docstrings_and_follows_imports(module):
    first = "from little.second import add\n\ndef run(x):\n    return add(x, 1)\n"
    second = "def add(a, b):\n    return a + b\n"
    before = module(first=first, second=second)
    dressed = '"""Doc."""\n' + first.replace("return", '"""Doc."""\n    # why\n    return')
    assert module(first=dressed, second=second) == before
    assert module(first=first, second=second.replace("+", "-")) != before
    lazily = "def run(x):\n    from little.second import add\n    return add(x, 1)\n"
    assert module(first=lazily, second=second) != module(first=lazily, second=second.replace("+", "*"))
    assert module(first=first, second=second, unrelated="x = 1\n") == before
    (registry.PACKAGE_ROOT / "another.py").write_text("from . import x")  # of another project, as in site-packages
    used = module(first=f"import another\n{first}", second=second)
    (registry.PACKAGE_ROOT / "another.py").write_text("y = 1")
    assert module(first=f"import another\n{first}", second=second) == used


SHARED = """
from math import cos, sin
from little.second import add
from little.third import take

SCALE = 2
FIRST_FACTS = ViewFacts(vectors=1)


def first(x):
    return helper(sin(x))


def other(x):
    return helper(take(x) + OFFSET) + cos(x)


def helper(x):
    return SCALE * add(x, x)


OFFSET = 3
"""
# a change of the shared file or of a file that it imports → the entries whose digest changes
EDITS = {
    ("return helper(sin", "return 1 + helper(sin"): {"first"},
    ("OFFSET = 3", "OFFSET = 4"): {"other"},
    ("SCALE = 2", "SCALE = 3"): {"first", "other"},
    ("import cos, sin", "import cos, tan as sin"): {"first"},
    ("vectors=1", "vectors=2"): {"first"},
    ("SCALE = 2", "SCALE = 2\nregister()"): {"first", "other"},  # binds no name
    ("def helper", "def unused(x):\n    return x\n\n\ndef helper"): set(),
    ("a + b", "a - b"): {"first", "other"},
    ("y * y", "y + y"): {"other"},
}


@pytest.mark.parametrize(("edit", "changed"), EDITS.items(), ids=[after for _, after in EDITS])
def test_of_a_file_with_several_entries_only_the_code_in_use_counts(module, edit: tuple[str, str], changed: set[str]):
    sources = {
        "table": "from little.both import first, other\n\nVIEWS = {'first': first, 'other': other}\n",
        "both": SHARED,
        "second": "def add(a, b):\n    return a + b\n",
        "third": "def take(y):\n    return y * y\n",
    }

    def digests(**files: str) -> dict[str, str]:
        module(first="import little.table\n", **files)
        choices = {name: (("little.table", "VIEWS", (name,)),) for name in ("first", "other")}
        return {name: fingerprint.code_digest(("little.first",), chosen) for name, chosen in choices.items()}

    before = digests(**sources)
    edited = {name: text.replace(*edit) for name, text in sources.items()}
    assert edited != sources
    after = digests(**edited)
    assert {name for name in before if before[name] != after[name]} == changed


def test_other_code_that_imports_a_name_of_an_entry_s_file_counts_it(module):
    table = "from little.both import first\n\nVIEWS = {'first': first}\n"
    both = "def first(x):\n    return x\n\n\ndef helper(x):\n    return x + 1\n"
    chosen = (("little.table", "VIEWS", ()),)
    module(first="import little.table\nfrom little.both import helper\n", table=table, both=both)
    digests = fingerprint.code_digests(("little.first",), chosen)
    assert "little.both.helper" in digests and not {"little.both", "little.both.first"} & digests.keys()
