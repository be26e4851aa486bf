"""The experiment files that ship, and the schema that editors read."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from contrastive.config.cell import SETTINGS
from contrastive.grid import messages
from contrastive.grid.choose import candidates
from contrastive.grid.load import load_experiment, parse_experiment, read_document

CONFIGS = Path(__file__).parent.parent.parent / "configs"
FILES = sorted([*CONFIGS.glob("*.yaml"), *CONFIGS.glob("study/*.yaml")])


def plain(path: Path) -> Any:
    return json.loads(json.dumps(read_document(path.read_text(encoding="utf-8"), path.name).data))


SCHEMA = json.loads((CONFIGS / "experiment.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_shipped_file_is_right_for_us_and_for_editors(path):
    resolved = load_experiment(path)
    assert (
        resolved.experiment.name == "-".join(path.relative_to(CONFIGS).with_suffix("").parts)
        and len(resolved.experiment.seeds) >= 2
    )
    assert all(any(row.baseline for row in section.rows) for section in resolved.sections)
    assert [error.message for error in VALIDATOR.iter_errors(plain(path))] == []
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=")


def test_the_file_of_the_readme_is_right_and_short():
    text = (CONFIGS.parent / "README.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    resolved = parse_experiment(text)
    assert len(text.splitlines()) <= 13 and len(resolved.cells) == 16
    assert len(candidates(resolved.experiment).cells) == 12
    assert not list(VALIDATOR.iter_errors(json.loads(json.dumps(read_document(text, "README.md").data))))


def test_the_schema_is_current():
    kept = (CONFIGS / "experiment.schema.json").read_text(encoding="utf-8")
    assert kept == messages.schema_text(), (
        "write it again: python -c 'from contrastive.grid import messages; print(messages.schema_text(), end=\"\")'"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("description:", "descripton:"), ("{loss: rdrop}", "{los: rdrop}"), ("accuracy: 0.01", "accuracy: 0")],
)
def test_an_editor_marks_mistakes(old, new):
    text = (CONFIGS / "quickstart.yaml").read_text(encoding="utf-8")
    assert old in text
    wrong = json.loads(json.dumps(yaml.safe_load(text.replace(old, new))))
    assert list(VALIDATOR.iter_errors(wrong))


def test_an_editor_can_complete_every_setting():
    definitions = SCHEMA["$defs"]
    assert list(definitions["Settings"]["properties"]) == list(definitions["Axes"]["properties"]) == list(SETTINGS)
    losses = definitions["Objective"]["properties"]["loss"]["anyOf"][0]["enum"]
    assert {"ce", "rdrop", "supcon"} <= set(losses)
    assert "test.nmi" in definitions["ShownTable"]["properties"]["values"]["items"]["anyOf"][0]["enum"]
