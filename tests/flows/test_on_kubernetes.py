"""The Job that `ablate worker --print k8s` prints, against the published schemas of Kubernetes; no cluster runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from flows import cli
from flows.worker import HandedBack
from tests.flows.conftest import ABLATE, CHECKOUT

SMOKE = CHECKOUT / "tests" / "e2e" / "smoke.yaml"
VERSIONS = ("1.31", kubernetes_validate.latest_version())  # the first one in which podFailurePolicy is stable


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def printed(file: Path) -> Any:
    done = CliRunner().invoke(cli.app, ["worker", str(file), "--print", "k8s"])
    assert done.exit_code == 0 and "never run on a cluster" in done.output.split("apiVersion")[0], done.output
    return yaml.safe_load(done.output)


def validate(document: Any) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)


def changed(tmp_path: Path, name: str, more: str = "") -> Path:
    file = tmp_path / "my grid.yaml"
    file.write_text(SMOKE.read_text(encoding="utf-8").replace("name: smoke", f"name: {name}") + more)
    return file


def test_the_job_is_a_work_queue_that_ends_when_no_cell_is_left(home: Path):
    document = printed(SMOKE)
    validate(document)
    spec = document["spec"]
    pod = spec["template"]["spec"]
    assert spec["parallelism"] == 8 and "completions" not in spec and pod["restartPolicy"] == "Never"
    disrupted, handed_back, failed = spec["podFailurePolicy"]["rules"]
    assert disrupted == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    codes = {"operator": "In", "values": [HandedBack.exit_code]}
    assert handed_back == {"action": "Ignore", "onExitCodes": codes}
    assert failed == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    (container,) = pod["containers"]
    assert container["command"] == ["ablate", "worker", "/ablate/smoke.yaml"]
    assert container["env"] == [{"name": "ABLATE_HOME", "value": "/ablate"}]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 1}
    assert not [*home.glob("runs/*")]


@pytest.mark.parametrize(
    ("name", "of_job"),
    [("a-", "ablate-a"), ("x" * 63, "ablate-" + "x" * 56), ("y" * 55 + "-z", "ablate-" + "y" * 55)],
)
def test_its_name_is_valid_and_without_gpus_it_asks_for_none(name: str, of_job: str, tmp_path: Path):
    document = printed(changed(tmp_path, name, "resources: {gpus_per_cell: 0, slurm: {workers: 3}}\n"))
    validate(document)
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert document["metadata"]["name"] == of_job and document["spec"]["parallelism"] == 3
    assert (
        "nvidia.com/gpu" not in container["resources"]["limits"] and container["command"][2] == "/ablate/my grid.yaml"
    )


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("spec", "parallelism"), "many"),
        (("spec", "podFailurePolicy", "rules", 0, "action"), None),
        (("spec", "template", "spec", "containers", 0, "volumeMounts"), [{"name": "home"}]),
        (("spec", "template", "spec", "terminationGracePeriod"), 120),
    ],
)
def test_the_schema_refuses_a_broken_job(at: tuple[Any, ...], value: Any):
    document = inner = printed(SMOKE)
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(document)


def test_what_it_cannot_print_is_refused_with_what_to_type():
    for words, said in ((("slurm",), "'slurm' is not one of 'k8s'"), (("k8s", "--until", "2h"), "takes no --until")):
        done = CliRunner().invoke(cli.app, ["worker", str(SMOKE), "--print", *words])
        assert done.exit_code and said in f"{done.output}{done.exception}"


def test_it_needs_nothing_that_trains():
    """As in an environment without the extra `train`: each of these is missing."""
    missing = ("torch", "transformers", "sklearn", "pyarrow", "prefect", "mlflow")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); from flows.cli import main; main()"
    command = [*ABLATE[:2], code, "worker", str(SMOKE), "--print", "k8s"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0 and "kind: Job" in done.stdout and command[0] == sys.executable, done.stderr
