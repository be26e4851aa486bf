"""Ray Tune on this machine: a trial a cell, a core a trial, in actors that are used again.

python -m benchmarks.by_ray_tune EXPERIMENT CELLS CORES
"""

import os
import sys
from typing import Any

from contrastive.data.splits import SPLITS
from contrastive.grid import load as experiments


def main(file: str, cells: int, cores: int) -> None:
    reuse = experiments.load_experiment(file).experiment.speed.reuse != "none"
    import ray
    from ray import tune

    def trial(settings: dict[str, Any]) -> dict[str, float]:
        from benchmarks import one_cell

        return {"score": one_cell.run(file, settings["number"])}

    @ray.remote(num_cpus=1)
    def share(split: str) -> None:
        from benchmarks import one_cell

        one_cell.share(file, split)

    ray.init(address="local", num_cpus=cores, include_dashboard=False, logging_level="ERROR")
    if reuse:
        ray.get([share.remote(split) for split in SPLITS])
    results = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"number": tune.grid_search(list(range(cells)))},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(storage_path=os.environ["ABLATE_HOME"] + "/ray", verbose=0),
    ).fit()
    if results.errors:
        raise results.errors[0]


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
