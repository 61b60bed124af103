"""Reads a source by the reader of its format; refuses options that are for other formats."""

from __future__ import annotations

from dataclasses import replace

from coordinator.cli.sources import databases, delimited, geo_points, json_and_ndjson, parquet
from coordinator.cli.sources.format_detection import format_of
from coordinator.cli.sources.opening_and_decompression import BROKEN, OpenedSource
from coordinator.cli.sources.postgres_connection import without_password
from coordinator.cli.sources.source import ReadOptions, Source, SourceError


def read(name: str, options: ReadOptions) -> Source:
    """Open the source that the user named.

    Raises:
        SourceError: it cannot be read; says what would be valid.
    """
    if databases.is_database(name):
        _refuse_text_options(options, f"{without_password(name)} is a database")
        _refuse_items_path(options, f"{without_password(name)} is a database")
        return _with_wanted_points(databases.read(name, options), options)
    opened = OpenedSource(name)
    try:
        return _with_wanted_points(_read_file(opened, options), options)
    except BROKEN as error:
        raise SourceError(f"{opened.name} is cut off or damaged: {error}") from error


def _with_wanted_points(source: Source, options: ReadOptions) -> Source:
    return (
        source
        if options.point_fields is None
        else geo_points.with_points(source, options.point_fields)
    )


def _read_file(opened: OpenedSource, options: ReadOptions) -> Source:
    """Open a file, a URL or stdin."""
    name = opened.name
    style = options.style or format_of(opened)
    if style != "sqlite" and (options.query or options.table):
        raise SourceError(f"--query and --table are for databases; {name} is {style.upper()}")
    if style not in ("json", "ndjson"):
        _refuse_items_path(options, f"{name} is {style.upper()}")
    if style in ("csv", "tsv"):
        if style == "tsv" and options.delimiter is None:
            options = replace(options, delimiter="\t")
        return delimited.read(opened, options)
    if style != "sqlite" and (options.kinds or options.separators):
        raise SourceError(
            "--type and --split are for CSV, TSV and databases; other formats have types"
        )
    _refuse_text_options(options, f"{name} is {style.upper()}")
    if style in ("parquet", "sqlite") and options.encoding is not None:
        raise SourceError(f"--encoding is for files of text; {name} is {style.upper()}")
    if style == "parquet":
        return parquet.read(opened, options)
    if style == "sqlite":
        source = databases.read_sqlite(str(opened.plain_path()), options)
        return replace(source, name=opened.name, opened=opened)
    return json_and_ndjson.read(opened, options)


def _refuse_text_options(options: ReadOptions, what_it_is: str) -> None:
    """Raise for an option about tables of text."""
    for option, is_given in (
        ("--delimiter", options.delimiter is not None),
        ("--decimal", options.decimal != "."),
        ("--no-header", not options.has_header),
        ("--columns", bool(options.column_names)),
        ("--null", bool(options.null_texts)),
        ("--no-quotes", not options.has_quotes),
    ):
        if is_given:
            raise SourceError(f"{option} is for CSV and TSV; {what_it_is}")
    if options.encoding is not None and what_it_is.endswith("database"):
        raise SourceError(f"--encoding is for files of text; {what_it_is}")


def _refuse_items_path(options: ReadOptions, what_it_is: str) -> None:
    if options.items_path is not None:
        raise SourceError(f"--items is for JSON; {what_it_is}")
