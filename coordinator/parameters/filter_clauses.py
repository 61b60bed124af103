"""The conditions of a search: `filters`, `not_filters`, `filter`, and the chosen nodes of trees.

    filters      {"tags": ["a"], "category": ["Books > Novels"], "variants": {"same": {…}}}
    not_filters  {"brand": ["b"]}                         ─▶ clauses that an item must all meet
    filter       'year >= 1990 AND variants{size = M}'

A clause names the facet whose counts leave it out: a disjunctive facet, range or tree counts the
hits that there would be with another choice in it. Two things are collected along with the clauses:
the values that facets show as selected, and the fields that items must have.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from common.index_configuration import FacetConfiguration, IndexConfiguration
from common.limits import Limits
from common.protocol.messages import FilterClause, elements_of
from common.query_syntax_tree import And, AnyOf, Filter, Not, Or, Same, Under
from coordinator.parameters.facet_specs import level_of
from coordinator.parameters.filter_objects import (
    OBJECT_KEYS,
    FilterObjects,
    check_objects,
    scalar_fields_of,
    tested_fields_of,
)
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.parameters_of_other_engines import MISPLACED
from coordinator.parameters.sort_keys import geo_field_of
from coordinator.parameters.value_parsers import Mistake, check_field, text


class Conditions:
    """Collects the conditions of one request.

    Attributes:
        clauses: every one must be met.
        selected: by facet, the values that `filters` requires.
        fields: fields to check for values that can be compared, with the parameter that names each.
        tested_fields: fields that are tested for existence, and those of `not_filters`, likewise:
            if no item has one, the condition holds for all items, or for none.
        chosen_nodes: of each tree, those that `filters` requires.
        objects: reads the values of all conditions, whose number is limited.
    """

    __slots__ = (
        "_configuration",
        "_limits",
        "_same",
        "chosen_nodes",
        "clauses",
        "fields",
        "objects",
        "selected",
        "tested_fields",
    )

    def __init__(self, configuration: IndexConfiguration, limits: Limits) -> None:
        self.clauses: list[FilterClause] = []
        self.selected: dict[str, frozenset[str]] = {}
        self.fields: dict[str, str] = {}
        self.tested_fields: dict[str, str] = {}
        self.chosen_nodes: dict[str, frozenset[str]] = {}
        self.objects = FilterObjects(limits)
        self._configuration = configuration
        self._limits = limits
        self._same: dict[str, dict[str, Filter]] = {}

    def require(
        self,
        value: Any,
        facets: Mapping[str, FacetConfiguration],
        field_facets: Mapping[str, FacetConfiguration],
        ranges: Container[str],
        cube_field: str | None,
    ) -> None:
        """Read `filters`.

        Args:
            value: of the parameter.
            facets: configured facets, with the options of the request.
            field_facets: facets of the request alone.
            ranges: fields whose ranges are counted.
            cube_field: the brushed field of `facet_cube`, if there is one.

        Raises:
            Mistake: the value is invalid.
        """
        if isinstance(value, str):
            raise Mistake(f"must be an object of values by field; {MISPLACED['filters']}")
        for name, wanted in self.objects.fields(value).items():
            path = f".{name[:100]}"
            check_field(name, self._limits, path)
            if name in self._configuration.hierarchies:
                self._require_nodes(name, wanted, path)
                continue
            if isinstance(wanted, dict) and wanted.get("same") is not None:
                self._require_same(name, wanted["same"], facets, f"{path}.same")
            facet = facets.get(name)
            shown = field_facets.get(name) if facet is None else facet
            is_any = shown is None or not shown.conjunction
            keys: list[str] = []
            condition = self.objects.condition(name, wanted, is_any, path, keys)
            if condition is None:
                continue
            check_objects(condition, self._configuration, path)
            if facet is None and not _is_of_objects(wanted):
                self._name_fields(condition, f"filters.{name}")
            if shown is not None and keys:
                self._select(name, keys)
            is_left_out = name == cube_field or (is_any and (shown is not None or name in ranges))
            self.clauses.append(FilterClause(condition, name if is_left_out else None))

    def exclude(self, value: Any) -> None:
        """Read `not_filters`.

        Raises:
            Mistake: the value is invalid.
        """
        for name, unwanted in self.objects.fields(value).items():
            path = f".{name[:100]}"
            check_field(name, self._limits, path)
            if name in self._configuration.hierarchies:
                if nodes := self.objects.nodes(unwanted, path):
                    self.clauses.append(FilterClause(Not(self._at_or_below(name, nodes))))
                continue
            if isinstance(unwanted, dict) and unwanted.get("same") is not None:
                raise Mistake("is possible in `filters` only", path=f"{path}.same")
            condition = self.objects.condition(name, unwanted, True, path, [])
            if condition is None:
                continue
            check_objects(condition, self._configuration, path)
            if name not in self._configuration.facets and not _is_of_objects(unwanted):
                self.tested_fields.setdefault(name, f"not_filters.{name}")
            self.clauses.append(FilterClause(Not(condition)))

    def require_expression(self, value: Any, facets: Container[str]) -> None:
        """Read `filter`.

        Raises:
            Mistake: the value is invalid.
        """
        if isinstance(value, dict):
            raise Mistake("must be an expression such as year >= 1990; filters takes an object")
        if isinstance(value, list):
            raise Mistake("must be one text; join conditions by AND or OR")
        condition = parse_filter(
            text(value, "filter_expression_chars_max", self._limits),
            self._limits,
            geo_field_of(self._configuration),
        )
        check_objects(condition, self._configuration)
        self._name_fields(condition, "filter", facets)
        self.clauses.append(FilterClause(condition))

    # --- elements of nested fields

    def element(self, nested: str, without: str | None = None) -> Same:
        """Return the conditions of `filters` on one element, except those on field `without`."""
        conditions = self._same.get(nested, {})
        return Same(nested, And(tuple(one for name, one in conditions.items() if name != without)))

    def nested_field_of(self, name: str) -> str | None:
        """Return the innermost nested field that contains a field, if any."""
        nested = [one for one in self._configuration.nested if name.startswith(f"{one}.")]
        return max(nested, key=len, default=None)

    def facets_within(
        self, facets: Mapping[str, FacetConfiguration], *, is_strict: bool
    ) -> dict[str, Same]:
        """Return, by facet inside a nested field, the elements that it counts.

        These match all conditions on one element, except a disjunctive facet's own.
        """
        within = {}
        for name, facet in facets.items() if self._same else ():
            nested = self.nested_field_of(name)
            if nested in self._same:
                leaves_out_own = not facet.conjunction and not is_strict
                within[name] = self.element(nested, name if leaves_out_own else None)
        return within

    def range_within(
        self, name: str, options: Mapping[str, Any], *, leaves_out_own: bool
    ) -> Same | None:
        """Return the elements whose numbers the ranges of a field count; None: all elements."""
        nested = self.nested_field_of(name) if self._same else None
        bounds = [one for pair in options.get("bounds", ()) for one in pair]
        if nested not in self._same or not (bounds or options.get("interval")):
            return None
        if any(isinstance(one, str) for one in bounds):
            return None
        return self.element(nested, name if leaves_out_own else None)

    def _require_same(
        self, nested: str, wanted: Any, facets: Mapping[str, FacetConfiguration], path: str
    ) -> None:
        """Read the conditions that one element of a nested field must meet."""
        conditions: dict[str, Filter] = {}
        for name, (values, inner_path) in self.objects.same(nested, wanted, path).items():
            check_field(name, self._limits, inner_path)
            if isinstance(values, dict) and values.get("same") is not None:
                raise Mistake("is inside of same already", path=f"{inner_path}.same")
            facet = facets.get(name)
            keys: list[str] = []
            condition = self.objects.condition(
                name, values, facet is None or not facet.conjunction, inner_path, keys
            )
            if condition is None:
                continue
            check_objects(Same(nested, condition), self._configuration, inner_path)
            if facet is None:
                self._name_fields(condition, f"filters{inner_path}")
            elif keys:
                self._select(name, keys)
            conditions[name] = condition
        if conditions:
            self._same[nested] = conditions
            self.clauses.append(FilterClause(self.element(nested), elements_of(nested)))

    def _name_fields(self, condition: Filter, param: str, facets: Container[str] = ()) -> None:
        """Note the fields of a condition, except facets, with the parameter that names them."""
        for named, fields in (
            (self.fields, scalar_fields_of(condition)),
            (self.tested_fields, tested_fields_of(condition)),
        ):
            for field in fields:
                if field not in facets:
                    named.setdefault(field, param)

    def _select(self, facet: str, keys: list[str]) -> None:
        self.selected[facet] = self.selected.get(facet, frozenset()).union(keys)

    def _require_nodes(self, name: str, wanted: Any, path: str) -> None:
        """Read the chosen nodes of a tree; an item must be at or below one of them."""
        nodes = self.objects.nodes(wanted, path)
        if nodes:
            self.chosen_nodes[name] = frozenset(nodes)
            self.clauses.append(FilterClause(self._at_or_below(name, nodes), name))

    def _at_or_below(self, name: str, nodes: tuple[str, ...]) -> Filter:
        tree = self._configuration.hierarchies[name]
        if tree.is_of_paths:
            return Under(tree.levels[0], nodes, tree.separator)
        by_level: dict[str, list[str]] = {}
        for node in nodes:
            level = tree.levels[level_of(node, tree.separator, len(tree.levels))]
            by_level.setdefault(level, []).append(node)
        return Or(tuple([AnyOf(level, tuple(ones)) for level, ones in by_level.items()]))


def _is_of_objects(wanted: Any) -> bool:
    """Return whether a condition is about points or elements only, not about values."""
    return isinstance(wanted, dict) and set(wanted) <= OBJECT_KEYS
