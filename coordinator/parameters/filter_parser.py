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

Keywords may be written in either case. A field or value is a bare word or a quoted text ('…' or
"…", with backslash escapes). A bare value that is a JSON number is a number; a quoted one is
always text.

A recursive-descent parser; nesting and the number of conditions are limited. Every error gives
the position (in characters, from 0) and what was expected there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from common.configuration import GEO_FIELD
from common.errors import InvalidRequest
from common.limits import DEFAULT_LIMITS, Limits
from common.query import (
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
from common.values import INTEGER_MAX, INTEGER_MIN, facet_key
from coordinator.parameters.filter_objects import count_condition
from coordinator.parameters.geo import read_box, read_polygon, read_radius
from coordinator.parameters.kinds import Mistake

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator><=|>=|!=|=|<|>|\(|\)|\[|\]|\{|\}|,)
      | (?P<word>[^\s"'(){}\[\],=<>!]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(
    r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?=[.eE])(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)?\Z"
)
_INTEGER_CHARS_MAX = len(str(INTEGER_MAX))
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
_FUNCTIONS: Final = ("_geoRadius", "_geoBoundingBox", "_geoPolygon", "_count")
_KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "TO", "EXISTS", "IS", "NULL", "EMPTY", "STARTS", "WITH", "CONTAINS")
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """quoted, operator, word or end."""
    text: str
    position: int

    @property
    def keyword(self) -> str | None:
        """The keyword that this bare word is, in upper case."""
        upper = self.text.upper()
        return upper if self.kind == "word" and upper in _KEYWORDS else None

    @property
    def shown(self) -> str:
        """The token as error messages show it."""
        return "the end" if self.kind == "end" else f"'{self.text[:40]}'"


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            what = (
                "a quoted text has no end"
                if text[start] in "\"'"
                else f"unexpected character '{text[start]}'"
            )
            _fail(what, start)
        kind = match.lastgroup or ""
        raw = match.group(kind)
        content = _ESCAPE.sub(r"\1", raw[1:-1]) if kind == "quoted" else raw
        tokens.append(_Token(kind, content, match.start(kind)))
        position = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


