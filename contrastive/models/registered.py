"""Registry of the encoders of users' files: `model_type` of a config.json → class. Transformers has all others."""

from typing import Any

ENCODERS: dict[str, Any] = {}
