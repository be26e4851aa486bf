"""New homes begin with copies of databases that were made once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks import empty_databases
from tasks.empty_databases import begin_with_copy, empty_database


@pytest.fixture
def made(tmp_path: Path, empty_store: Path, empty_prefect: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(empty_databases, "FOLDER", tmp_path / "made")
    (tmp_path / "made").mkdir()
    for library, database in (("mlflow", empty_store), ("prefect", empty_prefect)):
        empty_database(library).write_bytes(database.read_bytes())
    return tmp_path


def test_a_copy_is_a_store_of_its_home_and_replaces_none(made: Path):
    home = made / "home"
    home.mkdir()
    begin_with_copy("mlflow", home / "mlflow.db")
    client = MlflowClient(tracking_uri=f"sqlite:///{home / 'mlflow.db'}")
    (default,) = client.search_experiments()
    assert default.artifact_location == (home / "mlartifacts" / "0").as_uri()
    client.create_experiment("mine")
    begin_with_copy("mlflow", home / "mlflow.db")
    assert len(client.search_experiments()) == 2 and [path.name for path in home.iterdir()] == ["mlflow.db"]


def test_the_database_of_prefect_is_whole(made: Path):
    begin_with_copy("prefect", made / "prefect.db")
    with closing(sqlite3.connect(made / "prefect.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


def test_without_a_database_of_this_version_the_library_makes_its_own(made: Path):
    empty_database("mlflow").unlink()
    begin_with_copy("mlflow", made / "mlflow.db")
    assert not (made / "mlflow.db").exists()
