"""Proposes a configuration from a sample of an index: which fields make good facets (pure).

    sample of items ─▶ per field: kinds, share, values, examples ─▶ role ─▶ configuration, ranges

    facet   few values that repeat: a category, a brand, tags, yes or no
    range   numbers or dates with many values: counted by intervals
    tree    paths of categories: "Phones > Cases > Leather"
    title   the name of an item: searched with a higher weight
    text    other texts: searched
    key     no choice: different in every item (ids, codes, the column that the ids were read from),
            or the same in all
    code    divides the items just as another field does, which is kept: "AT" beside "Austria"
    place   degrees of latitude and longitude: shown on a map, not counted by intervals; an object
            of both is a geo field
    link    addresses of pages and images: neither searched nor counted; the first field of images
            is shown beside each item

Values without hits are hidden, lists are conjunctive (hits have every chosen value), single values
disjunctive (any of them). All figures are those of the sample; users can change every decision made
from them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any, Final

from common.index_configuration import GEO_FIELD

FACETS_MAX: Final = 12
"""Facets proposed, best first; more would overwhelm the user."""

VALUE_CHARS_MAX: Final = 60
"""A longer value is text to read, not a choice."""

REPEATED_MIN: Final = 2.0
"""How often a value must occur on average to be worth choosing."""

REPEATING_SHARE_MIN: Final = 0.4
"""Or this share of a sample has values that others have too: authors, most with one book."""

CODES_MIN: Final = 3
"""Fields with fewer values may divide the items alike by chance: yes and no, new and used."""

CODED_ITEMS_MIN: Final = 10
"""Fewer items may be divided alike by chance."""

LONG_SHARE_MAX: Final = 0.01
"""Share of values that may be too long for a choice."""

TREE_SEPARATOR: Final = " > "
TREE_SHARE_MIN: Final = 0.5
"""Share of values with a separator; main categories have none."""

FIELDS_MAX: Final = 200
"""Fields examined; items with more use names as data."""

NAME_BYTES_MAX: Final = 128
"""A longer path cannot be shown, and a configuration may not accept it."""

SEARCHED_MAX: Final = 30
"""Fields proposed for search."""

NUMBERS_AS_VALUES_MAX: Final = 12
"""Up to this many distinct numbers are listed one by one (stars, doors), more by intervals."""

INTERVALS: Final = 10
_STEP_MIN: Final = 1e-9
_STEP_MAX: Final = 1e15
_TITLES: Final = ("title", "name", "label", "headline", "subject", "product", "question")
_WHOLE_TITLES: Final = (
    *_TITLES,
    *("titel", "bezeichnung", "artikelbezeichnung", "produktbezeichnung", "titre", "nom"),
    *("título", "titulo", "nombre", "titolo", "nome", "naam", "tytuł", "nazwa"),
)
"""Also in other languages; parts of other words there may be the same by chance."""
_DATE: Final = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d.*)?)?", re.ASCII)
_LINK: Final = re.compile(r"(https?|ftp)://|data:|[\w./-]+\.(jpe?g|png|gif|webp|svg|html?)$", re.I)
_IMAGE: Final = re.compile(r"(https?://|/)[^?#]+\.(jpe?g|png|gif|webp|avif|svg)([?#].*)?", re.I)
_IMAGE_NAME: Final = re.compile(
    r"(?i)(^|[_\- ])(image|img|picture|photo|poster|cover|thumbnail)s?([_\- ]?(url|src|link))?$"
)
_KEY_NAME: Final = re.compile(r"(?i)(^|[_.\- ])(id|uuid|guid|sku|isbn|ean|gtin|slug|hash|url)$")
_DEGREES: Final = re.compile(r"(?i)(^|[_.\- ])(lat|latitude|lng|lon|long|longitude)$")
_BOUNDS: Final = {"lat": 90, "lng": 180}
_DEPTH_MAX: Final = 4
"""Depth of nested objects examined."""


@dataclass(slots=True)
class _Field:
    """Statistics of one field in the sample.

    `division` has the place of each item with the number of its value (of each of a list), in the
    order in which values appear: equal for fields whose values correspond one to one.
    """

    num_items: int = 0
    num_values: int = 0
    num_lists: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    values: Counter[Any] = field(default_factory=Counter)
    numbers: dict[Any, int] = field(default_factory=dict)
    division: list[tuple[int, int]] = field(default_factory=list)
    num_dates: int = 0
    num_links: int = 0
    num_images: int = 0
    num_paths: int = 0
    num_long: int = 0
    num_chars: int = 0
    least: float | None = None
    greatest: float | None = None

    def add(self, value: Any, place: int) -> None:
        """Count one scalar value of the item at a place."""
        kind = _kind(value)
        self.kinds[kind] += 1
        self.num_values += 1
        counted = value if kind != "boolean" else str(value).lower()
        self.values[counted] += 1
        self.division.append((place, self.numbers.setdefault(counted, len(self.numbers))))
        if kind == "text":
            self.num_chars += len(value)
            self.num_long += len(value) > 2 * VALUE_CHARS_MAX
            self.num_paths += TREE_SEPARATOR in value
            self.num_dates += _is_date(value)
            self.num_links += _LINK.match(value) is not None
            self.num_images += _IMAGE.fullmatch(value) is not None
        elif kind == "number":
            self.least = value if self.least is None else min(self.least, value)
            self.greatest = value if self.greatest is None else max(self.greatest, value)

    @property
    def kind(self) -> str:
        """The kind of most values; a date is text in date format."""
        kind = self.kinds.most_common(1)[0][0]
        return "date" if kind == "text" and self.num_dates > 0.9 * self.num_values else kind

    @property
    def repeats(self) -> float:
        """How often a value occurs on average."""
        return self.num_values / len(self.values)

    @property
    def has_choices(self) -> bool:
        """Whether values repeat often enough for a facet."""
        num_single = sum(number == 1 for number in self.values.values())
        return (
            self.repeats >= REPEATED_MIN
            or num_single <= (1 - REPEATING_SHARE_MIN) * self.num_values
        )

    def ends(self) -> dict[str, Any]:
        """Return the least and the greatest number or date, as members of a description."""
        if self.kind == "date":
            dates = [value for value in self.values if _is_date(value)]
            return {"min": min(dates), "max": max(dates)}
        if self.kind == "number" and self.least is not None:
            return {"min": self.least, "max": self.greatest}
        return {}


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and _DATE.fullmatch(value) is not None


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, (int, float)) else "text"


def propose(
    items: Sequence[Mapping[str, Any]],
    num_items: int,
    configuration: Mapping[str, Any],
    cardinalities: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Propose settings for an index.

    Args:
        items: a sample of it, parsed.
        num_items: in the index.
        configuration: its current configuration document; what it names is not proposed again.
        cardinalities: exact numbers of distinct values, for fields where they are known.

    Returns:
        `fields` (each with kind, figures, role), the `configuration` to be merged, `ranges` for the
        parameter `facet_ranges`, and the sample size.
    """
    fields: dict[str, _Field] = {}
    for place, item in enumerate(items):
        for path in _collect(fields, item, place, "", 0):
            fields[path].num_items += 1
    roles = {path: _role(path, one, len(items)) for path, one in fields.items()}
    roles |= dict.fromkeys(_copies_of_ids(fields, items), "key")
    roles |= dict.fromkeys(_codes(fields, roles, configuration), "code")
    title = _title(fields, roles)
    if title is not None:
        roles[title] = "title"
    proposed = _configuration(fields, roles, configuration)
    ranges = {
        path: _range(one)
        for path, one in fields.items()
        if roles[path] == "range" and (one.kind == "date" or _STEP_MIN < _step(one) < _STEP_MAX)
    }
    ranges = dict(sorted(ranges.items(), key=lambda one: -fields[one[0]].num_items)[:FACETS_MAX])
    known = cardinalities or {}
    return {
        "items": num_items,
        "sampled": len(items),
        "fields": [
            {
                "name": path,
                "kind": one.kind,
                "role": roles[path],
                "share": round(one.num_items / len(items), 4),
                "values": known.get(path, len(one.values)),
                "is_list": one.num_lists > 0,
                "examples": [value for value, _ in one.values.most_common(3)],
                **one.ends(),
            }
            for path, one in sorted(fields.items())
        ],
        "configuration": proposed,
        "ranges": ranges,
    }


