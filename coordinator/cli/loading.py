"""The command that loads items: read, show the columns, send, show progress, propose facets."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import click

from coordinator.cli.completing import complete_file, complete_index
from coordinator.cli.configuring import ConfiguringOptions, show_warnings, with_configuring
from coordinator.cli.indexes import exists
from coordinator.cli.options import with_options
from coordinator.cli.printing import echo
from coordinator.cli.service import ServiceOptions, with_service
from coordinator.cli.source_remarks import show_first, tell_about
from coordinator.cli.sources import databases, formats, places
from coordinator.cli.sources.cells import DECIMALS
from coordinator.cli.sources.fetching import is_url, split_url
from coordinator.cli.sources.source import ReadOptions, Source, SourceError, counted
from coordinator.cli.tables import bytes_text, console
from coordinator.clients.http_client import Client, ClientError, index_path

POLL_SECONDS: Final = 0.2
"""Between two progress requests to the service."""
_NOT_UTF8: Final = "text is not valid UTF-8"
"""How the service refuses it."""
_ENCODING_ADVICE: Final = "\n--encoding cp1252 (or another) reads text that is not UTF-8"


def _pairs(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Parse options of the form NAME=VALUE."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise click.BadParameter(f"{text!r} is not {parameter.metavar}")
        pairs[name] = value
    return pairs


def _field_pair(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, str] | None:
    """Parse an option of the form FIELD,FIELD."""
    if value is None:
        return None
    first, comma, second = value.partition(",")
    if not first or not comma or not second:
        raise click.BadParameter(f"{value!r} is not {parameter.metavar}: name two fields")
    return first, second


def _column_names(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    """Parse the option that names all columns."""
    if value is None:
        return ()
    names = tuple(name.strip() for name in value.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise click.BadParameter(
            f"{value!r} must name each column, once, for example id,title,year",
            param_hint="--columns",
        )
    return names


def _delimiter(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Parse the option that names a character."""
    if value is not None:
        value = {"\\t": "\t", "tab": "\t"}.get(value, value)
        if len(value) != 1:
            raise click.BadParameter("it must be one character, or tab", param_hint="--delimiter")
    return value


with_reading: Final = with_options(
    "reading",
    ReadOptions,
    click.option("--id-field", metavar="FIELD", help="Take the items' ids from this field."),
    click.option(
        "--format",
        "style",
        type=click.Choice(formats.FORMATS),
        help="Read FILE as this, whatever it is called.",
    ),
    click.option(
        "--type",
        "kinds",
        multiple=True,
        metavar="FIELD=KIND",
        callback=_pairs,
        help="Read a column of CSV or a database as text, integer, number, boolean, json, or dates "
        "with the day (dmy) or the month (mdy) first. Can be repeated.",
    ),
    click.option(
        "--split",
        "separators",
        multiple=True,
        metavar="FIELD=SEPARATOR",
        callback=_pairs,
        help="Read the texts of a column of CSV or a database as lists, for example tags=|. Can be "
        "repeated.",
    ),
    click.option(
        "--geo",
        "place_fields",
        metavar="LAT,LNG",
        callback=_field_pair,
        help="Combine the fields that hold latitude and longitude into a geo point (_geo).",
    ),
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        callback=_delimiter,
        help="Read cells divided by this character, or tab.",
    ),
    click.option(
        "--decimal",
        type=click.Choice(DECIMALS),
        default=".",
        show_default=True,
        help="Read numbers of CSV with this decimal separator: 12,5 or 1.299,00 with a comma.",
    ),
    click.option(
        "--header/--no-header",
        "has_header",
        default=True,
        help="Whether the first line of CSV names the columns. Without a header they are column1, "
        "column2 …  [default: header]",
    ),
    click.option(
        "--columns",
        "column_names",
        metavar="NAME,…",
        callback=_column_names,
        help="Name the columns of CSV that has no header.",
    ),
    click.option(
        "--quotes/--no-quotes",
        "has_quotes",
        default=True,
        help='Whether a quote (") at the start of a cell of CSV encloses it, or belongs to its '
        "text.  [default: quotes]",
    ),
    click.option(
        "--null",
        "null_texts",
        multiple=True,
        metavar="TEXT",
        help="Read cells of CSV with this text, for example NA, as empty. Can be repeated.",
    ),
    click.option("--encoding", help="Read text of this encoding, for example cp1252."),
    click.option(
        "--items",
        "items_path",
        metavar="FIELD",
        help="Load the objects in this array of a JSON file, for example data.items.",
    ),
    click.option("--query", metavar="SQL", help="Load the rows that a database gives for this."),
    click.option("--table", metavar="NAME", help="Load all rows of this table of a database."),
)
"""Options about reading a source, passed as the command's argument `reading`."""


