"""What was dropped of the rows stands beside the counts of the classes, and on top where it is much."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from contrastive.cells import plan as plans
from contrastive.data import tokens, transfer_data
from contrastive.experiment import load
from contrastive.runs.recorded import DataCounts
from reports.bilingual import FILES
from reports.build import build, write_report
from reports.claims import Numbers, check_texts
from tasks import sync, tracking
from tests.reports.made import made, put


def counts(rows: int, **dropped: int) -> dict[str, int]:
    none = {"repeated": 0, "contradicting": 0, "held_out": 0, "partner_held_out": 0}
    return {"rows": rows} | none | dropped


def report(folder: Path, **data: Any) -> dict[str, str]:
    _, results = made({"ce": {"test.accuracy": [0.7, 0.71]}, "rdrop": {"test.accuracy": [0.72, 0.7]}})
    put(results.grid, data=[DataCounts(**{"name": "", "transfer": False, "wordless": {}, "merged": {}} | data)])
    folder.mkdir(exist_ok=True)
    write_report(results, folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix in (".md", ".html")}


def test_kept_and_dropped_stand_beside_the_classes(tmp_path: Path):
    said = report(tmp_path, sifted={"source": counts(180, repeated=60, contradicting=60)})
    assert "| source | 60 | 60 | 0 | 0 | 60 | 180 |" in said["README.md"].split("## ")[1]
    assert "| source | 60 | 60 | 0 | 0 | 60 | 180 |" in said["README.zh.md"].split("## ")[1]
    assert "Of 180 rows (source), 120 were dropped: 60 repeated, 60 with contradicting labels." in said["index.html"]
    assert "source的 180 行中有 120 行被删除：重复 60、标签矛盾 60。" in said["index.html"]


def test_more_than_five_per_cent_texts_without_a_token_and_labels_of_one_class_are_said_on_top(tmp_path: Path):
    said = report(tmp_path / "few", sifted={"source": counts(100, repeated=5)})
    assert "**Note**" not in said["README.md"] and "**注意**" not in said["README.zh.md"]
    more = {"wordless": {"train": 3, "test": 0}, "merged": {"1": ["1", "1.0"], "true": ["True", "true"]}}
    said = report(tmp_path / "more", sifted={"source": counts(100, repeated=6)}, **more)
    assert "> **Note** Of 100 rows (source)" in said["README.md"]
    assert "> **注意** source的 100 行中" in said["README.zh.md"]
    assert "> **Note** The tokenizer leaves nothing of some texts: train 3." in said["README.md"]
    assert "> **Note** Labels that were taken for one class: 1 and 1.0; True and true." in said["README.md"]
    assert "> **注意** 以下标签写法不同，视为同一类别：1、1.0；True、true。" in said["README.zh.md"]


def test_a_count_that_does_not_add_up_is_found(tmp_path: Path):
    said = report(tmp_path, name="a|b", transfer=True, sifted={"source": counts(180, repeated=60)})
    for language, name in FILES.items():
        assert check_texts({language: said[name]}, Numbers.read(tmp_path)) == []
        text = said[name].replace("| source | 60 |", "| source | 6 |")
        assert check_texts({language: text}, Numbers.read(tmp_path))


def test_counts_come_from_the_tokens_to_the_report(home: Path):
    """Also those of transfer data, which has a name of its own."""
    rows = {"text": [f"text number {i % 60}" for i in range(90)], "label": ["good", "bad"] * 45}
    pd.DataFrame(rows).to_csv(home / "texts.csv", index=False)
    settings = {
        "name": "small",
        "data": {"source": f"file:{home}/texts.csv", "test": 20, "max_length": 16},
        "encoder": {"model": "scratch:bert"},
        "seeds": [0],
        "sections": [{"title": "Lengths", "axes": {"max_length": [8, 16]}}],
        "evaluation": {"transfer": [{"name": "others", "source": f"file:{home}/texts.csv", "train": 20, "test": 20}]},
    }
    (home / "small.yaml").write_text(yaml.safe_dump(settings))
    plan = plans.make_plan(load.load_experiment(home / "small.yaml"))
    assert plans.document(plan, [])["data"] == []  # nothing was prepared yet
    for cell in plan.statuses:
        prepared = tokens.prepare_tokens(cell.data, cell.encoder, home)
        transfer_data.prepare_transfer(plan.experiment.evaluation.transfer[0], prepared, home)
    sync.sync(plan, plans.document(plan, []))
    text = build("small", tracking.tracking_uri(home), home / "out").read_text()
    assert re.findall(r"\| source \|.*", text) == ["| source | 30 | 0 | 0 | 0 | 60 | 90 |"] * 2
    assert "| Rows of transfer others | repeated |" in text and "| Rows | repeated |" in text
    assert text.count("> **Note** Of 90 rows (source") == 2
