"""Prefect flows and the command line. Importing it only sees to it that nothing here phones home or chatters."""

import os

import tasks  # noqa: F401 (switches all telemetry off)

os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")  # 20 is too few on a busy machine
os.environ.setdefault("PREFECT_EVENTS_WORKER_MAX_QUEUE_SIZE", "20000")  # or a dead server would fill our memory
os.environ.setdefault(
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30"
)  # what configs/automations/zombie-flows.yaml reckons with
