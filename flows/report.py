"""The flow `report`: an experiment's report again, from what MLflow holds."""

from pathlib import Path
from typing import cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from prefect.states import Completed

from contrastive.experiment import load
from flows.terminal import tell
from tasks.render import Rendered, render


def experiment_of_run() -> str:
    """The name of a flow run: that of its experiment file."""
    return Path(flow_run.parameters["experiment_file"]).stem


def told(experiment: str, report: Rendered) -> None:
    """Say what was found, and show the report on Prefect's page."""
    tell(report.finding)
    create_markdown_artifact(key=f"report-{experiment}", markdown=report.markdown())


def ending(report: Rendered) -> str:
    """What a flow ends with: the path of the report, and as its state what was found."""
    return cast(str, Completed(message=report.finding, data=str(report.path)))


@flow(name="report", flow_run_name=experiment_of_run, persist_result=False)
def report(experiment_file: str) -> str:
    """Write the report of an experiment again.

    Args:
        experiment_file: path of the experiment file, for example configs/quickstart.yaml
    """
    name = load.load_experiment(Path(experiment_file)).experiment.name
    rendered = render(name)
    told(name, rendered)
    return ending(rendered)
