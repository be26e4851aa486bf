"""Time and cost by hand, of a report and of one of its tables; what was dropped of the rows of data."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from contrastive.config.experiment import Experiment
from contrastive.data import tokens, transfer_data
from contrastive.grid import load
from contrastive.grid import plan as plans
from contrastive.runs.recorded import DataCounts, Hardware, Provenance, RecordedGrid
from reports.build import build, write_report
from reports.load import load as load_results
from reports.provenance import footer
from reports.study import Results, study_of
from tasks import sync, tracking
from tests.recorded import SETTINGS
from tests.reports.made import cell_run, made, put, row, section

HARDWARE = Hardware("cpu", "a CPU", 2, 4)


def noted(**changed: Any) -> Provenance:
    known = {"commit": "abc", "packages": {"torch": "2"}, "hardware": HARDWARE, "wall_seconds": 3600.0}
    return Provenance(**known | {"gpu_seconds": 0.0, "peak_memory_mib": 100} | changed)


def results(*known: Provenance | None, **report: Any) -> Results:
    cells = {f"c{i}": cell_run(f"c{i}", {}, one) for i, one in enumerate(known)}
    rows = [row("one", ["c0"]), row("two", ["c1", "c9"])]
    experiment = Experiment(
        name="small", sections=[{"title": "A section", "rows": {"ce": {"loss": "ce"}}}], report=report, **SETTINGS
    )
    grid = RecordedGrid(experiment, [section(shown, ("test.accuracy",)) for shown in (rows[:1], rows)], [])
    return Results(study_of(grid), cells, pd.DataFrame(), pd.DataFrame(), {}, {})


def said(*known: Provenance | None, **report: Any) -> str:
    return "\n".join(map(str, footer(results(*known, **report))))


def test_hours_of_a_machine_cost_where_there_is_no_gpu_and_of_all_gpus_where_there_are():
    found = said(noted(), noted(gpu_seconds=1800.0, processes=2), price_per_hour=2.5, currency="EUR")
    assert "2 cells; 2.0 h of computing; 60 min of it on a GPU; about 5.00 EUR at 2.5 EUR per hour" in found


def test_without_a_price_there_is_no_cost():
    assert "about" not in said(noted(), noted())
    assert said(None, None).startswith(
        "2 cells; 0 s of computing; peak memory"
    )  # of nothing known there is a footer too


def counts(rows: int, **dropped: int) -> dict[str, int]:
    none = {"repeated": 0, "contradicting": 0, "held_out": 0, "partner_held_out": 0}
    return {"rows": rows} | none | dropped


def report(folder: Path, **data: Any) -> dict[str, str]:
    _, results = made({"ce": {"test.accuracy": [0.7, 0.71]}, "rdrop": {"test.accuracy": [0.72, 0.7]}})
    put(results.study, data=[DataCounts(**{"name": "", "transfer": False, "wordless": {}, "merged": {}} | data)])
    folder.mkdir(exist_ok=True)
    write_report(results, folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix in (".md", ".html")}


def test_kept_and_dropped_rows_stand_beside_the_classes_and_on_top_where_they_are_many(tmp_path: Path):
    said = report(tmp_path / "all", sifted={"source": counts(180, repeated=60, contradicting=60)})
    assert "| source | 60 | 60 | 0 | 0 | 60 | 180 |" in said["README.md"].split("## Data")[1]
    assert (
        "Of 180 data rows (source), 120 were dropped: 60 repeated, 60 with contradicting labels." in said["index.html"]
    )

    # what is more than five per cent, texts without a token and labels of one class are said on top
    said = report(tmp_path / "few", sifted={"source": counts(100, repeated=5)})
    assert "**Note**" not in said["README.md"]
    more = {"wordless": {"train": 3, "test": 0}, "merged": {"1": ["1", "1.0"], "true": ["True", "true"]}}
    said = report(tmp_path / "more", sifted={"source": counts(100, repeated=6)}, **more)
    assert "> **Note** Of 100 data rows (source)" in said["README.md"]
    assert "> **Note** Texts without any token that the tokenizer knows: train 3." in said["README.md"]
    assert "> **Note** Labels that were merged into one class: 1 and 1.0; True and true." in said["README.md"]


def test_counts_come_from_the_tokens_to_the_report(home: Path):
    """Also those of transfer data, which has a name of its own."""
    rows = {"text": [f"text number {i % 60}" for i in range(90)], "label": ["good", "bad"] * 45}
    pd.DataFrame(rows).to_csv(home / "texts.csv", index=False)
    settings = {
        "name": "small",
        "data": {"source": f"file:{home}/texts.csv", "test": 20, "max_length": 16},
        "encoder": {"model": "scratch:bert"},
        "seeds": [0],
        "sections": [{"title": "Lengths", "rows": {str(n): {"max_length": n} for n in (8, 16)}}],
        "evaluation": {"transfer": [{"name": "others", "source": f"file:{home}/texts.csv", "train": 20, "test": 20}]},
    }
    (home / "small.yaml").write_text(yaml.safe_dump(settings))
    plan = plans.make_plan(load.load_experiment(home / "small.yaml"))
    assert plans.recorded_grid(plan, []).data == []  # nothing was prepared yet
    for cell in plan.statuses:
        prepared = tokens.prepare_tokens(cell.data, cell.encoder, home)
        transfer_data.prepare_transfer(plan.experiment.evaluation.transfer[0], prepared, home)
    sync.sync(plan)
    build(load_results("small", tracking.tracking_uri(home)), home / "out")
    text = (home / "out" / "README.md").read_text()
    assert re.findall(r"\| source \|.*", text) == ["| source | 30 | 0 | 0 | 0 | 60 | 90 |"] * 2
    assert "| Data rows of transfer others | repeated |" in text and "| Data rows | repeated |" in text
    assert text.count("> **Note** Of 90 data rows (source") == 2