def _fail(problem: str, position: int) -> NoReturn:
    raise InvalidRequest(
        f"{problem} at position {position}; valid is for example: "
        'year >= 1990 AND (tags = a OR tags IN [b, "c d"]) AND NOT country = US',
        code="invalid_filter",
        param="filter",
        details={"position": position},
    )


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
        self._tokens = _tokenize(text)
        self._next = 0
        self._num_conditions = 0
        self.outer_ands: list[_Token] = []
        self.has_outer_or = False

    def parse(self) -> Filter:
        node = self._disjunction(0)
        if self._peek().kind != "end":
            _fail(f"expected AND, OR or the end, not {self._peek().shown}", self._peek().position)
        return node

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _take_keyword(self, keyword: str) -> bool:
        if self._peek().keyword == keyword:
            self._next += 1
            return True
        return False

    def _take_operator(self, operator: str) -> bool:
        if self._peek().kind == "operator" and self._peek().text == operator:
            self._next += 1
            return True
        return False

    def _expect_operator(self, operator: str) -> None:
        if not self._take_operator(operator):
            _fail(f"expected '{operator}', not {self._peek().shown}", self._peek().position)

    def _disjunction(self, depth: int) -> Filter:
        children = [self._conjunction(depth)]
        while self._take_keyword("OR"):
            self.has_outer_or |= depth == 0
            children.append(self._conjunction(depth))
        return children[0] if len(children) == 1 else Or(tuple(children))

    def _conjunction(self, depth: int) -> Filter:
        children = [self._negation(depth)]
        while self._take_keyword("AND"):
            if depth == 0:
                self.outer_ands.append(self._tokens[self._next - 1])
            children.append(self._negation(depth))
        return children[0] if len(children) == 1 else And(tuple(children))

    def _negation(self, depth: int) -> Filter:
        if depth > self._limits.filter_depth_max:
            shown = self._limits.shown("filter_depth_max")
            _fail(f"nested deeper than {shown}", self._peek().position)
        if self._take_keyword("NOT"):
            return Not(self._negation(depth + 1))
        if self._take_operator("("):
            node = self._disjunction(depth + 1)
            self._expect_operator(")")
            return node
        return self._condition()

    def _condition(self) -> Filter:
        function = self._peek()
        self._count_towards_limit(function)
        field = self._field()
        token = self._take()
        if token.kind == "operator":
            if token.text == "{":
                return self._element(field, token)
            if token.text == "(" and function.kind == "word":
                return self._call(function)
            return self._comparison(field, token)
        match token.keyword:
            case "NOT":
                return Not(self._word_condition(field, self._take()))
            case None if token.kind in ("word", "quoted"):
                return self._between(field, token)
            case _:
                return self._word_condition(field, token)

    def _element(self, field: str, brace: _Token) -> Filter:
        if self._nested is not None:
            _fail(f"'{field}' is inside of {self._nested!r} already", brace.position)
        self._nested = field
        condition = self._disjunction(1)
        self._expect_operator("}")
        self._nested = None
        return Same(field, condition)

    def _call(self, function: _Token) -> Filter:
        """Parse the rest of a function call, after its parenthesis."""
        if function.text not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            _fail(f"'{function.text[:40]}' is no function; there are {known}", function.position)
        if self._nested is not None:
            _fail(f"{function.text} cannot stand inside of braces", function.position)
        if function.text == "_count":
            return self._count()
        field = self._geo_field
        if self._peek().kind != "operator" and not _NUMBER.match(self._peek().text):
            field = self._field()
            self._expect_operator(",")
        try:
            return self._area(function.text, field)
        except Mistake as mistake:
            _fail(f"{function.text} {mistake.message}", function.position)

    def _area(self, function: str, field: str) -> Filter:
        if function == "_geoRadius":
            lat, lng = self._degrees()
            self._expect_operator(",")
            metres = self._bound()
            self._expect_operator(")")
            return read_radius(field, {"lat": lat, "lng": lng, "metres": metres}, "")
        points = [self._point()]
        while self._take_operator(","):
            points.append(self._point())
        self._expect_operator(")")
        if function == "_geoPolygon":
            return read_polygon(field, points, self._limits, "")
        if len(points) != 2:
            raise Mistake("needs two points: top right, bottom left")
        return read_box(field, {"top_right": points[0], "bottom_left": points[1]}, "")

    def _degrees(self) -> list[Any]:
        lat = self._bound()
        self._expect_operator(",")
        return [lat, self._bound()]

    def _point(self) -> list[Any]:
        self._expect_operator("[")
        point = self._degrees()
        self._expect_operator("]")
        return point

    def _count(self) -> Filter:
        """Parse `field) >= 2`, the rest of a condition after `_count(`."""
        field = self._field()
        self._expect_operator(")")
        operator, number = self._take(), self._value()
        if operator.text not in _COMPARISONS or not _COUNT.match(number.text):
            _fail(f"expected a comparison with a count, as _count({field}) >= 2", operator.position)
        return count_condition(field, operator.text, int(number.text))

    def _comparison(self, field: str, operator: _Token) -> Filter:
        match operator.text:
            case "=":
                return AnyOf(field, (self._key(),))
            case "!=":
                return Not(AnyOf(field, (self._key(),)))
            case "<" | "<=":
                return Range(field, upper=self._bound(), is_upper_open=operator.text == "<")
            case ">" | ">=":
                return Range(field, lower=self._bound(), is_lower_open=operator.text == ">")
            case _:
                _fail(
                    f"expected an operator after '{field}', not {operator.shown}",
                    operator.position,
                )

    def _between(self, field: str, lower: _Token) -> Filter:
        if not self._take_keyword("TO"):
            _fail(
                f"expected =, !=, <, <=, >, >=, IN, EXISTS, IS, STARTS WITH, CONTAINS or a range "
                f"'{field} 1 TO 9' after '{field}', not {lower.shown}",
                lower.position,
            )
        upper = self._value()
        low, high = _bound_of(lower), _bound_of(upper)
        if isinstance(low, str) != isinstance(high, str):
            low, high = lower.text, upper.text
        return Range(field, lower=low, upper=high)

    def _word_condition(self, field: str, token: _Token) -> Filter:
        match token.keyword:
            case "IN":
                return AnyOf(field, self._list())
            case "EXISTS":
                return Exists(field)
            case "IS":
                is_negated = self._take_keyword("NOT")
                what = self._take()
                if what.keyword not in ("NULL", "EMPTY"):
                    _fail(f"expected NULL or EMPTY after IS, not {what.shown}", what.position)
                node: Filter = IsNull(field) if what.keyword == "NULL" else IsEmpty(field)
                return Not(node) if is_negated else node
            case "STARTS":
                if not self._take_keyword("WITH"):
                    position = self._peek().position
                    _fail(f"expected WITH after STARTS, not {self._peek().shown}", position)
                return StartsWith(field, self._value().text)
            case "CONTAINS":
                return Contains(field, self._value().text)
            case _:
                _fail(
                    f"expected IN, EXISTS, IS, STARTS WITH or CONTAINS after '{field}', "
                    f"not {token.shown}",
                    token.position,
                )

    def _list(self) -> tuple[str, ...]:
        self._expect_operator("[")
        if self._take_operator("]"):
            return ()
        keys = [self._listed()]
        while self._take_operator(","):
            keys.append(self._listed())
        self._expect_operator("]")
        return tuple(keys)

    def _listed(self) -> str:
        self._count_towards_limit(self._peek())
        return self._key()

    def _field(self) -> str:
        token = self._take()
        if token.kind not in ("word", "quoted") or token.keyword:
            _fail(f"expected the name of a field, not {token.shown}", token.position)
        return token.text if self._nested is None else f"{self._nested}.{token.text}"

    def _value(self) -> _Token:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            _fail(f"expected a value, not {token.shown}", token.position)
        return token

    def _count_towards_limit(self, token: _Token) -> None:
        self._num_conditions += 1
        if self._num_conditions > self._limits.filter_conditions_max:
            shown = self._limits.shown("filter_conditions_max")
            _fail(f"more than {shown} conditions and listed values", token.position)

    def _key(self) -> str:
        token = self._value()
        bound = _bound_of(token)
        return token.text if isinstance(bound, str) else facet_key(bound) or token.text

    def _bound(self) -> int | float | str:
        return _bound_of(self._value())


def _bound_of(token: _Token) -> int | float | str:
    """Return a bare word that is a number as a number, anything else as text.

    An integer stays an integer within the range that items have (as the JSON decoder reads them);
    greater ones become doubles, as they do in items.
    """
    if token.kind == "word" and (number_parts := _NUMBER.match(token.text)):
        if number_parts["fraction"] is None and len(token.text) <= _INTEGER_CHARS_MAX:
            integer = int(token.text)
            if INTEGER_MIN <= integer <= INTEGER_MAX:
                return integer
        number = float(token.text)
        if number in (float("inf"), float("-inf")):
            _fail("a number is too large", token.position)
        return number
    return token.text


def split_conjunction(text: str, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """Return the parts that AND joins at the top level of a filter expression; one if OR does.

    Raises:
        InvalidRequest: code `invalid_filter`, as `parse_filter`.
    """
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
        _fail(f"longer than {shown} characters", limits.filter_expression_chars_max)
    if not text.strip():
        return And(())
    return _ExpressionParser(text, limits, geo_field).parse()
