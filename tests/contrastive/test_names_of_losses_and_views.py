"""No file outside losses/ and views/ names a single loss or view: what the others must know of one, it says itself.

What it says is read from its literals.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrastive.config import registry
from contrastive.errors import UserError

CHECKOUT = Path(__file__).parents[2]
OWN = (CHECKOUT / "contrastive" / "losses", CHECKOUT / "contrastive" / "views")
NAMES = {*registry.loss_entries(), *registry.views()}
# Names that stand for something else, too; where they do so as a whole string, the file is named below.
WORDS = {"cls", "cluster", "layers", "pair"}
# How often, and what is meant: a pooling, a special token, how many blocks, a setting. One more is looked at again.
MEANT = {
    ("contrastive/config/cell.py", "cls"): 1,  # a pooling
    ("contrastive/config/facts.py", "layers"): 1,  # a setting
    ("contrastive/data/tokens.py", "cls"): 2,  # a special token
    ("contrastive/grid/check.py", "layers"): 1,  # a setting
    ("contrastive/models/pooling.py", "cls"): 1,
    ("contrastive/models/encoder.py", "cls"): 1,  # a pooling
    ("contrastive/models/encoder.py", "layers"): 1,  # how many blocks
    ("contrastive/data/locate.py", "layers"): 1,  # how many blocks
    ("contrastive/models/images.py", "layers"): 2,  # how many blocks
    ("flows/gpu_check.py", "layers"): 2,  # how many blocks
}


def product_files() -> Iterator[Path]:
    for package in ("contrastive", "flows", "reports", "tasks"):
        for path in (CHECKOUT / package).rglob("*.py"):
            if not any(path.is_relative_to(folder) for folder in OWN):
                yield path


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """All but docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def names_in(text: str) -> set[str]:
    """The losses and views that a string names: alone, in a sum, in a sentence, or as `view cls`."""
    words = set(re.findall(r"(?<![\w-])[a-z][\w-]*(?![\w-])", text))
    spoken = set(re.findall(r"(?:view|loss)s? `?([a-z][\w-]*)", text))
    return ({text} | (words - WORDS) | spoken) & NAMES


def naming(source: str) -> list[tuple[int, str]]:
    return [(node.lineno, name) for node in strings(ast.parse(source)) for name in names_in(node.value)]


def test_no_other_file_names_a_loss_or_a_view():
    """What is meant otherwise stands there as often as is written down: neither more nor less."""
    texts = {path.relative_to(CHECKOUT).as_posix(): path.read_text(encoding="utf-8") for path in product_files()}
    there = Counter((path, name) for path, text in texts.items() for _, name in naming(text))
    assert there == MEANT, "put what is more beside the loss or view, as its facts"


def test_a_setting_that_a_view_reads_beside_a_value_alone_is_said_with_it():
    """As k of the view layers, which is for tokens."""
    assert "layers with level token" in registry.setting_readers("k") and "layers" not in registry.setting_readers("k")


def test_facts_that_are_misspelt_are_named_with_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "PACKAGE_ROOT", tmp_path)
    monkeypatch.setattr(registry, "PACKAGES", ("little", "own"))
    (tmp_path / "little.py").write_text("from own import view\nVIEWS = {'view': view}\n")
    (tmp_path / "own.py").write_text(
        "\nVIEW_FACTS = ViewFacts(vectors=2, unraed=('k',))\ndef view(encode, *, k=1): pass\n"
    )
    said = r"own.py, line 2: VIEW_FACTS: .*'unraed'.*; a ViewFacts takes literals for: vectors, predictions, "
    with pytest.raises(UserError, match=said):
        registry.entries("little", "VIEWS")


def test_no_facts_belong_to_no_entry():
    rows = [*registry.loss_entries().values(), *registry.views().values(), *registry.metrics().values()]
    written = {
        f"{row.module}.{target.id}"
        for row in rows
        for node in registry.syntax_tree(row.module).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.endswith("FACTS")
    }
    assert written == {f"{row.module}.{row.facts_name}" for row in rows if row.facts_name}
