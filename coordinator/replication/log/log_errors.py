"""Errors of the log."""

from __future__ import annotations

from typing import Any


class LogAway(Exception):
    """The log cannot be reached, or has no majority; it may be back later."""


class NotConnected(LogAway):
    """No server of the log is connected: it was sent nothing."""


class NotPublished(LogAway):
    """An entry was given up, and nothing of it that the log may have has an effect."""


class LogBroken(Exception):
    """The log has lost or replaced entries; a host that follows it would differ from the others."""


class JetStreamError(LogAway):
    """JetStream refuses a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"the log refuses: {error.get('description', error)}")
        self.code = error.get("err_code", 0)
