"""The command that loads items: read, show the columns, send, show progress, propose facets."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import sys
from typing import Any, Final, NamedTuple

import click

from coordinator.cli.argument_completion import complete_file, complete_index
from coordinator.cli.commands.indexes import exists
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import echo
from coordinator.cli.loading.bulk_updates import update_items
from coordinator.cli.loading.configuration_options import (
    ConfiguringOptions,
    show_warnings,
    with_configuring,
)
from coordinator.cli.loading.index_name_and_removal import index_name, remove_if_empty
from coordinator.cli.loading.load_option_hints import mention_no_items, mention_options
from coordinator.cli.loading.load_progress import LoadProgressBar
from coordinator.cli.loading.proposed_configuration import offer_configuration
from coordinator.cli.loading.proposed_geo_point import offer_geo_point
from coordinator.cli.loading.source_options import with_reading
from coordinator.cli.loading.source_overview import show_columns, show_first
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions, Source, SourceError, counted
from coordinator.command_line_client import Client, ClientError

_NOT_UTF8: Final = "text is not valid UTF-8"
"""How the service refuses it."""
_ENCODING_ADVICE: Final = "\n--encoding cp1252 (or another) reads text that is not UTF-8"


class _Load(NamedTuple):
    """What one command does with each of its files."""

    client: Client
    reading: ReadOptions
    proposing: str
    skips_bad: bool
    is_dry: bool
    updates: bool

    def run(self, file: str, name: str, document: dict[str, Any] | None) -> None:
        """Load a file.

        Args:
            file: as the user named it.
            name: of the index.
            document: configures the index first; None: the proposed configuration may.

        Raises:
            ClientError: nothing was stored, or what it says.
        """
        try:
            source = format_dispatch.read(file, self.reading)
            show_columns(source)
            mention_options(source, file, self.reading)
            if self.is_dry:
                from coordinator.cli.sources.dry_run import check_items

                check_items(source)
            _refuse_bad_rows(source, self.skips_bad)
            is_new = not self.is_dry and not exists(self.client, name)
            if is_new and self.updates:
                raise SourceError(f"there is no index {name!r} whose items --update could change")
            proposing = self.proposing if is_new and document is None else "none"
            if self.reading.point_fields is None:
                source = offer_geo_point(source, proposing)
            if self.is_dry:
                show_first(source)
                mention_no_items(source, (source.num_items or 0) + source.num_bad)
                _mention_inner_array(source, source.num_items, None)
                return
            if self.updates:
                self._update(name, source)
                return
            result = _send(
                self.client, name, source, document, is_new=is_new, skips_bad=self.skips_bad
            )
        except SourceError as error:
            raise ClientError(str(error)) from error
        _show_result(name, source, result)
        num_items = result["created"] + result["updated"]
        mention_no_items(source, num_items + result["rejected"])
        _mention_inner_array(source, num_items, name if is_new else None)
        if document is not None:
            show_warnings(self.client, name)
        offer_configuration(self.client, name, proposing)

    def _update(self, name: str, source: Source) -> None:
        """Set fields of existing items; what is no item's id, or wrong, is an error, or skipped."""
        result = update_items(self.client, name, source, skips_bad=self.skips_bad)
        _show_result(name, source, result)
        mention_no_items(source, result["updated"] + result["rejected"])
        if result["rejected"] and not self.skips_bad:
            raise ClientError(
                f"{name} has no item for {counted(result['rejected'], 'id')} of {source.name}; "
                "the others were updated"
            )


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete_file)
@click.option(
    "--index",
    metavar="NAME",
    shell_complete=complete_index,
    help="Load into this index, which is created if it is new.  [default: the name of FILE]",
)
@with_reading
@with_configuring("Configure the index by this JSON file first.")
@click.option("--skip-bad", is_flag=True, help="Store the good items even if there are bad ones.")
@click.option(
    "--update",
    is_flag=True,
    help="Set the fields that FILE has in the items that exist, and keep their other fields.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and load nothing.")
@with_service
def load(
    service: ConnectionOptions,
    files: tuple[str, ...],
    index: str | None,
    reading: ReadOptions,
    configuring: ConfiguringOptions,
    skip_bad: bool,
    update: bool,
    dry_run: bool,
) -> None:
    """Load FILE into an index.

    FILE is CSV, TSV, JSON (an array, or one item a line), Parquet or SQLite, also compressed (.gz,
    .zst, .br); an address (https://…) of one; - for stdin; or a database: postgres://… or mysql://…
    with --query or --table.

    Nothing is stored unless all of it is good (or --skip-bad is given). Items whose id exists
    replace it, unless --update is given. Several FILEs are loaded one after the other, into an
    index each or into --index.

    \b
    facetd load books.csv
    facetd load https://example.org/books.json.gz --index books --id-field isbn
    facetd load shop.db --query "SELECT * FROM product" --index products
    facetd load part-*.ndjson --index parts
    """  # noqa: D301 - \b keeps click from filling the lines
    if files.count("-") > 1:
        raise click.UsageError("- is stdin, which can be read once")
    has_query = reading.query is not None
    names = [index or index_name(file, reading.table, has_query=has_query) for file in files]
    document = configuring.document()
    if update and document is not None:
        raise click.UsageError("--update changes items of an index that is configured already")
    one = _Load(service.client(), reading, configuring.proposing, skip_bad, dry_run, update)
    for number, (file, name) in enumerate(zip(files, names, strict=True)):
        try:
            one.run(file, name, None if name in names[:number] else document)
        except ClientError:
            if number and not dry_run:
                echo(f"facetd: loaded before this: {', '.join(files[:number])}", err=True)
            raise


