"""Prefect flows and the command line. Importing this package turns off telemetry and quiets the libraries."""

import os

import tasks  # noqa: F401 (switches all telemetry off)

os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")  # 20 is too few on a busy machine
os.environ.setdefault("PREFECT_EVENTS_WORKER_MAX_QUEUE_SIZE", "20000")  # else events for a dead server fill memory
os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")  # assumed by configs/automations/zombie-flows.yaml
