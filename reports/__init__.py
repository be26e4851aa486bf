"""Reads MLflow, writes Markdown; knows nothing of training."""
