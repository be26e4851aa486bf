import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.errors import UserError
from contrastive.runs import store
from reports.build import build
from reports.load import load
from tasks import tracking
from tasks.record import record_cell, record_grid
from tests.recorded import cell_folder, failed_folder, grid
from tests.reports.made import content

SPLITS = ("train", "test")


def record(home: Path, document: dict, order: list[str]) -> str:
    """Records the cells of a grid in an order; returns where MLflow is."""
    client = tracking.open_tracker(home)
    for cell in order:
        record_cell(client, "small", home / "runs" / cell, [])
    record_grid(client, "small", document)
    return tracking.tracking_uri(home)


def built(uri: str, output: Path) -> Path:
    """The README.md of a report from what MLflow holds."""
    build(load("small", uri), output)
    return output / "README.md"


def cells() -> list[str]:
    for seed in (0, 1):
        cell_folder(f"c0s{seed}", "ce", seed, 0.7)
        cell_folder(f"c1s{seed}", "ce+supcon", seed, 0.8 + 0.1 * seed)
    return ["c0s0", "c0s1", "c1s0", "c1s1"]


def change(cell: str, file: str, **changed: Any) -> None:
    """Other entries in a file of a finished cell, or other arrays in its picture."""
    path = store.run_folder(cell) / file
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            known = dict(arrays)
        np.savez(path, **(known | changed))
    else:
        store.write_json(path, store.read_json(path) | changed)
    store.mark_finished(store.run_folder(cell), "DONE")


def rescore(cell: str, **changed: Any) -> None:
    """Change a cell's scores."""
    known = store.read_json(store.run_folder(cell) / "scores.json")["scores"]
    change(cell, "scores.json", scores=[one | changed for one in known])


def few_pictures(document: dict) -> dict:
    """The same grid with a forest alone, which is what most tests need."""
    for section in document["sections"]:
        section["show"] |= {"tsne": False, "curves": False}
    return document


def test_the_same_runs_give_the_same_bytes_in_any_order_and_from_a_store_made_again(home: Path, empty_store: Path):
    names = cells()
    uri = record(home, grid(), names)
    first = content(built(uri, home / "one").parent)
    assert content(built(uri, home / "one").parent) == first
    shutil.copy(empty_store, home / "mlflow.db")
    again = content(built(record(home, grid(), names[::-1]), home / "two").parent)
    page = first.pop("index.html")  # its links name the runs, which a store made again calls otherwise
    assert again.pop("index.html") != page and again == first
    text = first["README.md"].decode()
    assert str(home) not in text and all(len(held) < 300_000 for held in (page, *first.values()))
    for name in first:
        assert name == "README.md" or f"]({name})" in text, name
    # mean, standard deviation, best and reference
    assert "| ce (baseline) | 70.0 (0.0) |" in text
    assert "| ce+supcon | 85.0 (7.1) |" in text
    assert "| *TF-IDF + logistic regression* | 60.0 |" in text
    assert "Nothing is bold if no row was shown to be better" in text and "significant" not in text
    assert "abc123" in text and "a CPU, 2 cores" in text


def test_a_failed_and_a_missing_cell_are_said_with_their_reason_and_no_name_breaks_a_table(home: Path):
    names = cells()
    shutil.rmtree(home / "runs" / "c1s1")
    failed_folder("c0s1", "ce", 1, "bad | cell\n<script>x</script>")
    document = few_pictures(grid(labels=("a|b\nc", "<img src=x> $\\bad$")))
    text = built(record(home, document, names[:3]), home / "out").read_text()
    assert "> **Note** a\\|b c, seed 1: failed: bad \\| cell &lt;script&gt;x&lt;/script&gt;\n" in text
    assert "seed 1: not in MLflow\n" in text
    assert "| a\\|b c (baseline) | 70" in text and "<img" not in text


def test_titles_of_one_file_name_or_longer_than_one_keep_their_figures_in_a_home_whose_path_is_no_address(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "a home #1%20"
    home.mkdir()
    monkeypatch.setenv("ABLATE_HOME", str(home))
    shutil.copy(empty_store, home / "mlflow.db")
    document = few_pictures(grid(titles=("视角", "层", "K 4", "K", "k", "long " * 100)))
    for section in document["sections"]:
        section["show"]["curves"] = True
    report = built(record(home, document, cells()), home / "out")
    pictures = sorted(path.name for path in report.parent.glob("figures/*"))
    assert len([name for name in pictures if name.endswith("-curves.png")]) == 6
    assert all(f"](figures/{name})" in report.read_text() for name in pictures)
    assert "| ce (baseline) | 70.0 (0.0) |" in report.read_text()


def test_what_is_not_there_is_a_clear_error(home: Path):
    uri = tracking.tracking_uri(home)
    with pytest.raises(UserError, match="holds no experiment small"):
        built(uri, home / "out")
    client = tracking.open_tracker(home)
    experiment = tracking.experiment_id(client, "small")
    with pytest.raises(UserError, match="has no grid yet"):
        built(uri, home / "out")
    # a grid of which nothing was computed has a report that says so
    text = built(record(home, grid(), []), home / "computed").read_text()
    assert text.count("not in MLflow") == 2 and "0 cells" in text
    client.delete_experiment(experiment)
    with pytest.raises(UserError, match="small was deleted"):
        built(uri, home / "out")
    assert not (home / "out").exists()


def test_several_data_sets_keep_their_own_reference_and_counts(home: Path):
    names, document = cells(), few_pictures(grid())
    for row, data in zip(document["sections"][0]["rows"], ("tweets", "reviews"), strict=True):
        row["data"] = data
    document["references"] = [
        {"name": "TF-IDF", "data": data, "scores": {"test.accuracy": value}}
        for data, value in (("tweets", 0.6), ("reviews", 0.9), ("others", 0.1))
    ]
    for name in ("c1s0", "c1s1"):
        change(name, "provenance.json", class_counts={split: {"bad": 400, "good": 500} for split in SPLITS})
        rescore(name, count=900)
    text = built(record(home, document, names), home / "out").read_text()
    assert "| *TF-IDF, tweets* | 60.0 |  |  |\n| *TF-IDF, reviews* | 90.0 |  |  |" in text and "others" not in text
    assert "| Split of tweets | negative | positive | all |" in text
    assert "| Split of reviews | bad | good | all |" in text


def test_a_picture_without_points_and_one_that_is_damaged_are_said_to_be_none(home: Path):
    names = cells()
    change(
        "c0s0",
        "picture.npz",
        x=np.zeros((0, 2)),
        labels=np.zeros(0, int),
        ids=np.zeros(0, np.uint64),
        reason="they have collapsed",
    )
    (store.run_folder("c1s0") / "picture.npz").write_bytes(b"PK broken")
    store.mark_finished(store.run_folder("c1s0"), "DONE")
    output = built(record(home, grid(), names), home / "out").parent
    page = (output / "index.html").read_text()
    assert page.count("not drawn: ") == 2 and "they have collapsed" in page and "picture.npz cannot be read" in page
    assert (output / "figures" / "recipes-tsne.png").exists()
