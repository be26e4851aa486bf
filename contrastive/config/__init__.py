"""Schema of experiment files (pydantic models), and the registries of losses, views and metrics read from source."""
