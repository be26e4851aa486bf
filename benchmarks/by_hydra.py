"""Hydra's multirun with the joblib launcher: a job a cell, in worker processes that joblib keeps.

python -m benchmarks.by_hydra --multirun hydra/launcher=joblib hydra.launcher.n_jobs=2 file=FILE 'number=range(24)'
"""

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

ConfigStore.instance().store(name="cell", node={"file": "", "number": 0})


@hydra.main(version_base="1.3", config_path=None, config_name="cell")
def main(settings: DictConfig) -> float:
    from benchmarks import one_cell

    return one_cell.run(settings.file, settings.number)


if __name__ == "__main__":
    main()
