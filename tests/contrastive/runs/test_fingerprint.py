"""Digests of plain data and of code."""

from pathlib import Path

import pytest

from contrastive.config import registry
from contrastive.errors import UserError
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
        for name in ("imports", "code_digests", "code_digest", "module_digest"):
            getattr(fingerprint, name).cache_clear()
        registry.syntax_tree.cache_clear()

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


def test_code_that_is_no_python_is_named_with_its_line(module):
    with pytest.raises(UserError, match=r"first.py, line 2: .*fix it"):
        module(first="x = 1\nthis is no Python\n")


def test_an_entry_in_use_counts_where_an_unused_one_shares_its_file(module):
    chosen = (("little.table", "TABLE", ("used",)),)
    table = 'from little.both import other, used\n\nTABLE = {"used": used, "other": other}\n'
    both = "def used(x):\n    return x + 1\n\n\ndef other(x):\n    return x\n"
    module(first="import little.table\n", table=table, both=both)
    before = fingerprint.code_digest(("little.first",), chosen)
    module(both=both.replace("+", "-"))
    assert fingerprint.code_digest(("little.first",), chosen) != before
