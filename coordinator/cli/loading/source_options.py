"""Options about reading a source: the format, columns and their kinds, what a database gives."""

from __future__ import annotations

from typing import Final

import click

from coordinator.cli.options_as_one_value import with_options
from coordinator.cli.sources import format_detection
from coordinator.cli.sources.column_type_inference import DECIMALS
from coordinator.cli.sources.source import ReadOptions


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
        type=click.Choice(format_detection.FORMATS),
        help="Read FILE as this, whatever it is called.",
    ),
    click.option(
        "--type",
        "kinds",
        multiple=True,
        metavar="FIELD=KIND",
        callback=_pairs,
        help="Read a column of CSV or a database as text, integer, number, boolean, json, or dates "
        "with the day (dmy), the month (mdy) or the year (ymd) first. Can be repeated.",
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
        "point_fields",
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
