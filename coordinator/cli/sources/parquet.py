"""Parquet, which defines the types itself. Needs the extra `facetd[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.sources.opening_and_decompression import OpenedSource
from coordinator.cli.sources.rows_to_items import example_of, id_name, to_items
from coordinator.cli.sources.source import (
    Column,
    ReadOptions,
    Source,
    SourceError,
    importing_extra,
)

ROWS_AT_ONCE: Final = 4_096


def read(opened: OpenedSource, options: ReadOptions) -> Source:
    """Open a Parquet file.

    Raises:
        SourceError: the library is not installed, or this is not a Parquet file. Its pieces raise
            it for damaged data, and for a value that Python lacks, such as a date after 9999.
    """
    with importing_extra("parquet", "Parquet"):
        from pyarrow import ArrowException, ArrowInvalid, types
        from pyarrow.parquet import ParquetFile
    path = opened.plain_path()
    try:
        file = ParquetFile(path)
    except (ArrowInvalid, OSError) as error:
        raise SourceError(f"{opened.name} is not a Parquet file: {error}") from error
    schema = file.schema_arrow
    names = list(schema.names)
    id_column = id_name(names, options.id_field, opened.name)
    maps = [field.name for field in schema if types.is_map(field.type)]
    read_schema = _in_microseconds(schema)

    def rows(
        opened: OpenedSource = opened,
    ) -> Iterator[dict[str, Any]]:  # its file lives as it does
        num_read = 0
        try:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                for row in batch.cast(read_schema, safe=False).to_pylist():
                    pairs = {name: row[name] for name in maps if row[name] is not None}
                    yield {**row, **{name: dict(found) for name, found in pairs.items()}}
                num_read += batch.num_rows
        except (ArrowException, OSError, OverflowError, ValueError) as error:
            raise SourceError(
                f"{opened.name}: a value after row {num_read} cannot be read: {error}"
            ) from error

    first = next(rows(), {})
    columns = [
        Column(
            name,
            _described(schema.field(name).type, is_id=name == id_column),
            file.metadata.num_rows,
            example_of(first.get(name)),
        )
        for name in names
    ]
    return Source(
        opened.name,
        lambda: to_items(rows(), id_column),
        columns,
        num_items=file.metadata.num_rows,
        place_of=lambda number: f"row {number}",
    )


def _described(kind: Any, *, is_id: bool) -> str:
    """Return a type as it is shown; values of bytes alone are not loaded, and that is said."""
    from pyarrow import types

    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    if is_bytes or types.is_fixed_size_binary(kind):
        return f"{kind}, not loaded"
    return f"{kind}{', the id' if is_id else ''}"


def _in_microseconds(schema: Any) -> Any:
    """Return a schema whose moments and durations are in units that Python has."""
    import pyarrow as arrow

    def converted(kind: Any) -> Any:
        types = arrow.types
        if types.is_timestamp(kind) and kind.unit == "ns":
            return arrow.timestamp("us", kind.tz)
        if types.is_time64(kind):
            return arrow.time64("us")
        if types.is_duration(kind) and kind.unit == "ns":
            return arrow.duration("us")
        if types.is_list(kind):
            return arrow.list_(converted(kind.value_type))
        if types.is_large_list(kind):
            return arrow.large_list(converted(kind.value_type))
        if types.is_struct(kind):
            return arrow.struct([field.with_type(converted(field.type)) for field in kind])
        return kind

    return arrow.schema([field.with_type(converted(field.type)) for field in schema])
