"""The command that loads items."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from coordinator.cli.indexes import read_object
from coordinator.cli.options import ServiceOptions, with_service
from coordinator.clients.http_client import Client, ClientError, index_path

READ_BYTES = 256 * 1024


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--index", required=True, help="Load into this index; it is made if it is new.")
@click.option(
    "--config",
    "configuration",
    type=click.File("rb"),
    help="Configure the index by this JSON file first.",
)
@click.option("--skip-bad", is_flag=True, help="Store the good items although there are bad ones.")
@with_service
def load(
    service: ServiceOptions,
    file: BinaryIO,
    index: str,
    configuration: BinaryIO | None,
    skip_bad: bool,
) -> None:
    """Load FILE (JSON array or one item a line; also .gz and .br; - for stdin)."""
    client = service.client()
    if configuration is not None:
        client.configure(index, read_object(configuration))
    else:
        _make_if_new(client, index)
    num_bytes, encoding = _size_and_encoding(file)
    with _Progress(num_bytes) as progress:
        result = client.load(
            index,
            progress.follow(file),
            skips_bad=skip_bad,
            num_bytes=num_bytes,
            encoding=encoding,
        )
        progress.finish(result)
    click.echo(json.dumps(result, ensure_ascii=False))


def _make_if_new(client: Client, index: str) -> None:
    """Create an index that does not exist."""
    try:
        client.request("GET", f"{index_path(index)}/configuration")
    except ClientError:
        client.configure(index, {})


def _size_and_encoding(file: BinaryIO) -> tuple[int | None, str | None]:
    """Return the size of a file, if it is one, and how it is compressed (by its name)."""
    name = str(getattr(file, "name", ""))
    encoding = "gzip" if name.endswith(".gz") else "br" if name.endswith(".br") else None
    try:
        size = os.fstat(file.fileno()).st_size if file.seekable() else None
    except (OSError, ValueError):
        size = None
    return size, encoding


class _Progress:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, num_bytes: int | None) -> None:
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                SpinnerColumn,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("sending", total=num_bytes)

    def __enter__(self) -> _Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def follow(self, file: BinaryIO) -> Iterator[bytes]:
        """Read a file in pieces, and show how far it is."""
        while piece := file.read(READ_BYTES):
            yield piece
            if self._bar is not None:
                self._bar.advance(self._task, len(piece))
        if self._bar is not None:
            self._bar.update(self._task, description="writing")

    def finish(self, result: dict[str, Any]) -> None:
        """Show the rate and what was rejected."""
        if self._bar is None:
            return
        self._bar.update(self._task, description="done")
        seconds = self._bar.tasks[0].elapsed or 1e-9
        num_items = result.get("created", 0) + result.get("updated", 0)
        self._bar.console.print(
            f"{num_items:,} items in {seconds:.1f} s ({num_items / seconds:,.0f}/s), "
            f"{result.get('rejected', 0):,} rejected"
        )
