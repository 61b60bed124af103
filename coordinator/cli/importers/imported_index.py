"""An index as an importer returns it: items, converted configuration, notes on what is lost."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from common.analysis.typo_budget import TYPO_LENGTHS_DEFAULT
from common.index_configuration import GEO_FIELD
from common.search_option_parsers import parse_typo_lengths
from coordinator.cli.importers.geo_point_conversion import as_point, point_fields
from coordinator.cli.sources.exact_json_codec import pieces_of
from coordinator.cli.sources.source import SourceError, counted

FACET_SIZE_MAX: Final = 1_000
OWN_ID: Final = "own_id"
"""The field that keeps an item's `id`, if another field is its id."""


@dataclass(slots=True)
class ImportedIndex:
    """One index of another engine.

    Attributes:
        name: its name there.
        items: yields the items, each with its `id`.
        configuration: the settings that have an equivalent.
        notes: the settings that have none, each with what to do instead.
        has_longitude_first: whether a point of two numbers begins with the longitude.
        vector_fields: paths of embeddings, which are left out of the items.
        is_open: whether the source leaves facets open, so that they are proposed from the items.
        num_own_ids: of items so far, each with a field `id` in addition to its id.
        num_vectors: items so far with embeddings.
        num_no_points: values so far that are not points, in fields of points.
    """

    name: str
    items: Callable[[], Iterable[dict[str, Any]]]
    configuration: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    has_longitude_first: bool = False
    vector_fields: list[str] = field(default_factory=list)
    is_open: bool = False
    num_own_ids: int = 0
    num_vectors: int = 0
    num_no_points: int = 0

    def with_id(
        self, item: Mapping[str, Any], value: Any, former: str, *, keeps_former: bool = False
    ) -> dict[str, Any]:
        """Return an item with its id under our name, and its points in our form.

        Args:
            item: as the other engine has it.
            value: its id.
            former: the field of the id there.
            keeps_former: whether that field is one of its own as well.

        Raises:
            SourceError: it has no value that is valid as an id.
        """
        if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
            raise SourceError(
                f"an item has no {former!r} that can be its id: {str(dict(item))[:100]}"
            )
        if isinstance(value, int) and value < 0:
            value = str(value)
        dropped = ("id",) if keeps_former else ("id", former)
        result = {"id": value, **{name: one for name, one in item.items() if name not in dropped}}
        own = item.get("id")
        if own is not None and str(own) != str(value):
            self.num_own_ids += 1
            result.setdefault(OWN_ID, own)
        return self.converted(result)

    def converted(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an item without embeddings, and with its points as {"lat": …, "lng": …}."""
        without = item
        for path in self.vector_fields:
            without = _without(without, path.split("."))
        self.num_vectors += without is not item
        item = without
        for path in (*self.configuration.get("geo_fields", ()), "_geo"):
            item = self._with_points(item, path.split("."))
        return item

    def _with_points(self, value: Any, names: list[str]) -> Any:
        if isinstance(value, list) and names:
            return [self._with_points(one, names) for one in value]
        if names:
            if not isinstance(value, dict) or names[0] not in value:
                return value
            return {**value, names[0]: self._with_points(value[names[0]], names[1:])}
        if value is None:
            return None
        found = as_point(value, has_longitude_first=self.has_longitude_first)
        if found is not None:
            return found
        if isinstance(value, list) and any(isinstance(one, (list, dict, str)) for one in value):
            return [self._with_points(one, names) for one in value]
        self.num_no_points += 1
        return value

    def find_points(self, sample: Iterable[Mapping[str, Any]]) -> None:
        """Take fields whose values are all {"lat", "lon"} for points, as no setting says so."""
        found = point_fields(sample)
        known = self.configuration.get("geo_fields", [GEO_FIELD])
        unnamed = [path for path in found if path not in known]
        if unnamed:
            seen = [path for path in known if path in found]
            named = self.configuration.get("geo_fields", seen)
            self.configuration["geo_fields"] = list(dict.fromkeys((*seen, *unnamed, *named)))
            self.notes.append(f"{', '.join(unnamed)}: taken for geo points, by their values")

    def remarks(self) -> list[str]:
        """Return what was noticed among the items."""
        found = []
        if self.num_own_ids:
            found.append(
                f"{counted(self.num_own_ids, 'item')} had another value in a field id: "
                f"it is {OWN_ID} now"
            )
        if self.num_vectors:
            found.append(f"{counted(self.num_vectors, 'item')} had embeddings, which are left out")
        if self.num_no_points == 1:
            found.append(
                "1 value in a field of points is none: it is kept, and found by no distance"
            )
        elif self.num_no_points:
            found.append(
                f"{self.num_no_points:,} values in fields of points are none: they are kept, and "
                "found by no distance"
            )
        return found

    def pieces(self) -> Iterator[bytes]:
        """Yield the items as JSON, one per line."""
        return pieces_of(self.items())

    def note_rest(self, settings: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every setting that has a value and was not converted."""
        for name in sorted(set(settings) - set(known)):
            if settings[name] not in (None, [], {}, "", False):
                self.notes.append(f"{name}: has no equivalent here, left out")


def _without(value: Any, names: list[str]) -> Any:
    """Return a value without what is at a path; the value itself, if there is nothing."""
    if isinstance(value, list):
        inner = [_without(one, names) for one in value]
        return value if all(map(operator.is_, inner, value)) else inner
    if not isinstance(value, dict) or names[0] not in value:
        return value
    rest = {name: one for name, one in value.items() if name != names[0]}
    if len(names) == 1:
        return rest
    kept = _without(value[names[0]], names[1:])
    return value if kept is value[names[0]] else {**rest, names[0]: kept}


def add_typos(
    imported: ImportedIndex, one_typo: object, two_typos: object, exact_fields: object, source: str
) -> None:
    """Add typo lengths, and fields without typos, to the configuration of an import.

    Args:
        imported: to add to.
        one_typo: letters from which on a word may have one typo; None: not said.
        two_typos: the same for two.
        exact_fields: fields without typos.
        source: names the setting in a note, if its lengths are none here.
    """
    configuration = imported.configuration
    if one_typo is not None or two_typos is not None:
        lengths = [
            given if given is not None else usual
            for given, usual in zip((one_typo, two_typos), TYPO_LENGTHS_DEFAULT, strict=True)
        ]
        if parse_typo_lengths(lengths) is None:
            imported.notes.append(f"{source}: {lengths} are not typo_lengths here, left out")
        elif lengths != list(TYPO_LENGTHS_DEFAULT):
            configuration["typo_lengths"] = lengths
    if exact_fields and isinstance(exact_fields, list):
        configuration["field_typo_lengths"] = {str(name): "none" for name in exact_fields}


def weighted(names: Iterable[str]) -> list[str]:
    """Return fields, ordered by importance, with decreasing weights."""
    listed = list(dict.fromkeys(names))
    return [
        f"{name}^{len(listed) - i}" if i < len(listed) - 1 else name
        for i, name in enumerate(listed)
    ]
