"""The nightly regression: what its nights say, from MLflow alone."""
