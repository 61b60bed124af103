"""The progress bar of a load."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.console_tables import bytes_text, console
from coordinator.command_line_client import Client, ClientError

POLL_SECONDS: Final = 0.2
"""Between two progress requests to the service."""


class LoadProgressBar:
    """A progress bar of stored items on stderr, if that is a terminal.

    Sending is quick, and nothing is stored until everything has been sent and validated. So the bar
    follows the service's own count; the bytes sent are shown as a figure next to it.

    Args:
        client: of the service.
        request_id: of the load.
        num_items: if known; otherwise the service reports it once it has read them.
    """

    def __init__(self, client: Client, request_id: str, num_items: int | None) -> None:
        self._client = client
        self._request_id = request_id
        self._num_items = num_items
        self._num_sent = 0
        self._is_done = threading.Event()
        self._bar: Any = None
        self._task: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LoadProgressBar:
        if sys.stderr.isatty():
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("stored"),
                TimeRemainingColumn(),
                console=console(is_error=True),
            )
            self._task = self._bar.add_task("sending", total=self._num_items)
            self._bar.start()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        if self._thread is not None:
            self._thread.join(2 * POLL_SECONDS)
        if self._bar is not None:
            self._bar.stop()

    def follow(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pass pieces on and count their bytes."""
        for piece in pieces:
            yield piece
            self._num_sent += len(piece)

    def finish(self, result: dict[str, Any]) -> None:
        """Show that everything is stored."""
        self._is_done.set()
        if self._bar is not None:
            stored = result["created"] + result["updated"]
            self._bar.update(self._task, completed=stored, total=stored, description="done")

    def _watch(self) -> None:
        """Poll the service for progress, until the load is over."""
        while not self._is_done.wait(POLL_SECONDS):
            try:
                loads = self._client.request("GET", "/_loads")["loads"]
            except ClientError:
                continue
            for one in loads:
                if one["id"] == self._request_id and not self._is_done.is_set():
                    self._show(one)

    def _show(self, load: dict[str, Any]) -> None:
        """Show the service's report."""
        if load["state"] == "storing":
            total = load["items_read"]
            description = "storing"
        else:
            total = self._num_items
            description = f"sent {bytes_text(self._num_sent)}, checked {load['items_read']:,}"
        self._bar.update(
            self._task, completed=load["items_stored"], total=total, description=description
        )
