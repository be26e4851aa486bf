"""The servers of `ablate up`, and the Prefect server that a single command starts for itself."""
