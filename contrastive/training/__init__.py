"""Train one cell: training loop, processes and sharding, checkpoints, gradient checks."""

import os

# Before the first product on a GPU, which is not reproducible otherwise, and raises an error where it must be.
REPRODUCIBLE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault(*REPRODUCIBLE)
