"""The error whose message is written for the person at the terminal: what arrived, and what to do."""


class UserError(ValueError):
    """Something outside of this program is wrong; shown without a traceback."""
