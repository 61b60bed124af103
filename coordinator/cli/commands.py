"""The command line: parse flags, call, print. No logic of its own.

    facetd serve | coordinator | shard      run processes
    facetd demo | load | export | search | status    use a service (over HTTP)
    facetd backup                           of a running service, to a folder or stdout
    facetd check | rebuild | restore | reshard   work on data that no service uses
    facetd config | keys                    look at settings, make keys

Progress goes to stderr when that is a terminal, results go to stdout. Exit status: 0 done, 1
failed, 2 wrong use. What is large (numba, aiohttp) is imported by the commands that need it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from common.data_directory import DataDirectoryError
from common.process import logs
from common.settings import SettingError, environment_name
from coordinator import settings as settings_module
from coordinator.clients.http_client import Client, ClientError, default_key, find_url, index_path
from coordinator.cluster.snapshots import SnapshotError
from coordinator.settings import Settings

READ_BYTES = 256 * 1024

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(*names: str) -> Callable[[F], F]:
    """Give a command one option for each named setting, described by the table of settings."""

    def add(command: F) -> F:
        described = {
            name: (default, unit, doc) for name, default, unit, doc in settings_module.describe()
        }
        for name in reversed(names):
            default, unit, doc = described[name]
            flag = "--" + ("shard" if name == "shard_addresses" else name.replace("_", "-"))
            variable = environment_name(name)
            text = f"{doc[0].upper()}{doc[1:]}. [{variable}; default: {default or 'none'}]"
            if isinstance(default, bool):
                option = click.option(flag, name, is_flag=True, default=None, help=text)
            elif isinstance(default, tuple):
                option = click.option(flag, name, multiple=True, metavar=unit.upper(), help=text)
            else:
                option = click.option(flag, name, default=None, metavar=unit.upper(), help=text)
            command = option(command)
        command = click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any setting of the service, as facetd config calls it.",
        )(command)
        return click.option(
            "--config-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="TOML file with settings. [FACETD_CONFIG_FILE]",
        )(command)

    return add


def load_settings(config_file: Path | None, flags: dict[str, Any]) -> Settings:
    """Collect the settings, and put what came by flag or file where child processes find it."""
    settings, origins = settings_module.load(flags, file=config_file)
    for line in settings_module.unknown_variables(os.environ):
        click.echo(f"facetd: {line}", err=True)
    for origin in origins:
        if origin.origin != "default":
            value = origin.value
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            os.environ[environment_name(origin.name)] = text
    if config_file is not None:
        os.environ["FACETD_CONFIG_FILE"] = str(config_file.absolute())
    return settings


class _Group(click.Group):
    """Turns our errors into a line on stderr and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SettingError as error:
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(2)
        except (ClientError, DataDirectoryError, SnapshotError) as error:
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever reads our output has enough
                raise
            click.echo(f"facetd: {error}", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="facetd", prog_name="facetd")
def main() -> None:
    """Exact faceted full-text search for one host."""


# --- processes

SERVICE_SETTINGS = (
    "host",
    "port",
    "shards",
    "data_dir",
    "snapshot_dir",
    "insecure",
    "allowed_hosts",
    "allowed_origins",
    "log_level",
    "log_style",
    "result_cache_bytes",
    "slow_query_ms",
)


