"""The science of the benchmark: configuration, grid, identity, data, encoders, views, losses, training, evaluation."""