def _collect(
    fields: dict[str, _Field], item: Mapping[str, Any], place: int, prefix: str, depth: int
) -> Iterator[str]:
    """Count the values of the item at a place; yield the paths that it has."""
    for name, value in item.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            if depth < _DEPTH_MAX:
                yield from _collect(fields, value, place, f"{path}.", depth + 1)
            continue
        values = value if isinstance(value, list) else [value]
        scalars = [one for one in values if one is not None and not isinstance(one, (dict, list))]
        scalars = [one for one in scalars if one != ""]
        if not scalars:
            continue
        if path not in fields:
            if len(fields) >= FIELDS_MAX or len(path.encode()) > NAME_BYTES_MAX:
                continue
            fields[path] = _Field()
        one = fields[path]
        one.num_lists += isinstance(value, list)
        for scalar in scalars:
            one.add(scalar, place)
        yield path


def _role(path: str, one: _Field, num_items: int) -> str:
    """Return the role of a field."""
    kind = one.kind
    is_flag = one.num_items < num_items and (kind == "boolean" or one.num_lists > 0)
    is_choice = len(one.values) > 1 or is_flag
    if path == "id" or (_KEY_NAME.search(path) and one.repeats < REPEATED_MIN):
        return "key"
    if kind == "boolean":
        return "facet" if is_choice else "key"
    if kind == "number" and _DEGREES.search(path):
        return "place"
    if kind in ("number", "date"):
        if kind == "number" and not is_choice:
            return "key"
        if kind == "number" and len(one.values) <= NUMBERS_AS_VALUES_MAX and one.repeats > 1.5:
            return "facet"
        return "range"
    if one.num_links > 0.5 * one.num_values:
        return "link"
    if one.num_paths >= TREE_SHARE_MIN * one.num_values and one.has_choices and is_choice:
        return "tree"
    is_short = one.num_long <= LONG_SHARE_MAX * one.num_values
    is_short = is_short and one.num_chars <= VALUE_CHARS_MAX * one.num_values
    is_title = (
        path.lower() in _WHOLE_TITLES and one.repeats < REPEATED_MIN
    )  # "Untitled" may be frequent
    if is_short and one.has_choices and not is_title and is_choice:
        return "facet"
    if is_short and not is_choice and num_items > 1:
        return "key"
    return "text"


