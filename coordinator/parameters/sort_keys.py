"""Sort keys: `"year:desc:missing=first"` or `{"field": "year", "order": "desc"}` → `SortKey`.

"year:desc" "year:missing=first"    a field, its order, where items without a value go
"name:collation=sv"                 texts in the order of a language
"_geo(48.2,16.4):asc"               distance from a point (members field and point)
"_score:buckets=10:desc"            the score, or the tenth of the best score it lies in
"_random:42"                        random, the same for the same seed
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from common.index_configuration import GEO_FIELD, IndexConfiguration
from common.limits import Limits
from common.protocol.messages import SortKey
from coordinator.parameters.geo import read_point
from coordinator.parameters.request_decoding import QueryText
from coordinator.parameters.value_parsers import (
    Mistake,
    check_field,
    integer,
    json_of_text,
    read_collation,
)

_KEY: Final = re.compile(r"(?:\([^()]*\)|[^,])+")
"""A key, up to a comma outside parentheses."""
_DEGREES: Final = r"\s*(-?[0-9]{1,3}(?:\.[0-9]{1,17})?)\s*"
FROM_POINT: Final = re.compile(rf"(.+)\({_DEGREES},{_DEGREES}\)", re.ASCII | re.DOTALL)
"""`_geo(48.2,16.4)`: field, latitude and longitude."""
_NEARLY_ORDERS: Final = frozenset(("asc", "desc", "ascending", "descending", "up", "down"))
"""Near misses of an order. A field whose name ends like this can be sorted as `a:up:asc`."""


class _Parts(NamedTuple):
    """The parts of one key as given, nothing checked yet; None where a part is not given."""

    name: Any
    order: Any = None
    missing: Any = None
    point: tuple[float, float] | None = None
    buckets: Any = None
    seed: Any = None
    collation: Any = None


_MEMBERS: Final = frozenset({"field", *_Parts._fields} - {"name"})


def geo_field_of(configuration: IndexConfiguration) -> str:
    """Return the field that `_geoRadius(…)` and `_geoPoint(…)` are about."""
    return next(iter(configuration.geo_fields), GEO_FIELD)


def read_sort_keys(
    value: Any, configuration: IndexConfiguration, limits: Limits
) -> tuple[SortKey, ...]:
    """Read the value of `sort`: a list of keys, one key, or keys with commas between them.

    Raises:
        Mistake: a key is invalid, or there are too many.
    """
    if value.__class__ is QueryText and value.startswith(("{", "[")):
        value = json_of_text(value)
    if isinstance(value, dict):
        value = [value]
    elif isinstance(value, str):
        value = [part.strip() for part in _KEY.findall(value) if part.strip()]
    elif isinstance(value, list) and value and value[0].__class__ is QueryText:
        value = [str(one) for one in value]
    if not isinstance(value, list) or len(value) > limits.sort_keys_max:
        raise Mistake(
            f'must be a list of up to {limits.shown("sort_keys_max")} keys such as "year:desc"'
        )
    return tuple([_sort_key(one, f"[{i}]", configuration, limits) for i, one in enumerate(value)])


def _sort_key(value: Any, path: str, configuration: IndexConfiguration, limits: Limits) -> SortKey:
    if isinstance(value, dict):
        parts = _parts_of_object(value, path)
    elif isinstance(value, str):
        parts = _parts_of_text(value)
    else:
        raise Mistake('must be a key such as "year:desc"', path=path)
    parts = _checked(parts, path, limits, is_text=isinstance(value, str))
    if parts.name == "_random":
        seed = integer(parts.seed, 0, "seed_max", limits, path)
        return SortKey(None, parts.order == "desc", seed=seed)
    if parts.name == "_score":
        num_buckets = 0
        if parts.buckets is not None:
            num_buckets = integer(parts.buckets, 1, "score_buckets_max", limits, path)
        is_missing_first = parts.missing == "first"
        return SortKey(None, parts.order != "asc", is_missing_first, num_buckets=num_buckets)
    return _field_key(parts, path, configuration)


def _parts_of_object(value: dict[str, Any], path: str) -> _Parts:
    if not set(value) <= _MEMBERS:
        if len(value) == 1:
            raise Mistake(
                'must name the field in the member field: {"field": "year", "order": "desc"}, or '
                '"year:desc"',
                path=path,
            )
        raise Mistake(
            "must have the members field, order, missing, point, collation, buckets (of _score) "
            "and seed (of _random)",
            path=path,
        )
    given = {name: part for name, part in value.items() if name not in ("field", "point")}
    point = value.get("point")
    return _Parts(
        value.get("field"),
        point=None if point is None else read_point(point, f"{path}.point"),
        **given,
    )


def _parts_of_text(value: str) -> _Parts:
    """Take parts off the end; the first text that is not a part belongs to the field's name."""
    parts = _Parts(value)
    while True:
        head, colon, tail = parts.name.rpartition(":")
        if colon and tail in ("asc", "desc") and parts.order is None:
            parts = parts._replace(name=head, order=tail)
        elif colon and tail in ("missing=first", "missing=last") and parts.missing is None:
            parts = parts._replace(name=head, missing=tail.removeprefix("missing="))
        elif colon and tail.startswith("buckets=") and parts.buckets is None:
            parts = parts._replace(name=head, buckets=tail.removeprefix("buckets="))
        elif colon and tail.startswith("collation=") and parts.collation is None:
            parts = parts._replace(name=head, collation=tail.removeprefix("collation="))
        elif head == "_random" and parts.seed is None:
            parts = parts._replace(name=head, seed=tail)
        else:
            return parts


