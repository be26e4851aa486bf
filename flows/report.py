"""The flow `report`: an experiment's report again, from what MLflow holds."""

from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from contrastive.experiment import load
from tasks.render import render


@flow(name="report", flow_run_name="{experiment_file}", persist_result=False)
def report(experiment_file: str) -> str:
    """Write the report of an experiment again.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
    """
    name = load.load_experiment(Path(experiment_file)).experiment.name
    path = render(name)
    create_markdown_artifact(key=f"report-{name}", markdown=path.read_text(encoding="utf-8"))
    return str(path)
