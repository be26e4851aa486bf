"""`ablate worker --print k8s`: the Job of Kubernetes that runs workers, one in each pod."""

from pathlib import Path
from typing import Any

import yaml

from contrastive.grid.load import load_experiment
from flows.terminal import say

HOME = "/ablate"  # where pods see ABLATE_HOME
LONGEST_NAME = 63  # of what Kubernetes names
TO_EDIT = f"""# Edit IMAGE (this project with its environment), CLAIM (a ReadWriteMany volume with working locks,
# {HOME} in pods) and `limits`; `parallelism` is resources.slurm.workers of the file. Copy the experiment file, and the
# files that it names, to that volume, as `command` has it. Cells with training.processes need as many GPUs.
# It was checked against the published schema of Kubernetes, but never run on a cluster.
"""


def print_job(experiment: Path) -> None:
    """Print the Job of the workers of an experiment."""
    say(TO_EDIT + yaml.safe_dump(job(experiment), sort_keys=False, allow_unicode=True, width=120).rstrip())


def job(experiment: Path) -> dict[str, Any]:
    """Return a work queue: it starts no further pod once a worker has ended with 0, as no cell is left then."""
    settings = load_experiment(experiment).experiment
    gpus = {"nvidia.com/gpu": 1} if settings.resources.gpus_per_cell else {}
    container = {
        "name": "worker",
        "image": "IMAGE",
        "command": ["ablate", "worker", f"{HOME}/{experiment.name}"],
        "env": [{"name": "ABLATE_HOME", "value": HOME}],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"} | gpus},
        "volumeMounts": [{"name": "home", "mountPath": HOME}, {"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,  # after SIGTERM, for checkpoints
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": "home", "persistentVolumeClaim": {"claimName": "CLAIM"}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        ],
    }
    rules = [  # Kubernetes 1.31 has no default of `status`
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},  # handed back: another pod goes on
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}},  # cells failed, and none is left
    ]
    work = {"parallelism": settings.resources.slurm.workers, "backoffLimit": 6, "podFailurePolicy": {"rules": rules}}
    name = f"ablate-{settings.name}"[:LONGEST_NAME].rstrip("-")
    spec = work | {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
