"""What commands that fill an index propose: geo points, and a configuration of a new index."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from typing import Any

import click

from coordinator.cli.escaped_output import echo
from coordinator.cli.sources import format_detection, geo_points
from coordinator.cli.sources.source import Source, counted
from coordinator.clients.http_client import Client, index_path


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
    is_offered = proposing == "auto" or (proposing == "ask" and _can_ask(read_key))
    if not is_offered or not geo_points.hold_degrees(source, found):
        what = "fields" if source.sample else "columns"
        echo(
            f"facetd: --geo {shlex.quote(','.join(found))} combines these {what} into a geo point",
            err=True,
        )
        return source
    question = f"Combine {' and '.join(found)} into a geo point ({geo_points.FIELD})?"
    if proposing == "ask" and not _is_accepted(question, read_key):
        return source
    return (format_detection.with_seen_points if source.sample else format_detection.with_points)(
        source, found
    )


def offer_configuration(
    client: Client,
    index: str,
    proposing: str,
    *,
    read_key: Callable[[], str] | None = None,
) -> None:
    """Propose a configuration for a new index, and apply it if accepted.

    Args:
        client: of the service.
        index: the loaded index.
        proposing: "ask" (on a terminal, one keystroke), "auto" or "none".
        read_key: waits for a keystroke.
    """
    if proposing == "none":
        return
    found = client.request("GET", f"{index_path(index)}/proposal")
    document = found["configuration"]
    if not document:
        return
    by_name = {field["name"]: field for field in found["fields"]}
    facets = [by_name[name] for name in document.get("aggregations", {})]
    lines = [f"  facet   {_facet_line(field)}" for field in facets]
    if "geo_fields" in document:
        lines.append(f"  points  {', '.join(document['geo_fields'])}")
    if "display" in document:
        lines.append(f"  image   {document['display']['image']}")
    if "searchable_fields" in document:
        lines.append(f"  search  {', '.join(document['searchable_fields'])}")
    is_sample = found["sampled"] < found["items"]
    sample = f", from a sample of {found['sampled']:,} items" if is_sample else ""
    echo("\n".join([f"facetd: proposed for {index}{sample}:", *lines]), err=True)
    if proposing == "ask" and not _can_ask(read_key):
        echo(
            f"facetd: apply it with --configure auto, or set facets with facetd configure {index}",
            err=True,
        )
        return
    if proposing == "ask" and not _is_accepted("Apply it?", read_key):
        return
    body = json.dumps(document).encode()
    client.request("PATCH", f"{index_path(index)}/configuration", body)
    echo(f"facetd: configured; facetd open {index} shows it", err=True)


def _can_ask(read_key: Callable[[], str] | None) -> bool:
    return read_key is not None or (sys.stdin.isatty() and sys.stderr.isatty())


def _is_accepted(question: str, read_key: Callable[[], str] | None) -> bool:
    """Ask a question that one keystroke answers."""
    echo(f"{question} [Y/n] ", nl=False, err=True)
    key = (read_key or click.getchar)()
    echo(key if key.isprintable() else "", err=True)
    return key in ("y", "Y", "\r", "\n", " ")


def _facet_line(field: dict[str, Any]) -> str:
    """Describe a proposed facet in one line."""
    if field["role"] == "range":
        return f"{field['name']}  ({field['kind']}s from {field['min']} to {field['max']})"
    examples = ", ".join(str(value) for value in field["examples"])
    form = "a tree, " if field["role"] == "tree" else ""
    return f"{field['name']}  ({form}{counted(field['values'], 'value')}: {examples})"
