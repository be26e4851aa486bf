"""What losses and views say of themselves is read from their literals."""

import ast
from pathlib import Path

import pytest

from contrastive.config import registry
from contrastive.errors import UserError


def test_a_setting_that_a_view_reads_beside_a_value_alone_is_said_with_it():
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
