"""MLflow's server app, which on loopback answers its own pages and its own user alone.

`mlflow server --app-name own-user` finds it by its name in pyproject.toml. MLflow itself takes `Host: 10.evil.com` for
an address of a private network, and answers every user of the machine.
"""

import os

from starlette.types import ASGIApp

from flows.serve.server_access import OwnPagesAndUser, own_users


def app() -> ASGIApp:
    from mlflow.server.fastapi_app import app as mlflow  # seconds, which `mlflow server` itself need not spend, too

    origins = os.environ.get("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", "").split(",")
    return OwnPagesAndUser(mlflow, origins, own_users())
