"""The command that imports indexes from other engines."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from itertools import islice
from typing import Final

import click

from coordinator.cli.argument_completion import complete_file
from coordinator.cli.commands.indexes import exists
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import echo
from coordinator.cli.importers import algolia_export, elasticsearch, meilisearch_dump, typesense
from coordinator.cli.importers.export_reading import SAMPLE_ITEMS
from coordinator.cli.importers.imported_index import ImportedIndex
from coordinator.cli.loading.configuration_options import configure_option, show_warnings
from coordinator.cli.loading.index_name_and_removal import index_name, remove_if_empty
from coordinator.cli.loading.load_progress import LoadProgressBar
from coordinator.cli.loading.proposed_configuration import offer_configuration
from coordinator.cli.loading.source_overview import FIRST_CHARS_SHOWN
from coordinator.cli.sources.source import SourceError, shown
from coordinator.command_line_client import Client, ClientError

Read = Callable[[str, str | None, str | None], list[ImportedIndex]]

ENGINES: Final[dict[str, Read]] = {
    "meilisearch": lambda name, settings, key: meilisearch_dump.read(name),
    "meilisearch-dump": lambda name, settings, key: meilisearch_dump.read(name),
    "typesense": typesense.read,
    "elasticsearch": elasticsearch.read,
    "opensearch": elasticsearch.read,
    "algolia": lambda name, settings, key: algolia_export.read(name, settings),
}


@click.command("import")
@click.argument("engine", metavar="ENGINE", type=click.Choice(list(ENGINES)))
@click.argument("source", shell_complete=complete_file)
@click.option(
    "--index",
    metavar="NAME",
    help="Import into this index; of a dump with several, import only the one of this name.",
)
@click.option(
    "--settings",
    metavar="FILE",
    shell_complete=complete_file,
    help="Read settings (Algolia), the schema (Typesense) or the mapping (Elasticsearch) from "
    "this file.",
)
@click.option(
    "--source-key",
    metavar="KEY",
    envvar="FACETD_SOURCE_KEY",
    help="Send this key to the other engine, for Elasticsearch also USER:PASSWORD.  "
    "[FACETD_SOURCE_KEY]",
)
@configure_option("the facets that are proposed where the source does not say which there are")
@click.option("--skip-bad", is_flag=True, help="Store the good items even if there are bad ones.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be created, read the first items, and stop."
)
@with_service
def import_(
    service: ConnectionOptions,
    engine: str,
    source: str,
    index: str | None,
    settings: str | None,
    source_key: str | None,
    proposing: str,
    skip_bad: bool,
    dry_run: bool,
) -> None:
    """Import an index from another engine, with its settings.

    ENGINE is meilisearch, typesense, elasticsearch, opensearch or algolia.

    SOURCE is a dump of Meilisearch, an export of Typesense, Algolia or Elasticsearch, or (for
    Typesense and Elasticsearch) the address of a collection or index. What has no equivalent here
    is listed. Where the source does not say which facets there are, they are proposed from the
    items.

    \b
    facetd import meilisearch 20260101.dump
    facetd import typesense http://localhost:8108/collections/books --source-key KEY
    facetd import elasticsearch http://localhost:9200/books
    facetd import algolia records.json --settings settings.json --index books
    """  # noqa: D301 - \b keeps click from filling the lines
    try:
        found = ENGINES[engine](source, settings, source_key)
        chosen = _choose(found, index, source)
        for one in chosen:
            _show(one)
        if dry_run:
            for one in chosen:
                _show_first(one)
            return
        client = service.client()
        taken = [one.name for one in chosen if exists(client, one.name)]
        if taken:
            raise ClientError(
                f"there is an index {taken[0]!r} already; name another with --index, or delete it "
                f"with facetd delete {taken[0]}"
            )
        for one in chosen:
            _import(client, one, skip_bad)
            if one.is_open:
                offer_configuration(client, one.name, proposing)
    except SourceError as error:
        raise ClientError(str(error)) from error


def _choose(found: list[ImportedIndex], index: str | None, source: str) -> list[ImportedIndex]:
    """Return the indexes to import, under their new names."""
    if len(found) > 1:
        if index is None:
            return found
        chosen = [one for one in found if one.name == index]
        if not chosen:
            known = ", ".join(one.name for one in found)
            raise SourceError(f"there is no index {index!r} in it; its indexes are {known}")
        return chosen
    (one,) = found
    one.name = index or one.name or index_name(source, None)  # not a copy: its items count in it
    return found


def _show(one: ImportedIndex) -> None:
    """Show the converted settings, and what differs."""
    document = json.dumps(one.configuration, ensure_ascii=False, indent=2)
    echo(f"facetd: index {one.name}, configuration {document}", err=True)
    if one.notes:
        listed = "\n".join(f"  {note}" for note in one.notes)
        echo(f"facetd: what differs\n{listed}", err=True)


def _show_first(one: ImportedIndex) -> None:
    """Read some items, and show the first."""
    items = list(islice(one.items(), SAMPLE_ITEMS))
    if items:
        first = shown(json.dumps(items[0], ensure_ascii=False), FIRST_CHARS_SHOWN)
        echo(f"facetd: its first item {first}", err=True)
    else:
        echo(f"facetd: {one.name} has no items", err=True)
    for remark in one.remarks():
        more = f", of the first {SAMPLE_ITEMS:,}" if len(items) == SAMPLE_ITEMS else ""
        echo(f"facetd: {remark}{more}", err=True)


def _import(client: Client, one: ImportedIndex, skips_bad: bool) -> None:
    """Create an index and load it; remove it again if its items are rejected."""
    client.configure(one.name, one.configuration)
    request_id = f"import-{secrets.token_hex(8)}"
    try:
        with LoadProgressBar(client, request_id, None) as progress:
            result = client.load(
                one.name,
                progress.follow(one.pieces()),
                skips_bad=skips_bad,
                request_id=request_id,
            )
            progress.finish(result)
    except BaseException:
        remove_if_empty(client, one.name)
        raise
    for remark in one.remarks():
        echo(f"facetd: {remark}", err=True)
    show_warnings(client, one.name)
    echo(json.dumps({"index": one.name, **result}, ensure_ascii=False))
