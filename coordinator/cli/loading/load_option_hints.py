"""Options of a load that might be meant, to judge by its source; said before anything is sent."""

from __future__ import annotations

import re
import shlex
from typing import Final

from coordinator.cli.escaped_output import echo
from coordinator.cli.sources.source import Column, ReadOptions, Source

GROUPED_SHOWN: Final = 3
NAMED_MAX: Final = 5
_ID_NAME: Final = re.compile(
    r"_id|object_?id|uuid|guid|key|code|sku|isbn\d*|ean|gtin|slug|.+[ _.-](id|key|no|nr|number)\.?|"
    r"(?-i:.+[a-z](Id|ID))",
    re.IGNORECASE,
).fullmatch
"""Fields that probably hold ids."""


def mention_options(source: Source, file: str, reading: ReadOptions) -> None:
    """Say which options might be meant, and what a file lacks: ids, rows, a header.

    Args:
        source: as it was read.
        file: as the user named it.
        reading: the options by which it was read.
    """
    _mention_header(source)
    _mention_numbered(source)
    _mention_nulls(source)
    _mention_commas(source)
    _mention_groups(source)
    _mention_prices(source)
    _mention_rounded(source)
    _mention_dates(source)
    _mention_lists(source)
    _mention_hits(source, file)
    _mention_no_ids(source, reading)
    _mention_no_rows(source, reading)


def mention_no_items(source: Source, num_found: int) -> None:
    """Say that JSON has no items, and what would be some.

    Args:
        source: after it was read to its end.
        num_found: items that it has, good or not.
    """
    if source.columns or num_found:
        return
    if not source.starts_blank:
        echo(f"facetd: {source.name} is an array without items", err=True)
        return
    echo(
        f"facetd: {source.name} is empty; items are a JSON array, JSON objects one a line, or CSV "
        "or TSV whose first line names the columns",
        err=True,
    )


def _mention_header(source: Source) -> None:
    """Say that the first line may be a row, where it looks like the others."""
    if source.seems_headless:
        names = [column.name for column in source.columns]
        echo(
            f"facetd: if the first line ({', '.join(names[:3])}{' …' if names[3:] else ''}) does "
            "not name the columns: --no-header, or --columns NAME,NAME,…",
            err=True,
        )


def _mention_numbered(source: Source) -> None:
    """Say which columns were numbered, as others have the same name."""
    if source.numbered:
        echo(
            "facetd: the header has names more than once; the repeated columns are called "
            f"{_listed(source.numbered)}",
            err=True,
        )


def _mention_nulls(source: Source) -> None:
    """Say how cells such as NA become empty, where the others are numbers or dates."""
    found = [column for column in source.columns if column.null_texts]
    if found:
        texts = dict.fromkeys(text for column in found for text in column.null_texts)
        options = " ".join(f"--null {shlex.quote(text)}" for text in texts)
        example = next(iter(texts))
        echo(
            f"facetd: {_names_of(found)}: text because of cells such as {example}; {options} reads "
            "them as empty",
            err=True,
        )


def _mention_commas(source: Source) -> None:
    """Say how texts with decimal commas become numbers."""
    found = [column for column in source.columns if column.comma_example]
    if found:
        example = next(one.comma_example for one in found if "," in one.comma_example)
        groups = next((one.comma_example for one in found if "," not in one.comma_example), "")
        also = f", and {groups} as {groups.replace('.', '')}" if groups else ""
        echo(
            f"facetd: --decimal , reads {_names_of(found)} as numbers, such as {example}{also}",
            err=True,
        )


def _mention_groups(source: Source) -> None:
    """Say how texts such as 1,299.00 become numbers."""
    found = [column for column in source.columns if column.group_example]
    if found:
        options = " ".join(_type_option(column, "number") for column in found[:GROUPED_SHOWN])
        echo(
            f"facetd: {options} reads {_names_of(found)} as numbers, such as "
            f"{found[0].group_example}",
            err=True,
        )


def _mention_prices(source: Source) -> None:
    """Say how texts such as €10.00 become numbers."""
    for column in source.columns:
        if column.price_example:
            decimal = "--decimal , " if column.price_decimal == "," else ""
            echo(
                f"facetd: {decimal}{_type_option(column, 'number')} reads {column.name} as numbers "
                f"of {column.currency}, such as {column.price_example}",
                err=True,
            )