# --- the source


def _refuse_bad_rows(source: Source, skips_bad: bool) -> None:
    """Raise if some rows cannot become items, unless these are to be skipped."""
    if not source.num_bad:
        return
    lines = [f"  {row.place}: {row.message}" for row in source.bad_rows]
    more = source.num_bad - len(lines)
    if more > 0:
        lines.append(f"  and {more:,} more")
    listed = "\n".join(lines)
    if not skips_bad:
        raise SourceError(
            f"{source.name} has {counted(source.num_bad, 'bad row')}; nothing was stored\n"
            f"{listed}\n--skip-bad leaves such rows out{_encoding_advice(listed)}"
        )
    echo(f"facetd: left out:\n{listed}", err=True)


def _encoding_advice(errors: str) -> str:
    """Return what helps if the service refuses text for its encoding, on a line of its own."""
    return _ENCODING_ADVICE if _NOT_UTF8 in errors else ""


def _mention_inner_array(source: Source, num_items: int | None, stored_in: str | None) -> None:
    """Say that the one item may be an object around the items.

    Args:
        source: as it was read.
        num_items: in it.
        stored_in: the index that was made for it; None: there is none.
    """
    if not source.inner_arrays or num_items != 1:
        return
    path = source.inner_arrays[0]
    undone = f" (after facetd delete {shlex.quote(stored_in)})" if stored_in else ""
    echo(
        f"facetd: the whole file is one item; --items {shlex.quote(path)} loads the objects in "
        f"its {path!r} instead{undone}",
        err=True,
    )


# --- sending


def _send(
    client: Client,
    index: str,
    source: Source,
    document: dict[str, Any] | None,
    *,
    is_new: bool,
    skips_bad: bool,
) -> dict[str, Any]:
    """Send everything; if it is rejected, remove an index that was created for it."""
    if document is not None or is_new:
        client.configure(index, document or {})
    request_id = f"load-{secrets.token_hex(8)}"
    try:
        with LoadProgressBar(client, request_id, source.num_items) as progress:
            result: dict[str, Any] = client.load(
                index, progress.follow(source.pieces()), skips_bad=skips_bad, request_id=request_id
            )
            progress.finish(result)
    except BaseException as error:
        if is_new:
            remove_if_empty(client, index)
        if isinstance(error, ClientError):
            raise _placed(error, source) from error
        raise
    return result


def _placed(error: ClientError, source: Source) -> ClientError:
    """Replace line numbers in an error by positions in the source, and say what may help."""
    errors = error.details.get("errors")
    if not source.columns or not errors:
        message = f"{error}{_encoding_advice(str(error))}"
        return ClientError(message, status=error.status, code=error.code, details=error.details)
    lines = [
        f"  {source.place_of(int(one['line']))}: {_without_place(str(one['message']))}"
        for one in errors
        if "line" in one
    ]
    num_bad = error.details.get("rejected", len(lines))
    more = [f"  and {num_bad - len(lines):,} more"] if num_bad > len(lines) else []
    message = "\n".join(
        [f"{source.name} has bad rows; nothing was stored ({error.code})", *lines, *more]
    )
    return ClientError(message, status=error.status, code=error.code, details=error.details)


def _without_place(message: str) -> str:
    """Strip the line and byte position from a message."""
    return re.sub(r"^(line|item) \d+, byte \d+: ", "", message)


def _show_result(index: str, source: Source, result: dict[str, Any]) -> None:
    """Print the outcome of the load: a sentence on a terminal, else JSON."""
    result["rejected"] += source.num_bad
    for one in result["errors"]:
        if "line" in one and source.columns:
            one["place"] = source.place_of(int(one["line"]))
    if not sys.stdout.isatty():
        echo(json.dumps(result, ensure_ascii=False))
        return
    parts = [
        f"{result[name]:,} {name}" for name in ("created", "updated", "rejected") if result[name]
    ]
    echo(f"{index}: {', '.join(parts) or 'no items'}")
    for one in result["errors"]:
        echo(f"  {one.get('place', '')} {one['message']}".rstrip())
