"""What a load proposes for fields of degrees: a geo point."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from coordinator.cli.escaped_output import echo
from coordinator.cli.keystroke_questions import can_ask, is_accepted
from coordinator.cli.sources import geo_points
from coordinator.cli.sources.source import Source


def offer_geo_point(
    source: Source, proposing: str, *, read_key: Callable[[], str] | None = None
) -> Source:
    """Propose a geo point for fields of degrees that are called like coordinates.

    Args:
        source: of items that were not sent yet.
        proposing: "ask" (on a terminal, one keystroke), "auto" or "none" (name the option).
        read_key: waits for a keystroke.

    Returns:
        The source, with points if that is accepted.
    """
    found = geo_points.coordinate_fields(source)
    if found is None:
        return source
    is_offered = proposing == "auto" or (proposing == "ask" and can_ask(read_key))
    if not is_offered or not geo_points.hold_degrees(source, found):
        what = "fields" if source.sample else "columns"
        echo(
            f"facetd: --geo {shlex.quote(','.join(found))} combines these {what} into a geo point",
            err=True,
        )
        return source
    question = f"Combine {' and '.join(found)} into a geo point ({geo_points.FIELD})?"
    if proposing == "ask" and not is_accepted(question, read_key):
        return source
    return (geo_points.with_seen_points if source.sample else geo_points.with_points)(source, found)