def _mention_rounded(source: Source) -> None:
    """Say that columns with long whole numbers stay text, so that each digit is kept."""
    found = [column for column in source.columns if column.rounded_example]
    if found:
        echo(
            f"facetd: {_names_of(found)}: whole numbers such as {found[0].rounded_example} stay "
            "text, as numbers beside others they would be rounded; "
            f"{_type_option(found[0], 'number')} rounds them",
            err=True,
        )


def _mention_dates(source: Source) -> None:
    """Say that dates in other notations stay text, and how they become dates."""
    found = [column for column in source.columns if column.has_other_dates]
    for orders in dict.fromkeys(column.date_orders for column in found):
        _mention_dates_of([column for column in found if column.date_orders == orders])


def _mention_dates_of(found: list[Column]) -> None:
    """Say so of columns whose dates are of the same orders."""
    first = found[0]
    if len(first.date_orders) == 1:
        advice = f"{_type_option(first, first.date_orders[0])} reads them as dates"
    elif first.date_orders:
        day_first, month_first = _type_option(first, "dmy"), _type_option(first, "mdy")
        advice = f"{day_first} (day first) or {month_first} (month first) reads them as dates"
    else:
        advice = "write them as 2024-12-31 to sort and count them as dates"
    echo(f"facetd: {_names_of(found)}: dates such as {first.example} stay text; {advice}", err=True)


def _mention_lists(source: Source) -> None:
    """Say how cells with several values become lists."""
    for column in source.columns:
        if column.separator:
            value = shlex.quote(f"{column.name}={column.separator}")
            echo(
                f"facetd: --split {value} reads {column.name} as lists, "
                f"of {', '.join(column.parts)} …",
                err=True,
            )


def _mention_hits(source: Source, file: str) -> None:
    """Say which command loads what is in hits of another engine."""
    first = source.sample[0] if source.sample else {}
    is_hit = isinstance(first.get("_source"), dict)
    is_action = len(first) == 1 and isinstance(first.get("index", first.get("create")), dict)
    if is_hit or is_action:
        what = "hits" if is_hit else "a _bulk body"
        echo(
            f"facetd: this is {what} of Elasticsearch; facetd import elasticsearch {file} loads "
            "the documents in it",
            err=True,
        )


def _mention_no_ids(source: Source, reading: ReadOptions) -> None:
    """Say that items without ids are added again by each load."""
    names = [column.name for column in source.columns]
    names += dict.fromkeys(name for item in source.sample for name in item)
    has_ids = "id" in names or any(column.kind.endswith("the id") for column in source.columns)
    if reading.id_field is not None or has_ids or not names:
        return
    likely = [_id_path(name, source) for name in names if _ID_NAME(name)]
    example = f", for example --id-field {likely[0]}" if likely else ""
    echo(
        "facetd: the items have no id, so loading them again adds them again; --id-field names the "
        f"field of their ids{example}",
        err=True,
    )


def _id_path(name: str, source: Source) -> str:
    """Return what --id-field needs for a field, which may be an object as MongoDB exports it."""
    values = (item[name] for item in source.sample if item.get(name) is not None)
    first = next(values, None)
    is_object_id = isinstance(first, dict) and "$oid" in first
    return shlex.quote(f"{name}.$oid" if is_object_id else name)


def _type_option(column: Column, kind: str) -> str:
    """Return the option that reads a column as a kind, as it is typed in a shell."""
    return f"--type {shlex.quote(f'{column.name}={kind}')}"


def _names_of(columns: list[Column]) -> str:
    return _listed([one.name for one in columns])


def _listed(names: list[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (" …" if len(names) > NAMED_MAX else "")


def _mention_no_rows(source: Source, reading: ReadOptions) -> None:
    """Say that there is a header and nothing else, or nothing that it fits."""
    if not source.columns or source.num_items != 0:
        return
    if not source.num_bad:
        echo(f"facetd: {source.name} names columns but has no rows", err=True)
    elif any(column.name in reading.kinds for column in source.columns):
        return  # the errors name the values that are not of the kind that --type says
    elif source.num_bad > 1 and reading.has_header and not reading.column_names:
        echo(
            "facetd: no row fits the first line; if the columns are named in a later line, remove "
            "those above it",
            err=True,
        )
