"""Flows whose experiment file does not exist."""

from pathlib import Path

import pytest
from prefect import Flow
from prefect.states import State

from flows.ablation_grid import ablation_grid
from flows.rebuild import report


@pytest.mark.parametrize("flow", [ablation_grid, report])
def test_a_missing_file_fails_the_flow_with_the_folder_and_what_to_give(
    flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    state = flow.fn("mine.yaml")
    assert isinstance(state, State) and state.is_failed()
    advice = f"in {tmp_path}, the folder of the deployment: give an absolute path, or one relative to it"
    assert state.message == f"experiment_file: there is no file mine.yaml {advice}"
    assert flow.fn("/nowhere/mine.yaml").message == "experiment_file: there is no file /nowhere/mine.yaml"