def _copies_of_ids(
    fields: Mapping[str, _Field], items: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the fields that repeat the id of every item: a load keeps the column of the ids.

    Ids of one item may equal any of its numbers by chance.
    """
    if len(items) < 2 or "id" not in fields:
        return
    for path in fields:
        if path != "id" and all(path in item and item[path] == item.get("id") for item in items):
            yield path


def _codes(
    fields: Mapping[str, _Field], roles: Mapping[str, str], document: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the facets that divide the items just as a better one does.

    Better is one that is configured already, then one of words rather than numbers, then one of
    lists (`artists`, of whom the sample has one each, rather than `artist`), then one whose values
    are longer: "Austria" rather than "AT".
    """
    known = document.get("aggregations") or {}

    def rank(path: str) -> tuple[bool, bool, bool, int]:
        one = fields[path]
        return path in known, one.kind == "text", one.num_lists > 0, one.num_chars

    alike: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for path, one in fields.items():
        are_many = len(one.values) >= CODES_MIN and one.num_items >= CODED_ITEMS_MIN
        if roles[path] == "facet" and are_many:
            alike.setdefault(tuple(one.division), []).append(path)
    for paths in alike.values():
        best = max(paths, key=rank)
        yield from (path for path in paths if path != best)


def _title(fields: Mapping[str, _Field], roles: Mapping[str, str]) -> str | None:
    """Return the field that names an item."""
    texts = [path for path, role in roles.items() if role == "text" and not fields[path].num_lists]
    for name in _WHOLE_TITLES:
        for path in texts:
            if path.lower() == name:
                return path
    named = [path for path in texts if any(name in path.lower() for name in _TITLES)]
    return named[0] if named else None


def _configuration(
    fields: Mapping[str, _Field], roles: Mapping[str, str], document: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings to merge into a configuration."""
    proposed: dict[str, Any] = {}
    known = document.get("aggregations") or {}
    choosable = [
        path
        for path, role in roles.items()
        if role in ("facet", "tree") or (role == "range" and _has_intervals(fields[path]))
    ]
    choosable.sort(key=lambda path: -_worth(fields[path], roles[path]))
    facets = {
        path: _facet(fields[path], roles[path])
        for path in choosable[:FACETS_MAX]
        if path not in known
    }
    if facets:
        proposed["aggregations"] = facets
    trees = {
        path: {"path": path, "separator": TREE_SEPARATOR}
        for path in facets
        if roles[path] == "tree" and path not in (document.get("hierarchies") or {})
    }
    if trees:
        proposed["hierarchies"] = trees
    image = _image(fields)
    if image is not None and "display" not in document:
        proposed["display"] = {"image": image}
    point = _point(fields, roles)
    if point is not None and "geo_fields" not in document:
        proposed["geo_fields"] = [point]
    texts = [
        path
        for path, role in roles.items()
        if role in ("text", "facet", "tree", "code") and fields[path].kind == "text"
    ]
    titles = [path for path, role in roles.items() if role == "title"]
    is_named = {"searchable_fields", "searchableFields"} & document.keys()
    if titles and not is_named and all("^" not in path for path in (*titles, *texts)):
        proposed["searchable_fields"] = [*(f"{path}^3" for path in titles), *texts][:SEARCHED_MAX]
    return proposed


def _image(fields: Mapping[str, _Field]) -> str | None:
    """Return the field of most items' pictures; None: no field is one of pictures."""
    found = [
        (one.num_items, path)
        for path, one in fields.items()
        if "." not in path and _is_image(path, one)
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def _is_image(path: str, one: _Field) -> bool:
    """Return whether most values are addresses of images: by their ends, or by the field's name."""
    are_links = one.num_links > 0.5 * one.num_values
    return one.num_images > 0.5 * one.num_values or (
        are_links and _IMAGE_NAME.search(path) is not None
    )


def _point(fields: Mapping[str, _Field], roles: Mapping[str, str]) -> str | None:
    """Return the object of a latitude and a longitude that no setting names; None: there is none.

    None also if items have the geo point that is known without any setting.
    """
    found = [
        path.removesuffix(".lat")
        for path, role in roles.items()
        if path.endswith(".lat") and role == "place"
    ]
    if GEO_FIELD in found:
        return None
    return next((path for path in found if _holds_points(fields, path)), None)


def _holds_points(fields: Mapping[str, _Field], path: str) -> bool:
    """Return whether all objects of a path are a latitude and a longitude, in degrees."""
    lat, lng = (fields.get(f"{path}.{name}") for name in _BOUNDS)
    if lat is None or lng is None or lat.num_items != lng.num_items:
        return False
    return all(
        one.kinds.keys() == {"number"}
        and one.least is not None
        and one.greatest is not None
        and -bound <= one.least <= one.greatest <= bound
        for one, bound in zip((lat, lng), _BOUNDS.values(), strict=True)
    )


def _worth(one: _Field, role: str) -> float:
    """Rate a field as a facet: best if most items have it and it has 2 to 200 values."""
    if role == "range":
        return one.num_items * 0.7
    return one.num_items * (1.0 if role == "tree" or 2 <= len(one.values) <= 200 else 0.75)


def _facet(one: _Field, role: str) -> dict[str, Any]:
    """Return the settings of a facet."""
    settings: dict[str, Any] = {"conjunction": one.num_lists > 0, "hide_zero_doc_count": True}
    if one.kind == "number":
        settings["show_facet_stats"] = True
        if role == "facet":
            settings["sort"] = "key"
    return settings


def _has_intervals(one: _Field) -> bool:
    """Return whether the values of a range are enough to divide."""
    return len(one.values) > 2 and (one.kind == "date" or _step(one) > 0)


def _step(one: _Field) -> float:
    """Return a tenth of the range that a field's numbers cover."""
    if one.least is None or one.greatest is None:
        return 0.0
    return one.greatest / INTERVALS - one.least / INTERVALS


def _range(one: _Field) -> dict[str, Any]:
    """Return intervals of round numbers that divide a field into about ten parts."""
    if one.kind == "date":
        years = {str(value)[:4] for value in one.values}
        return {"calendar": "year" if len(years) > 2 else "month"}
    step = _step(one)
    unit = 10.0 ** floor(log10(step))
    interval = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= step)
    if isinstance(one.least, int) and isinstance(one.greatest, int):
        interval = max(1, round(interval))
    return {"interval": int(interval) if interval >= 1 else interval}


def spread_pages(num_items: int, per_page: int, pages_max: int) -> Iterable[int]:
    """Return page numbers (from 1) spread evenly over an index."""
    num_pages = -(-num_items // per_page)
    if num_pages <= pages_max:
        return range(1, num_pages + 1)
    return sorted({1 + num_pages * i // pages_max for i in range(pages_max)})
