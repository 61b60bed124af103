"""Parquet, which defines the types itself. Needs the extra `facetd[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.sources.opening import OpenedSource
from coordinator.cli.sources.rows import id_name, to_items
from coordinator.cli.sources.source import (
    Column,
    ReadOptions,
    Source,
    SourceError,
    importing_extra,
    shown,
)

ROWS_AT_ONCE: Final = 4_096


def read(opened: OpenedSource, options: ReadOptions) -> Source:
    """Open a Parquet file.

    Raises:
        SourceError: the library is not installed, or this is not a Parquet file.
    """
    with importing_extra("parquet", "Parquet"):
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    path = opened.plain_path()
    try:
        file = ParquetFile(path)
    except (ArrowInvalid, OSError) as error:
        raise SourceError(f"{opened.name} is not a Parquet file: {error}") from error
    schema = file.schema_arrow
    names = list(schema.names)
    id_column = id_name(names, options.id_field, opened.name)

    def rows(
        opened: OpenedSource = opened,
    ) -> Iterator[dict[str, Any]]:  # its file lives as it does
        for batch in file.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()

    first = next(rows(), {})
    columns = [
        Column(
            name,
            f"{schema.field(name).type}{', the id' if name == id_column else ''}",
            file.metadata.num_rows,
            shown("" if first.get(name) is None else first[name]),
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
