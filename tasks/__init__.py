"""Thin Prefect tasks, and the plain functions that they call.

Importing this package turns off the telemetry of Prefect, MLflow, Hugging Face and Ray.
"""

import os

QUIET = {
    "DO_NOT_TRACK": "1",  # Prefect's client and command line
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
