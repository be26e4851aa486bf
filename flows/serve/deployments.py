"""Deployments of `ablate up`: prefect.yaml in a checkout, otherwise each experiment file of the current folder."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from flows.serve.servers import CHECKOUT

POOL = "ablate"  # Prefect work pool of the deployments
SHIPPED = CHECKOUT / "prefect.yaml"


def experiment_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*.yaml")) if file.is_file() and has_sections(file)]


def has_sections(file: Path) -> bool:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(content, dict) and "sections" in content


def write_deployments(files: Sequence[Path], path: Path) -> None:
    """Write a file like prefect.yaml with a deployment of `ablation-grid` for each experiment file."""
    deployments = [
        {
            "name": file.stem,
            "entrypoint": "flows.ablation_grid.ablation_grid",
            "parameters": {"experiment_file": str(file)},
            "work_pool": {"name": POOL},
            "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        }
        for file in files
    ]
    # Prefect imports from the working directory first: packages of the user's folder would hide ours
    pull = {"prefect.deployments.steps.set_working_directory": {"directory": str(CHECKOUT)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"pull": [pull], "deployments": deployments}), encoding="utf-8")