def _checked(parts: _Parts, path: str, limits: Limits, *, is_text: bool) -> _Parts:
    """Return parts that are valid and go together, or raise a mistake."""
    name = parts.name
    if parts.order not in (None, "asc", "desc") or parts.missing not in (None, "first", "last"):
        raise Mistake("has an order asc or desc, and missing first or last", path=path)
    check_field(name, limits, path)
    head, colon, tail = str(name).rpartition(":")
    if colon and parts.order is None and is_text and tail.lower() in _NEARLY_ORDERS:
        raise Mistake(
            f'ends in {tail!r}, but an order is asc or desc: for example "{head[:100]}:desc"',
            path=path,
        )
    if parts.collation is not None:
        parts = parts._replace(collation=read_collation(parts.collation, path))
        if name in ("_random", "_score") or parts.point is not None:
            raise Mistake("has a collation, which only fields with texts take", path=path)
    if parts.point is not None and name in ("_random", "_score"):
        raise Mistake("has a point, which only fields of points take", path=path)
    if name == "_random":
        if parts.buckets is not None or parts.missing is not None:
            raise Mistake("has no buckets and no missing values with _random", path=path)
        if parts.seed is None:
            raise Mistake('needs a seed after _random, for example "_random:42"', path=path)
    elif parts.seed is not None:
        raise Mistake("has a seed, which only _random takes", path=path)
    elif name != "_score" and parts.buckets is not None:
        raise Mistake("has buckets, which only _score takes", path=path)
    return parts


def _field_key(parts: _Parts, path: str, configuration: IndexConfiguration) -> SortKey:
    """Return the key of a field, or of the distance of its points."""
    name, point = str(parts.name), parts.point
    from_point = FROM_POINT.fullmatch(name)
    if from_point and from_point[1] in ("_geoPoint", *configuration.geo_fields):
        name = geo_field_of(configuration) if from_point[1] == "_geoPoint" else from_point[1]
        point = read_point([float(from_point[2]), float(from_point[3])], path)
    if point is not None and name not in configuration.geo_fields:
        known = ", ".join(configuration.geo_fields) or "none"
        raise Mistake(f"names no field of points; these are {known[:500]}", path=path)
    if point is None and name in configuration.geo_fields:
        raise Mistake(
            f'names points, which have no order; write "{name[:100]}(48.2,16.4)", for example, to '
            "sort by the distance from one",
            path=path,
        )
    collation = parts.collation
    if collation is None:
        collation = "" if point else configuration.collation_of(name)
    is_missing_first = parts.missing == "first"
    return SortKey(name, parts.order == "desc", is_missing_first, point, collation=collation)
