"""Tell the verdict of a night to an address, if one is configured. It may hold a secret, and is never shown."""

import json
import logging
import os
from typing import Any
from urllib.request import Request, urlopen

VARIABLE = "ABLATE_WEBHOOK"
PATIENCE = 10  # seconds

logger = logging.getLogger(__name__)


def post(content: dict[str, Any]) -> None:
    """A failure is a warning: it must never hide the verdict."""
    address = os.environ.get(VARIABLE)
    if not address:
        return
    try:
        if not address.startswith(("http://", "https://")):
            raise ValueError("it begins neither with http:// nor with https://")
        body = json.dumps(content, ensure_ascii=False).encode()
        with urlopen(Request(address, body, {"Content-Type": "application/json"}), timeout=PATIENCE):
            pass
    except Exception as error:  # whatever a server, a proxy or an address may raise; its text may quote the address
        said = getattr(error, "code", None) or type(getattr(error, "reason", error)).__name__
        logger.warning("the verdict could not be sent to %s (%s)", VARIABLE, said)