class _Load(NamedTuple):
    """What one command does with each of its files."""

    client: Client
    reading: ReadOptions
    proposing: str
    skips_bad: bool
    is_dry: bool

    def run(self, file: str, name: str, document: dict[str, Any] | None) -> None:
        """Load a file.

        Args:
            file: as the user named it.
            name: of the index.
            document: configures the index first; None: the proposed configuration may.

        Raises:
            ClientError: nothing was stored.
        """
        try:
            source = formats.read(file, self.reading)
            tell_about(source, file, self.reading)
            if self.is_dry:
                from coordinator.cli.sources.checking import check_items

                check_items(source)
            _refuse_bad_rows(source, self.skips_bad)
            is_new = not self.is_dry and not exists(self.client, name)
            proposing = self.proposing if is_new and document is None else "none"
            if self.reading.place_fields is None:
                source = offer_places(source, proposing)
            if self.is_dry:
                show_first(source)
                _mention_inner_array(source, source.num_items, None)
                return
            result = _send(
                self.client, name, source, document, is_new=is_new, skips_bad=self.skips_bad
            )
        except SourceError as error:
            raise ClientError(str(error)) from error
        _show_result(name, source, result)
        num_items = result["created"] + result["updated"]
        _mention_inner_array(source, num_items, name if is_new else None)
        if document is not None:
            show_warnings(self.client, name)
        offer_configuration(self.client, name, proposing)


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
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and load nothing.")
@with_service
def load(
    service: ServiceOptions,
    files: tuple[str, ...],
    index: str | None,
    reading: ReadOptions,
    configuring: ConfiguringOptions,
    skip_bad: bool,
    dry_run: bool,
) -> None:
    """Load FILE into an index.

    FILE is CSV, TSV, JSON (an array, or one item a line), Parquet or SQLite, also compressed (.gz,
    .zst, .br); an address (https://…) of one; - for stdin; or a database: postgres://… or mysql://…
    with --query or --table.

    Nothing is stored unless all of it is good (or --skip-bad is given). Items whose id exists
    replace it. Several FILEs are loaded one after the other, into an index each or into --index.

    \b
    facetd load books.csv
    facetd load https://example.org/books.json.gz --index books --id-field isbn
    facetd load shop.db --query "SELECT * FROM product" --index products
    facetd load part-*.ndjson --index parts
    """  # noqa: D301 - \b keeps click from filling the lines
    has_query = reading.query is not None
    names = [index or index_name(file, reading.table, has_query=has_query) for file in files]
    document = configuring.document()
    one = _Load(service.client(), reading, configuring.proposing, skip_bad, dry_run)
    for number, (file, name) in enumerate(zip(files, names, strict=True)):
        try:
            one.run(file, name, None if name in names[:number] else document)
        except ClientError:
            if number and not dry_run:
                echo(f"facetd: loaded before this: {', '.join(files[:number])}", err=True)
            raise


def index_name(file: str, table: str | None, *, has_query: bool = False) -> str:
    """Derive an index name from what is loaded.

    Raises:
        UsageError: nothing to derive it from.
    """
    if table is not None:
        stem = table.rpartition(".")[2]
    elif databases.is_database(file) and not has_query:
        raise click.UsageError("say which rows to load: --table NAME, or --query SQL and --index")
    elif file == "-" or databases.is_database(file):
        raise click.UsageError("name the --index to load into")
    else:
        path = unquote(_path_of(file)) if is_url(file) else file
        stem = PurePosixPath(path).name.partition(".")[0]
    cleaned = re.sub(r"[^\w.-]+", "-", stem).strip("-._").lower()
    if not cleaned:
        raise click.UsageError(f"{file!r} gives no name of an index: name it with --index")
    return cleaned


def _path_of(url: str) -> str:
    try:
        return split_url(url).path
    except SourceError as error:
        raise click.UsageError(str(error)) from error


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


def remove_if_empty(client: Client, index: str) -> None:
    """Remove the index that was created for a load, unless some of the load was stored."""
    try:
        if client.request("GET", index_path(index))["items"] == 0:
            client.request("DELETE", index_path(index))
    except ClientError:
        pass  # the error that ended the load is the one to report


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


# --- the proposals


def offer_places(
    source: Source, proposing: str, *, read_key: Callable[[], str] | None = None
) -> Source:
    """Propose a geo point for fields of degrees that are called like coordinates.

    Args:
        source: of items that were not sent yet.
        proposing: "ask" (on a terminal, one keystroke), "auto" or "none" (name the option).
        read_key: waits for a keystroke.

    Returns:
        The source, with places if that is accepted.
    """
    found = places.named_like_places(source)
    if found is None:
        return source
    is_offered = proposing == "auto" or (proposing == "ask" and _can_ask(read_key))
    if not is_offered or not places.hold_degrees(source, found):
        what = "fields" if source.sample else "columns"
        echo(f"facetd: --geo {shlex.quote(','.join(found))} makes places of these {what}", err=True)
        return source
    question = f"Make places ({places.FIELD}) of {' and '.join(found)}?"
    if proposing == "ask" and not _is_accepted(question, read_key):
        return source
    return (formats.with_seen_places if source.sample else formats.with_places)(source, found)


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
        lines.append(f"  places  {', '.join(document['geo_fields'])}")
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
