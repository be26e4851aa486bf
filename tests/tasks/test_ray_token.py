"""A Ray cluster that asks for a token lets in the driver that knows it, and nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
if __name__ == "__main__":
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    print(found.address, flush=True)
    sys.stdin.read()
    found.shutdown()
"""
DRIVER = """
import os
from contrastive.config.experiment import Resources
from contrastive.errors import UserError
from tasks import engines
if __name__ == "__main__":
    try:
        with engines.start("ray", Resources(), 1) as engine:
            print("in", engine.run("evaluate", os.getpid) > 0)
    except UserError as error:
        print(error)
"""


def token(letter: str) -> dict[str, str]:
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": letter * 32}


@pytest.mark.full
def test_a_token_is_demanded(tmp_path: Path):
    known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    known["RAY_worker_niceness"] = "0"  # with Ray's 15 a worker imports for minutes beside two busy processes
    (tmp_path / "cluster.py").write_text(CLUSTER)
    (tmp_path / "driver.py").write_text(DRIVER)
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, str(tmp_path / "cluster.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=known | token("a"), **pipe) as cluster:
        address = cluster.stdout.readline().strip()
        known |= {"RAY_ADDRESS": address, "ABLATE_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
        known |= {"RAY_NUM_REDIS_GET_RETRIES": "2"}  # seconds to try in, of 20
        command = [sys.executable, str(tmp_path / "driver.py")]
        said = [
            subprocess.run(command, env=known | own, timeout=600, **pipe).stdout for own in ({}, token("b"), token("a"))
        ]
        cluster.stdin.close()
    assert [text.startswith(f"no Ray cluster could be used at RAY_ADDRESS={address}") for text in said] == [
        True,
        True,
        False,
    ]
    assert "RAY_AUTH_TOKEN" in said[0] and said[2] == "in True\n" and "b" * 32 not in said[1]
