"""The command that shows the settings: config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from coordinator import settings as settings_module
from coordinator.cli.escaped_output import echo
from coordinator.cli.settings_options import warn_of_unknown_variables, with_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_settings(*settings_module.names())
def config(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show every setting: its value, where it comes from, and what it is for."""
    _, origins = settings_module.load(flags, file=config_file)
    warn_of_unknown_variables()
    if as_json:
        rows = {
            origin.name: {
                "value": _plain(origin.value),
                "unit": origin.unit,
                "origin": origin.origin,
                "doc": origin.doc,
            }
            for origin in origins
        }
        echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(len(origin.name) for origin in origins)
    for origin in origins:
        echo(
            f"{origin.name:{width}}  {_plain(origin.value)!s:>14} {origin.unit:<12} "
            f"[{origin.origin}]  {origin.doc}"
        )


def _plain(value: Any) -> Any:
    """Return a setting's value in JSON types."""
    return str(value) if isinstance(value, Path) else value
