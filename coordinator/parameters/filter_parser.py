"""The filter expression language: text → `Filter` (pure).

    year >= 1990 AND (tags = a OR tags IN [b, "c d"]) AND NOT country = US
    rating 7 TO 9          director EXISTS        poster IS NULL        tags IS NOT EMPTY
    name STARTS WITH "the" name CONTAINS king     tags NOT IN [a, b]    country != US

    expression   disjunction
    disjunction  conjunction ( OR conjunction )*
    conjunction  negation ( AND negation )*
    negation     NOT negation | "(" disjunction ")" | condition
    condition    field ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
               | field value TO value                       both ends inclusive
               | field [NOT] IN "[" value ( "," value )* "]"
               | field [NOT] EXISTS | field IS [NOT] ( NULL | EMPTY )
               | field [NOT] ( STARTS WITH | CONTAINS ) value
               | field "{" disjunction "}"                  within one element of a nested field
               | "_geoRadius" "(" [field ","] lat "," lng "," metres ")"
               | "_geoBoundingBox" "(" [field ","] point "," point ")"     top right, bottom left
               | "_geoPolygon" "(" [field ","] point "," point "," point … ")"
               | "_count" "(" field ")" ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) number
    point        "[" lat "," lng "]"

A field or value is a bare word or a quoted text; `filter_tokens` cuts the text into these.

A recursive-descent parser; nesting and the number of conditions are limited. Every error gives
the position (in characters, from 0) and what was expected there.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Final

from common.index_configuration import GEO_FIELD
from common.limits import DEFAULT_LIMITS, Limits
from common.query_syntax_tree import (
    And,
    AnyOf,
    Contains,
    Exists,
    Filter,
    IsEmpty,
    IsNull,
    Not,
    Or,
    Range,
    Same,
    StartsWith,
)
from common.value_kinds_and_facet_keys import facet_key
from coordinator.parameters.filter_objects import count_condition
from coordinator.parameters.filter_tokens import FilterToken, FilterTokens, invalid_filter
from coordinator.parameters.geo import check_corners, read_box, read_polygon, read_radius
from coordinator.parameters.value_parsers import Mistake

_COUNT = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
_FOREIGN: Final = MappingProxyType(
    {"==": "=", "!==": "!=", "<>": "!=", "=>": ">=", "=<": "<=", "=[": "IN ["}
)
"""Operators of other languages, with what stands for each here."""
_FUNCTIONS: Final = ("_geoRadius", "_geoBoundingBox", "_geoPolygon", "_count")


class _ExpressionParser:
    """One pass over the tokens; each method parses one rule of the grammar and returns its node.

    Attributes:
        outer_ands: those outside of parentheses and braces.
        has_outer_or: whether an OR is outside of them.
    """

    def __init__(self, text: str, limits: Limits, geo_field: str) -> None:
        self._limits = limits
        self._geo_field = geo_field
        self._nested: str | None = None
        self._tokens = FilterTokens(text)
        self._num_conditions = 0
        self.outer_ands: list[FilterToken] = []
        self.has_outer_or = False

    def parse(self) -> Filter:
        node = self._disjunction(0)
        if self._tokens.next.kind == "word":
            raise self._tokens.unexpected(
                "AND, OR, the end, or quotes around a text of several words"
            )
        if self._tokens.next.kind != "end":
            raise self._tokens.unexpected("AND, OR or the end")
        return node

    def _disjunction(self, depth: int) -> Filter:
        children = [self._conjunction(depth)]
        while self._tokens.take_keyword("OR"):
            self.has_outer_or |= depth == 0
            children.append(self._conjunction(depth))
        return children[0] if len(children) == 1 else Or(tuple(children))

    def _conjunction(self, depth: int) -> Filter:
        children = [self._negation(depth)]
        while (token := self._tokens.next).keyword == "AND":
            self._tokens.take()
            if depth == 0:
                self.outer_ands.append(token)
            children.append(self._negation(depth))
        return children[0] if len(children) == 1 else And(tuple(children))

    def _negation(self, depth: int) -> Filter:
        if depth > self._limits.filter_depth_max:
            shown = self._limits.shown("filter_depth_max")
            raise invalid_filter(f"nested deeper than {shown}", self._tokens.next.position)
        if self._tokens.take_keyword("NOT"):
            return Not(self._negation(depth + 1))
        if self._tokens.take_operator("("):
            node = self._disjunction(depth + 1)
            self._tokens.expect_operator(")")
            return node
        return self._condition()

    def _condition(self) -> Filter:
        function = self._tokens.next
        self._count_towards_limit(function)
        field = self._field()
        token = self._tokens.take()
        if token.kind == "operator":
            if token.text == "{":
                return self._element(field, token)
            if token.text == "(" and function.kind == "word":
                return self._call(function)
            return self._comparison(field, token)
        match token.keyword:
            case "NOT":
                return Not(self._word_condition(field, self._tokens.take()))
            case None if token.kind in ("word", "quoted"):
                return self._between(field, token)
            case _:
                return self._word_condition(field, token)

    def _element(self, field: str, brace: FilterToken) -> Filter:
        if self._nested is not None:
            raise invalid_filter(f"'{field}' is inside of {self._nested!r} already", brace.position)
        self._nested = field
        condition = self._disjunction(1)
        self._tokens.expect_operator("}")
        self._nested = None
        return Same(field, condition)

    def _call(self, function: FilterToken) -> Filter:
        """Parse the rest of a function call, after its parenthesis."""
        if function.text not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            raise invalid_filter(
                f"'{function.text[:40]}' is not a function; there are {known}", function.position
            )
        if self._nested is not None:
            raise invalid_filter(
                f"{function.text} cannot stand inside of braces", function.position
            )
        if function.text == "_count":
            return self._count()
        field = self._geo_field
        if self._tokens.next.kind != "operator" and not self._tokens.next.looks_like_number:
            field = self._field()
            self._tokens.expect_operator(",")
        try:
            return self._area(function.text, field)
        except Mistake as mistake:
            raise invalid_filter(
                f"{function.text} {mistake.message}", function.position
            ) from mistake

    def _area(self, function: str, field: str) -> Filter:
        if function == "_geoRadius":
            lat, lng = self._degrees()
            self._tokens.expect_operator(",")
            metres = self._bound()
            self._tokens.expect_operator(")")
            return read_radius(field, {"lat": lat, "lng": lng, "metres": metres}, "")
        points = [self._point()]
        while self._tokens.take_operator(","):
            points.append(self._point())
            check_corners(points, self._limits)
        self._tokens.expect_operator(")")
        if function == "_geoPolygon":
            return read_polygon(field, points, self._limits, "")
        if len(points) != 2:
            raise Mistake("needs two points: top right, bottom left")
        return read_box(field, {"top_right": points[0], "bottom_left": points[1]}, "")

    def _degrees(self) -> list[Any]:
        lat = self._bound()
        self._tokens.expect_operator(",")
        return [lat, self._bound()]

    def _point(self) -> list[Any]:
        self._tokens.expect_operator("[")
        point = self._degrees()
        self._tokens.expect_operator("]")
        return point

    def _count(self) -> Filter:
        """Parse `field) >= 2`, the rest of a condition after `_count(`."""
        field = self._field()
        self._tokens.expect_operator(")")
        operator, number = self._tokens.take(), self._tokens.take_value()
        if operator.text not in _COMPARISONS or not _COUNT.match(number.text):
            raise invalid_filter(
                f"expected a comparison with a count, as _count({field}) >= 2", operator.position
            )
        return count_condition(field, operator.text, int(number.text))

    def _comparison(self, field: str, operator: FilterToken) -> Filter:
        if self._tokens.next.kind == "operator":
            foreign = operator.text + self._tokens.next.text
            if foreign in _FOREIGN:
                raise invalid_filter(
                    f"expected an operator, not '{foreign}', for which {_FOREIGN[foreign]} stands "
                    "here,",
                    operator.position,
                )
        match operator.text:
            case "=":
                return AnyOf(field, self._keys())
            case "!=":
                return Not(AnyOf(field, self._keys()))
            case "<" | "<=":
                return Range(field, upper=self._bound(), is_upper_open=operator.text == "<")
            case ">" | ">=":
                return Range(field, lower=self._bound(), is_lower_open=operator.text == ">")
            case _:
                raise invalid_filter(
                    f"expected an operator after '{field}', not {operator.shown}"
                    f"{_equality_meant(field)}",
                    operator.position,
                )

    def _between(self, field: str, lower: FilterToken) -> Filter:
        if not self._tokens.take_keyword("TO"):
            raise invalid_filter(
                f"expected =, !=, <, <=, >, >=, IN, EXISTS, IS, STARTS WITH, CONTAINS or a range "
                f"'{field} 1 TO 9' after '{field}', not {lower.shown}{_equality_meant(field)}",
                lower.position,
            )
        upper = self._tokens.take_value()
        low, high = lower.value, upper.value
        if isinstance(low, str) != isinstance(high, str):
            low, high = lower.text, upper.text
        return Range(field, lower=low, upper=high)

    def _word_condition(self, field: str, token: FilterToken) -> Filter:
        match token.keyword:
            case "IN":
                return AnyOf(field, self._list())
            case "EXISTS":
                return Exists(field)
            case "IS":
                is_negated = self._tokens.take_keyword("NOT")
                what = self._tokens.take()
                if what.keyword not in ("NULL", "EMPTY"):
                    raise invalid_filter(
                        f"expected NULL or EMPTY after IS, not {what.shown}", what.position
                    )
                node: Filter = IsNull(field) if what.keyword == "NULL" else IsEmpty(field)
                return Not(node) if is_negated else node
            case "STARTS":
                if not self._tokens.take_keyword("WITH"):
                    raise self._tokens.unexpected("WITH after STARTS")
                return StartsWith(field, self._tokens.take_value().text)
            case "CONTAINS":
                return Contains(field, self._tokens.take_value().text)
            case _:
                raise invalid_filter(
                    f"expected IN, EXISTS, IS, STARTS WITH or CONTAINS after '{field}', "
                    f"not {token.shown}{_equality_meant(field)}",
                    token.position,
                )

    def _list(self) -> tuple[str, ...]:
        self._tokens.expect_operator("[")
        if self._tokens.take_operator("]"):
            return ()
        keys = [*self._listed()]
        while self._tokens.take_operator(","):
            keys += self._listed()
        self._tokens.expect_operator("]")
        return tuple(keys)

    def _listed(self) -> tuple[str, ...]:
        self._count_towards_limit(self._tokens.next)
        return self._keys()

    def _field(self) -> str:
        token = self._tokens.take()
        if token.kind not in ("word", "quoted") or token.keyword:
            raise invalid_filter(f"expected the name of a field, not {token.shown}", token.position)
        return token.text if self._nested is None else f"{self._nested}.{token.text}"

    def _count_towards_limit(self, token: FilterToken) -> None:
        self._num_conditions += 1
        if self._num_conditions > self._limits.filter_conditions_max:
            shown = self._limits.shown("filter_conditions_max")
            raise invalid_filter(f"more than {shown} conditions and listed values", token.position)

    def _keys(self) -> tuple[str, ...]:
        """Read a value; a bare integer beyond those that items have is a text of digits, too."""
        token = self._tokens.take_value()
        value = token.value
        if isinstance(value, str):
            return (token.text,)
        key = facet_key(value) or token.text
        return (key, token.text) if token.is_long_integer and key != token.text else (key,)

    def _bound(self) -> int | float | str:
        return self._tokens.take_value().value


def _equality_meant(field: str) -> str:
    """Return a hint if what was read as a field is a condition of another language: year:1951."""
    name, colon, value = field.partition(":")
    return f" (equality is written {name[:40]} = {value[:40] or '…'})" if colon and name else ""


def split_conjunction(text: str, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """Return the parts that AND joins at the top level of a filter expression.

    One if OR joins them, none of a blank expression.

    Raises:
        InvalidRequest: code `invalid_filter`, as `parse_filter`.
    """
    if not text.strip():
        return []
    parser = _ExpressionParser(text, limits, GEO_FIELD)
    parser.parse()
    starts = [0, *[token.position + len(token.text) for token in parser.outer_ands]]
    ends = [*[token.position for token in parser.outer_ands], len(text)]
    if parser.has_outer_or:
        return [text.strip()]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def parse_filter(text: str, limits: Limits = DEFAULT_LIMITS, geo_field: str = GEO_FIELD) -> Filter:
    """Parse a filter expression.

    Args:
        text: the expression; blank means no restriction.
        limits: on its length, depth and number of conditions.
        geo_field: the default field of points.

    Returns:
        The filter's syntax tree; fields and values are not checked against any index.

    Raises:
        InvalidRequest: code `invalid_filter`, with the position in `details`.
    """
    if len(text) > limits.filter_expression_chars_max:
        shown = limits.shown("filter_expression_chars_max")
        raise invalid_filter(f"longer than {shown} characters", limits.filter_expression_chars_max)
    if not text.strip():
        return And(())
    return _ExpressionParser(text, limits, geo_field).parse()