@main.command()
@with_settings(*SERVICE_SETTINGS)
@click.pass_context
def serve(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Run the whole service in the foreground: all shards and the coordinator."""
    from coordinator.process.supervisor import Supervisor

    settings = load_settings(config_file, flags)
    logs.configure("supervisor", level=settings.log_level, style=settings.log_style)
    ctx.exit(Supervisor(settings).run())


@main.command()
@with_settings(*SERVICE_SETTINGS, "shard_addresses")
@click.option("--parent-pipe", type=int, hidden=True)
@click.option("--lock", type=int, hidden=True)
@click.pass_context
def coordinator(
    ctx: click.Context,
    /,
    config_file: Path | None,
    parent_pipe: int | None,
    lock: int | None,
    **flags: Any,
) -> None:
    """Run the coordinator alone; the shards run elsewhere (--shard HOST:PORT for each)."""
    from coordinator.process.coordinator import run

    settings = load_settings(config_file, flags)
    ctx.exit(run(settings, lock=lock, parent_pipe=parent_pipe))


@main.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def shard(arguments: tuple[str, ...]) -> None:
    """Run one shard alone (see facetd shard --help)."""
    # Another program: the coordinator's code imports nothing of the shard's.
    os.execv(sys.executable, [sys.executable, "-m", "shard", *arguments])


@main.command()
@with_settings("host", "port", "shards", "data_dir", "log_level")
@click.pass_context
def demo(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Run the service with an index of films to play with."""
    from coordinator.demo import load_films
    from coordinator.process.supervisor import Supervisor

    if not _is_given(flags, "data_dir") and not os.environ.get("FACETD_DATA_DIR"):
        flags["data_dir"] = "facetd-demo-data"
    settings = load_settings(config_file, flags)
    logs.configure("supervisor", level=settings.log_level, style=settings.log_style)
    ctx.exit(Supervisor(settings, lambda: load_films(settings)).run())


# --- use of a running service


def with_service(command: F) -> F:
    """Give a command the options that say which service to use."""
    for option in (
        click.option("--key", default=None, help="API key. [FACETD_KEY]"),
        click.option("--url", default=None, help="Of the service, http://HOST:PORT. [FACETD_URL]"),
    ):
        command = option(command)
    return with_settings("data_dir", "host", "port")(command)


def make_client(
    url: str | None, key: str | None, config_file: Path | None, flags: dict[str, Any]
) -> Client:
    """Find the service."""
    settings, _ = settings_module.load(flags, file=config_file)
    url = url or os.environ.get("FACETD_URL")
    if not url and _is_given(flags, "port"):
        url = f"http://{settings.host}:{settings.port}"
    return Client(
        find_url(url, settings.data_dir, settings.host, settings.port), key or default_key()
    )


@main.command()
@click.argument("file", type=click.File("rb"))
@click.option("--index", required=True, help="Where to; made with an empty configuration if new.")
@click.option(
    "--config",
    "configuration",
    type=click.File("rb"),
    help="Configuration to give the index first.",
)
@click.option("--skip-bad", is_flag=True, help="Store the good items although there are bad ones.")
@with_service
def load(
    file: BinaryIO,
    index: str,
    configuration: BinaryIO | None,
    skip_bad: bool,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Load FILE (JSON array or one item a line; also .gz and .br; - for stdin)."""
    client = make_client(url, key, config_file, flags)
    if configuration is not None:
        client.configure(index, _read_json(configuration))
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


@main.command()
@click.argument("index")
@click.option("--output", type=click.File("wb"), default="-", help="File; stdout without it.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["ndjson", "opensearch", "opensearch-mapping"]),
    default="ndjson",
    show_default=True,
    help="opensearch: for POST /_bulk; opensearch-mapping: no items, for PUT of the index.",
)
@with_service
def export(
    index: str,
    output: BinaryIO,
    style: str,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Write all items of INDEX as they were stored, one a line, in their order (see load)."""
    from coordinator.cli import opensearch

    client = make_client(url, key, config_file, flags)
    if style == "opensearch-mapping":
        document = client.request("GET", f"{index_path(index)}/configuration")
        output.write(json.dumps(opensearch.mapping(document), ensure_ascii=False).encode() + b"\n")
        return
    pieces = client.stream(f"{index_path(index)}/items")
    for piece in opensearch.bulk(pieces) if style == "opensearch" else pieces:
        output.write(piece)


@main.command()
@click.argument("index")
@click.argument("query", default="")
@click.option("--filters", default=None, help='JSON object: {"tags": ["a"]}.')
@click.option("--filter", "expression", default=None, help="Expression: year >= 1990 AND tags = a.")
@click.option("--sort", default=None, help="Fields: year:desc,name.")
@click.option("--page", type=int, default=1, show_default=True)
@click.option("--per-page", type=int, default=10, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@with_service
def search(
    index: str,
    query: str,
    filters: str | None,
    expression: str | None,
    sort: str | None,
    page: int,
    per_page: int,
    as_json: bool,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Search INDEX for QUERY."""
    client = make_client(url, key, config_file, flags)
    optional = {"filters": filters, "filter": expression, "sort": sort}
    parameters: dict[str, Any] = {"query": query, "page": page, "per_page": per_page}
    parameters |= {name: value for name, value in optional.items() if value is not None}
    answer = client.search(index, parameters)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        _print_hits(answer)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@with_service
@click.pass_context
def status(
    ctx: click.Context,
    /,
    as_json: bool,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Show whether the service is complete, and its indexes; exit status 1 if it is not."""
    client = make_client(url, key, config_file, flags)
    client.request("GET", "/_health")
    is_ready = True
    try:
        client.request("GET", "/_ready")
    except ClientError:
        is_ready = False
    indexes = client.request("GET", "/_indexes")
    if as_json:
        click.echo(json.dumps({"url": client.url, "ready": is_ready, "indexes": indexes}))
    else:
        click.echo(f"{client.url} {'is ready' if is_ready else 'is not ready'}")
        click.echo(json.dumps(indexes, ensure_ascii=False, indent=2))
    ctx.exit(0 if is_ready else 1)


@main.command()
@click.argument("destination")
@with_service
def backup(
    destination: str, url: str | None, key: str | None, config_file: Path | None, **flags: Any
) -> None:
    """Copy all indexes of a running service, as of one moment, to the new folder DESTINATION.

    - writes a tar stream to stdout. Writes to the service go on meanwhile.
    """
    from coordinator.process import maintenance

    if destination != "-":
        maintenance.check_vacant(Path(destination))
    client = make_client(url, key, config_file, flags)
    name = f"backup-{secrets.token_hex(6)}"
    made = client.request("POST", "/_snapshots", json.dumps({"name": name}).encode())
    folder = Path(made["directory"])
    if not folder.is_dir():
        raise ClientError(
            f"the service is on another host, or another user's: it has made {folder} there"
        )
    if destination == "-":
        try:
            maintenance.write_archive(folder, sys.stdout.buffer)
        finally:
            shutil.rmtree(folder)
    else:
        maintenance.move_snapshot(folder, Path(destination))
        click.echo(json.dumps({**made, "directory": destination}, ensure_ascii=False))


# --- data that no service uses


@main.command()
@click.option(
    "--shards", type=click.IntRange(1, 64), required=True, help="How many there shall be."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for the new data; without it they take the place of the old.",
)
@with_settings("data_dir")
@click.pass_context
def reshard(
    ctx: click.Context,
    /,
    shards: int,
    output: Path | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Divide the data over another number of shards; every answer stays the same.

    Can be killed at any moment: the old data stay in force until the new ones are complete.
    """
    from coordinator.process import maintenance

    ctx.exit(maintenance.reshard(_data_dir(config_file, flags), shards, output))


@main.command()
@click.argument("source")
@with_settings("data_dir")
def restore(source: str, config_file: Path | None, **flags: Any) -> None:
    """Make a data directory of the backup SOURCE (a folder; - for a tar stream on stdin).

    Every byte is checked first; a directory that is not empty is refused.
    """
    from coordinator.process import maintenance

    data = _data_dir(config_file, flags)
    snapshot = maintenance.restore(sys.stdin.buffer if source == "-" else Path(source), data)
    click.echo(
        json.dumps(
            {
                "data_dir": str(data),
                "shards": snapshot.shards,
                "created_at": snapshot.created_at,
                "indexes": [{"name": one.name, "seq": one.seq} for one in snapshot.indexes],
            },
            ensure_ascii=False,
        )
    )


@main.command()
@with_settings("data_dir")
@click.pass_context
def check(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Compare every segment and counter with the stored items; exit status 1 if any differs."""
    from coordinator.process import maintenance

    ctx.exit(maintenance.check(_data_dir(config_file, flags)))


@main.command()
@with_settings("data_dir")
@click.pass_context
def rebuild(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Make everything that is derived from the stored items anew, then check it."""
    from coordinator.process import maintenance

    ctx.exit(maintenance.check(_data_dir(config_file, flags), rebuilds=True))


# --- settings and keys


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@with_settings(*settings_module.names())
def config(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show every setting: its value, where it comes from, and what it is for."""
    _, origins = settings_module.load(flags, file=config_file)
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
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(len(origin.name) for origin in origins)
    for origin in origins:
        click.echo(
            f"{origin.name:{width}}  {_plain(origin.value)!s:>14} {origin.unit:<12} "
            f"[{origin.origin}]  {origin.doc}"
        )


@main.group()
def keys() -> None:
    """Make, list and remove API keys."""


@keys.command("create")
@click.option(
    "--actions", default="search", show_default=True, help="search,write,configure,admin."
)
@click.option("--indexes", default="*", show_default=True, help="Patterns, comma separated.")
@click.option("--description", default="", help="For humans.")
@with_service
def create_key(
    actions: str,
    indexes: str,
    description: str,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Make a key and print it; it is shown this one time. Works without a running service."""
    document = {
        "actions": [action.strip() for action in actions.split(",")],
        "indexes": [pattern.strip() for pattern in indexes.split(",")],
        "description": description,
    }
    settings, _ = settings_module.load(flags, file=config_file)
    if url is None and not _is_running(settings):
        click.echo(json.dumps(_create_key_offline(settings, document)))
        return
    client = make_client(url, key, config_file, flags)
    click.echo(json.dumps(client.request("POST", "/_keys", json.dumps(document).encode())))


@keys.command("list")
@with_service
def list_keys(url: str | None, key: str | None, config_file: Path | None, **flags: Any) -> None:
    """List the keys (without the secrets, which nobody has)."""
    client = make_client(url, key, config_file, flags)
    click.echo(json.dumps(client.request("GET", "/_keys"), ensure_ascii=False, indent=2))


@keys.command("remove")
@click.argument("key_id")
@with_service
def remove_key(
    key_id: str, url: str | None, key: str | None, config_file: Path | None, **flags: Any
) -> None:
    """Remove the key with the given id."""
    client = make_client(url, key, config_file, flags)
    click.echo(json.dumps(client.request("DELETE", f"/_keys/{key_id}")))


# --- parts


def _data_dir(config_file: Path | None, flags: dict[str, Any]) -> Path:
    """Return the data directory that is meant; settings of shards go on by the environment."""
    return load_settings(config_file, flags).data_dir


def _is_given(flags: dict[str, Any], name: str) -> bool:
    """Return whether the command line has a setting."""
    assignments = flags.get("assignments", ())
    return bool(flags.get(name)) or any(one.startswith(f"{name}=") for one in assignments)


def _is_running(settings: Settings) -> bool:
    """Return whether somebody owns the data directory."""
    from common.data_directory import DataDirectoryError, acquire_lock

    if not settings.data_dir.exists():
        return False
    try:
        os.close(acquire_lock(settings.data_dir, wait_seconds=0))
    except DataDirectoryError:
        return True
    return False


def _create_key_offline(settings: Settings, document: dict[str, Any]) -> dict[str, Any]:
    """Make a key in the catalog of a service that does not run."""
    import asyncio

    from common import data_directory
    from coordinator.cluster.catalog import Catalog
    from coordinator.http.security import add_key

    async def create() -> dict[str, Any]:
        data_directory.create(settings.data_dir)
        lock = data_directory.acquire_lock(settings.data_dir)
        try:
            manifest = data_directory.read_manifest(settings.data_dir)
            num_shards = settings.shards if manifest is None else manifest.shards
            shown, token = await add_key(
                Catalog.open(settings.data_dir, num_shards), document, settings.limits
            )
            return {**shown, "key": token}
        finally:
            os.close(lock)

    return asyncio.run(create())


def _plain(value: Any) -> Any:
    """Return a setting's value as JSON has it."""
    return str(value) if isinstance(value, Path) else value


def _read_json(file: BinaryIO) -> dict[str, Any]:
    """Read a JSON object from a file."""
    try:
        document = json.load(file)
    except ValueError as error:
        raise ClientError(f"{file.name} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ClientError(f"{file.name} must hold a JSON object")
    return document


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


def _print_hits(answer: dict[str, Any]) -> None:
    """Print hits and facets for a human."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    pagination, data = answer["pagination"], answer["data"]
    console.print(
        f"{pagination['total']:,} hits, page {pagination['page']} ({answer['timings']['total']} ms)"
    )
    for item in data["items"]:
        console.print_json(json.dumps(item, ensure_ascii=False), indent=None)
    table = Table("facet", "values", box=None)
    for facet in data["aggregations"].values():
        values = ", ".join(
            f"{bucket['key']} ({bucket['doc_count']:,})" for bucket in facet["buckets"]
        )
        table.add_row(facet["title"], values)
    if table.row_count:
        console.print(table)
