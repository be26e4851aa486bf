"""The nightly report of nights made by hand, each with a document of its own."""

import json
import re
import shutil
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient

from reports.nightly.against import write_against
from reports.nightly.history import EXPERIMENT, NIGHT, night, read_history
from reports.nightly.measured import Night, rules_of
from reports.nightly.page import since_good, text, write_nightly
from reports.nightly.settings import TIMINGS
from reports.nightly.verdict import judge_by_documents

ROW = [0.70, 0.72, 0.69, 0.71]


def document(number: int, configurations: list[str], epoch: str = "one", **changed: Any) -> dict[str, Any]:
    names = ["test.accuracy", *(f"test.accuracy @ {part}" for part in configurations), *TIMINGS]
    scale = np.random.default_rng(number).uniform(0.99, 1.01, size=4)
    values = {name: list(ROW * scale) if name in TIMINGS else ROW for name in names}
    content = {
        "version": 2, "when": f"2026-01-{number:02}", "commit": f"c{number}", "commits": [[f"c{number}", "work"]],
        "environment": {"panel": epoch}, "epoch": epoch, "configurations": configurations,
        "directions": {"test.accuracy": True}, "values": values, "failed": [],
        "settings": {"window": 2, "quality": {"test.accuracy": 0.01}, "speed": 0.1},
    }  # fmt: skip
    return content | changed


def made(number: int, configurations: list[str], **changed: Any) -> Night:
    return night(document(number, configurations, **changed))


def test_a_configuration_that_is_added_does_not_change_what_was_said_of_earlier_nights():
    earlier = [made(number, ["ce", "rdrop"]) for number in (1, 2, 3)]
    nights = [*earlier, made(4, ["ce", "rdrop", "simcse"], epoch="two")]
    judged = judge_by_documents(nights)
    assert str(judged[:3]) == str(judge_by_documents(earlier))  # NaN is not equal to itself
    page = text(nights, judged, rules_of(nights[-1]), "en")
    assert "measured nothing" not in page
    for said in (page, text(nights, judged, rules_of(nights[-1]), "zh")):
        assert not re.search(r"[^|\s]  +[^|\s]", said)  # no sentence has two spaces
    assert since_good(nights, judged) == ["c4 work"]


def test_settings_that_change_do_not_change_what_was_said_of_earlier_nights():
    other = {"window": 5, "quality": {"test.macro_f1": 0.01}, "speed": 0.1}
    nights = [*(made(number, ["ce"]) for number in (1, 2, 3)), made(4, ["ce"], settings=other)]
    judged = judge_by_documents(nights)
    assert judged[2][0].metric.name == "test.accuracy" and judged[2][0].verdict == "unchanged"
    assert judged[3][0].metric.name == "test.macro_f1" and judged[3][0].verdict == "measured nothing"


@pytest.mark.slow
def test_nights_of_another_version_are_left_out_and_counted(tmp_path, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment(EXPERIMENT, f"{tmp_path}/artifacts")
    for content in ({"version": 1, "runs": []}, document(2, ["ce"])):
        run = client.create_run(experiment, tags={"ablate.kind": "night"}).info.run_id
        (tmp_path / NIGHT).write_text(json.dumps(content))
        client.log_artifact(run, str(tmp_path / NIGHT))
        client.set_terminated(run, "FINISHED")
    recorded = read_history(uri)
    assert [member.when for member in recorded.nights] == ["2026-01-02"] and recorded.older == 1
    page = write_nightly(uri, tmp_path / "pages").path.read_text()
    assert "Nights of an older version of ablate are left out: 1." in page


def test_a_page_against_a_commit_judges_scores_and_no_timing(tmp_path):
    then, now = document(1, ["ce"]), document(2, ["ce"], failed=["ce, seed number 5: failed"])
    now["values"] = {name: [0.5, 0.51, 0.48, 0.53] if name not in TIMINGS else [99.0] * 4 for name in now["values"]}
    said = write_against(night(then), night(now), tmp_path)
    assert said.headline == "1 regressed (test.accuracy)" and [one.metric.name for one in said.failing]
    page = said.path.read_text()
    assert page.startswith("# Against c1: 1 regressed") and "seconds" not in page.partition("Timings are not")[0]
    assert "- c2 work" in page and "## Cells without a result\n\n- ce, seed number 5: failed" in page
    assert "# 与 c1 比较：1 项退步" in (tmp_path / "against.zh.md").read_text()


def test_what_a_commit_did_not_measure_is_no_failure(tmp_path):
    then, now = document(1, ["ce"]), document(2, ["ce"])
    then["values"] = {}
    said = write_against(night(then), night(now), tmp_path)
    assert not said.failing and "the first measurement of it" in said.path.read_text()
    assert write_against(night(now), night(then), tmp_path).failing[0].verdict == "measured nothing"
