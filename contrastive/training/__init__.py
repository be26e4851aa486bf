"""Train one cell: training loop, processes and sharding, checkpoints, gradient checks."""
