"""Checks the items of a source as the service will, without one: for a dry run."""

from __future__ import annotations

from collections.abc import Iterator

from common.json.item_scanner import ItemScanner, ScannedItems
from coordinator.cli.sources.source import Source


def check_items(source: Source) -> None:
    """Count the items of a source, and note those that the service would refuse.

    Uses up its pieces. Limits are the defaults: those of a service may be others.

    Raises:
        SourceError: a piece cannot be made.
    """
    source.num_items = 0
    for found in _scanned(source):
        source.num_items += found.num_items
        for error in found.errors:
            place, _, message = error.message.partition(": ")
            source.note_bad(source.place_of(error.position) if source.columns else place, message)


def _scanned(source: Source) -> Iterator[ScannedItems]:
    scanner = ItemScanner()
    for piece in source.pieces():
        yield scanner.feed(piece)
    yield scanner.finish()
