"""Log lines: one event a line, `key=value` pairs or JSON, safe against what users put into names.

    2026-01-31T12:00:00.123Z info supervisor "shard started" shard=0 pid=4711

A line that is written in the course of an HTTP request has its id as `request_id`; one of a group
of writes, which several requests share, has `request_ids` (`common.process.request_id_context`).

Every process writes to stderr; systemd, docker or a terminal collects it, and no process waits for
that (`common.process.log_writer`). A process that a fatal signal ends (SIGSEGV, SIGBUS, SIGABRT …)
first writes the Python frames of all its threads.
Values that hold anything but plain characters are written as JSON strings, so a line break in an
index name cannot forge a line, and no value controls the terminal.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import logging
import os
import re
import stat
import sys
import time
from typing import Any

from common.process.control_character_escaping import printable
from common.process.log_writer import LogWriter
from common.process.request_id_context import REQUEST_IDS

_PLAIN = re.compile(r"[A-Za-z0-9_.,:/@+\-]+\Z")
_LEVELS = ("debug", "info", "warning", "error")


class Log:
    """A named source of events.

    Args:
        name: the part of the process that logs, for example "supervisor".
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"facetd.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        """Log a detail for engineers of this project."""
        self._write(logging.DEBUG, event, fields, None)

    def info(self, event: str, **fields: Any) -> None:
        """Log a normal event."""
        self._write(logging.INFO, event, fields, None)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a fault that heals by itself, but should be rare."""
        self._write(logging.WARNING, event, fields, None)

    def error(self, event: str, *, cause: BaseException | None = None, **fields: Any) -> None:
        """Log something that a human should look at; `cause` adds its traceback."""
        self._write(logging.ERROR, event, fields, cause)

    def _write(
        self, level: int, event: str, fields: dict[str, Any], cause: BaseException | None
    ) -> None:
        if self._logger.isEnabledFor(level):
            ids = REQUEST_IDS.get()
            if len(ids) == 1:
                fields.setdefault("request_id", ids[0])
            elif ids:
                fields["request_ids"] = ids
            self._logger.log(level, event, exc_info=cause, extra={"fields": fields})


class _TextFormatter(logging.Formatter):
    """`time level process "event" key=value ...`."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        parts = [
            _timestamp(record),
            record.levelname.lower(),
            self._process,
            json.dumps(record.getMessage(), ensure_ascii=False),
        ]
        parts += [f"{key}={_text(value)}" for key, value in _fields(record).items()]
        if record.exc_info:
            parts.append(f"traceback={json.dumps(self.formatException(record.exc_info))}")
        return printable(" ".join(parts))


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return printable(json.dumps(line, ensure_ascii=False, default=str))


def configure(process: str, *, level: str = "info", style: str = "text") -> None:
    """Send the events of this process to stderr.

    Args:
        process: names the process in every line: "supervisor", "coordinator", "shard-0".
        level: least level that is written: debug, info, warning or error.
        style: "text" or "json".
    """
    if level not in _LEVELS:
        raise ValueError(f"log level must be one of {', '.join(_LEVELS)}, not {level!r}")
    handler = _handler()
    handler.setFormatter(_JsonFormatter(process) if style == "json" else _TextFormatter(process))
    if not faulthandler.is_enabled():
        with contextlib.suppress(io.UnsupportedOperation):  # a stderr that is not a file
            faulthandler.enable(sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries log only when something is wrong
    logging.getLogger("facetd").setLevel(level.upper())


def _handler() -> logging.Handler:
    """Return what writes to stderr; only a file never makes us wait."""
    try:
        descriptor = sys.stderr.fileno()
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (OSError, AttributeError):  # closed, not there, or not a file
        return logging.StreamHandler(sys.stderr)
    return logging.StreamHandler(sys.stderr) if is_file else LogWriter(descriptor)


def _timestamp(record: logging.LogRecord) -> str:
    """Return the moment of a record in UTC, to the millisecond."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields logged with an event (records of libraries have none)."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _text(value: Any) -> str:
    """Return a value as one word of a line."""
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=True)
    text = str(value)
    return text if _PLAIN.match(text) else json.dumps(text, ensure_ascii=True)
