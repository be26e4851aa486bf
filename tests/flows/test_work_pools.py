"""The job templates of the work pools, filled in by Prefect as its workers do it."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.workers.base import BaseJobConfiguration
from prefect.workers.process import ProcessJobConfiguration

import flows  # noqa: F401 (sets the frequency of heartbeats)
import tasks

CHECKOUT = Path(__file__).parents[2]
POOLS = {
    "process": CHECKOUT / "flows" / "serve" / "process.json",
    "kubernetes": CHECKOUT / "configs" / "work-pools" / "kubernetes.json",
}


class KubernetesJob(BaseJobConfiguration):
    """The fields that the package prefect-kubernetes adds."""

    namespace: str
    job_manifest: dict[str, Any]


async def filled(kind: type[BaseJobConfiguration], name: str, **values: Any) -> Any:
    template = json.loads(POOLS[name].read_text())
    return await kind.from_template_and_values(template, values, client=object())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("pool", ["process", "kubernetes"])
async def test_flows_of_a_pool_send_heartbeats_and_tell_nobody_else(pool: str):
    kind = KubernetesJob if pool == "kubernetes" else ProcessJobConfiguration
    job = await filled(kind, pool, image="ablate:1", env={"MINE": "1"})
    assert job.env.items() >= {**tasks.QUIET, "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30", "MINE": "1"}.items()


@pytest.mark.anyio
async def test_a_pod_has_the_image_the_home_the_gpus_and_its_secrets():
    job = await filled(KubernetesJob, "kubernetes", image="ablate:1", gpus=2, home_claim="ours", memory_limit="16Gi")
    spec = job.job_manifest["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert job.namespace == "default" and job.env["ABLATE_HOME"] == "/ablate"
    assert (container["image"], container["imagePullPolicy"]) == ("ablate:1", "IfNotPresent")
    assert container["resources"] == {
        "limits": {"memory": "16Gi", "nvidia.com/gpu": 2},
        "requests": {"cpu": "2", "memory": "8Gi"},
    }
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["home"]["persistentVolumeClaim"] == {"claimName": "ours"}
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]} == {
        "home": "/ablate",
        "shared-memory": "/dev/shm",
    }
    assert container["envFrom"] == [{"secretRef": {"name": "ablate", "optional": True}}]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"], pod["restartPolicy"]) == (1, 1, 0, "Never")
    assert "{{" not in json.dumps(job.job_manifest)
    none = await filled(KubernetesJob, "kubernetes", image="ablate:1", gpus=0)
    (container,) = none.job_manifest["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 0
