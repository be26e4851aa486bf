"""The settings of a nightly verdict, read from their file."""

from pathlib import Path

import yaml
from pydantic import ValidationError

from contrastive.errors import UserError
from reports.nightly.settings import Nightly


def read_verdict_settings(path: Path) -> Nightly:
    try:
        return Nightly(**yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name the settings of the verdict") from None
    except ValidationError as error:
        mistakes = [f"{path}: {'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors()]
        raise UserError("\n".join(mistakes)) from None
    except (yaml.YAMLError, TypeError, UnicodeDecodeError):
        raise UserError(f"{path} is no map of settings in YAML; see configs/nightly/verdict.yaml") from None
