"""What commands that fill a new index propose: its configuration."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

from coordinator.cli.escaped_output import echo
from coordinator.cli.keystroke_questions import can_ask, is_accepted
from coordinator.cli.sources.source import counted
from coordinator.command_line_client import Client, index_path


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
    if proposing == "ask" and not can_ask(read_key):
        echo(
            "facetd: apply it with --configure auto, or set facets with "
            f"facetd configure {shlex.quote(index)}",
            err=True,
        )
        return
    if proposing == "ask" and not is_accepted("Apply it?", read_key):
        return
    body = json.dumps(document).encode()
    client.request("PATCH", f"{index_path(index)}/configuration", body)
    echo(f"facetd: configured; facetd open {shlex.quote(index)} shows it", err=True)


def _facet_line(field: dict[str, Any]) -> str:
    """Describe a proposed facet in one line."""
    if field["role"] == "range":
        return f"{field['name']}  ({field['kind']}s from {field['min']} to {field['max']})"
    examples = ", ".join(str(value) for value in field["examples"])
    form = "a tree, " if field["role"] == "tree" else ""
    return f"{field['name']}  ({form}{counted(field['values'], 'value')}: {examples})"
