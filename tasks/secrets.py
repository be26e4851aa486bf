"""What may be shown of a text that might quote a password: an address with its credentials, or a variable's value."""

import os
import re

NAMES = re.compile(
    r"(TOKEN|WEBHOOK|PASS|PASSWORD|PASSWD|PASSPHRASE|SECRET|AUTH_STRING|API_KEY|SECRET_KEY|ACCESS_KEY|PAT|CONNECTION_STRING)$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"(\w://[^\s:/@]*):\S*@")
ALONE = re.compile(r"(\w://)[^\s:/@]{20,}@")  # a token in the place of the user
IN_QUERY = re.compile(r"((?:[?&]|\b)(?:\w*password|\w*token|\w*secret|api_?key)=)[^&\s'\"]+", re.IGNORECASE)
SHORTEST = 6  # shorter values stand in texts by chance


def masked(text: str) -> str:
    """The text without any credential that an address or the environment of this process holds."""
    for secret in sorted(_secret_values(), key=len, reverse=True):
        text = text.replace(secret, "***")
    return IN_QUERY.sub(r"\1***", ALONE.sub(r"\1***@", IN_ADDRESS.sub(r"\1:***@", text)))


def _secret_values() -> set[str]:
    given = {value for name, value in os.environ.items() if NAMES.search(name)}
    parts = given | {value.partition(":")[2] for value in given}  # user:password
    return {part for part in parts if len(part) >= SHORTEST}
