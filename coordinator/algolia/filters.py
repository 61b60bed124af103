"""Algolia's four ways to restrict a search, as filter nodes (pure).

    filters         'brand:Apple AND (price < 10 OR price:20 TO 30) AND NOT _tags:old'
    facetFilters    ["brand:Apple", ["color:red", "color:-blue"]]   outer AND, inner OR, - NOT
    numericFilters  ["price >= 10", ["year:1990 TO 1999", "year = 2024"]]
    tagFilters      ["book", ["new", "-used"]]                      values of the field _tags

The last three may also be texts: JSON, or the older form "a:1,(b:2,b:3)", in which commas mean AND
and parentheses enclose alternatives. Fields in filters need not be facets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from common.limits import Limits
from common.query_syntax_tree import And, AnyOf, Filter, Not, Or, Range
from common.value_kinds_and_facet_keys import facet_key
from coordinator.parameters.value_parsers import Mistake, json_of_text

TAGS: Final = "_tags"
"""The field of tags: for `tagFilters`, and for values without a field in `filters`."""

_OBJECT_ID: Final = "objectID"
"""Can be filtered by without being a facet; it is our field `id`."""

_SCORE: Final = re.compile(r"<score=[0-9]+>\Z")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z", re.ASCII)
_OPERATOR: Final = re.compile(r"<=|>=|!=|=|<|>")
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator><=|>=|!=|[=<>():])
      | (?P<word>[^\s"'():=<>!]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class FacetFilter(NamedTuple):
    """One `field:value` of facetFilters."""

    field: str
    value: str
    is_negative: bool

    @property
    def condition(self) -> Filter:
        """The filter node."""
        node = AnyOf(self.field, (self.value,))
        return Not(node) if self.is_negative else node


def _field(name: str) -> str:
    """Return our name of a field."""
    return "id" if name == _OBJECT_ID else name


def number_of(text: str) -> int | float | None:
    """Parse a number exactly; None if the text is not a number or too large."""
    if not _NUMBER.match(text):
        return None
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= 20 and -(2**63) <= int(text) < 2**64 else None
    number = float(text)
    return number if abs(number) != float("inf") else None


# --- lists of texts, or of lists of texts -----------------------------------------------------


def groups_of(value: Any, limits: Limits) -> list[list[str]]:
    """Read a list whose elements are texts or lists of alternatives.

    Args:
        value: the list, or one of its text forms (see the module).
        limits: bounds the number of texts.

    Returns:
        The groups: all of them must match, each by at least one of its texts.

    Raises:
        Mistake: it has another form.
    """
    if isinstance(value, str):
        value = json_of_text(value) if value[:1] == "[" else list(_older_form(value))
    if not isinstance(value, list):
        raise Mistake('must be a list such as ["brand:Apple", ["color:red", "color:blue"]]')
    groups = [one if isinstance(one, list) else [one] for one in value]
    if not all(isinstance(text, str) for group in groups for text in group):
        raise Mistake("must be a list of texts, or of lists of texts; it is nested no deeper")
    if sum(map(len, groups)) > limits.filter_values_max:
        raise Mistake(
            f"has more than {limits.shown('filter_values_max')} values",
            code="too_many_filter_values",
        )
    return [[str(text) for text in group] for group in groups if group]


def _older_form(text: str) -> Iterator[list[str]]:
    """Yield the groups of "a:1,(b:2,b:3)"."""
    for part in re.findall(r"\(([^()]*)\)|([^,()]+)", text):
        inside, alone = part
        texts = [one.strip() for one in (inside.split(",") if inside else [alone])]
        texts = [one for one in texts if one]
        if texts:
            yield texts


def facet_filter(text: str) -> FacetFilter:
    r"""Read "field:value" or "field:-value"; "\-value" is a value that starts with a dash.

    Raises:
        Mistake: there is no colon, or a score.
    """
    field, colon, value = text.partition(":")
    field = field.strip()
    if not colon or not field:
        raise Mistake(f'must have texts such as "brand:Apple", not {text[:100]!r}')
    is_negative = field.startswith("-")
    if is_negative:
        field = field[1:]
    if _SCORE.search(value):
        raise Mistake(f"cannot give scores to values ({text[:100]!r}); leave out <score=…>")
    if value.startswith("-"):
        is_negative, value = not is_negative, value[1:]
    elif value.startswith("\\-"):
        value = value[1:]
    return FacetFilter(_field(field), value, is_negative)


def facet_condition(group: Sequence[FacetFilter]) -> Filter:
    """Return the filter of one group: any of its texts matches."""
    fields = {one.field for one in group}
    if len(fields) == 1 and not any(one.is_negative for one in group):
        return AnyOf(group[0].field, tuple(dict.fromkeys(one.value for one in group)))
    return _any_of([one.condition for one in group])


def numeric_filters(value: Any, limits: Limits) -> list[Filter]:
    """Read `numericFilters`; all filters returned must match."""
    return _grouped(value, limits, _numeric_condition)


def tag_filters(value: Any, limits: Limits) -> list[Filter]:
    """Read `tagFilters`; all filters returned must match."""
    return _grouped(value, limits, lambda text: facet_filter(f"{TAGS}:{text}").condition)


def _grouped(value: Any, limits: Limits, read: Callable[[str], Filter]) -> list[Filter]:
    return [_any_of([read(text) for text in group]) for group in groups_of(value, limits)]


def _numeric_condition(text: str) -> Filter:
    """Read "price >= 10", "price:10 TO 20" or "price = 3"."""
    field, _, rest = text.partition(":")
    bounds = rest.split()
    if field.strip() and len(bounds) == 3 and bounds[1] == "TO":
        low, high = number_of(bounds[0]), number_of(bounds[2])
        if low is not None and high is not None:
            return Range(_field(field.strip()), lower=low, upper=high)
    operator = _OPERATOR.search(text)
    if operator is not None and (field := text[: operator.start()].strip()):
        number = number_of(text[operator.end() :].strip())
        if number is not None:
            return _compared(_field(field), operator[0], number)
    raise Mistake(
        f'must have comparisons such as "price>=10" or "price:10 TO 20", not {text[:100]!r}'
    )


def _compared(field: str, operator: str, number: int | float) -> Filter:
    match operator:
        case "<" | "<=":
            return Range(field, upper=number, is_upper_open=operator == "<")
        case ">" | ">=":
            return Range(field, lower=number, is_lower_open=operator == ">")
        case _:
            # Not by facet value: there the text "3" is the number 3.
            equal = Range(field, lower=number, upper=number)
            return Not(equal) if operator == "!=" else equal


def _any_of(conditions: Sequence[Filter]) -> Filter:
    return conditions[0] if len(conditions) == 1 else Or(tuple(conditions))


def expression_of(condition: Filter) -> str:
    """Write a filter of this module in facetd's own `filter` language."""
    match condition:
        case And(children) | Or(children):
            word = " AND " if isinstance(condition, And) else " OR "
            return f"({word.join(map(expression_of, children))})"
        case Not(child):
            return f"NOT {expression_of(child)}"
        case AnyOf(field, values):
            return f"{quoted(field)} IN [{', '.join(map(quoted, values))}]"
        case Range(field, lower, _, None, _):
            return f"{quoted(field)} {'>' if condition.is_lower_open else '>='} {lower}"
        case Range(field, None, _, upper, _):
            return f"{quoted(field)} {'<' if condition.is_upper_open else '<='} {upper}"
        case Range(field, lower, False, upper, False):
            # As one condition: of an array, the same number must be within both bounds.
            return f"{quoted(field)} {lower} TO {upper}"
        case _:
            raise AssertionError(f"{condition} is not one of Algolia's filters")


def quoted(text: str) -> str:
    """Return a text in quotes, for either filter language."""
    return '"' + re.sub(r'[\\"]', r"\\\g<0>", text) + '"'


# --- the expression language ------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    """quoted, operator, word or end."""
    text: str
    position: int

    @property
    def shown(self) -> str:
        """The token as error messages show it."""
        return "the end" if self.kind == "end" else f"'{self.text[:40]}'"


def parse_filters(text: str, limits: Limits) -> Filter:
    """Parse `filters`. Keywords are upper case; NOT and OR may precede any parenthesis.

    Raises:
        Mistake: says the position and what was expected there.
    """
    if len(text) > limits.filter_expression_chars_max:
        raise Mistake(f"is longer than {limits.shown('filter_expression_chars_max')} characters")
    if not text.strip():
        return And(())
    return _Parser(text, limits).parse()


def _fail(problem: str, position: int) -> NoReturn:
    raise Mistake(
        f"{problem} at position {position}; valid is for example "
        "'brand:Apple AND (price < 10 OR price:20 TO 30) AND NOT _tags:old'",
        code="invalid_filter",
    )


class _Parser:
    """One pass over the tokens; each method parses one rule and returns its node."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._limits = limits
        self._tokens = list(_tokens(text))
        self._next = 0
        self._num_conditions = 0

    def parse(self) -> Filter:
        node = self._disjunction(0)
        token = self._tokens[self._next]
        if token.kind != "end":
            _fail(f"expected AND, OR or the end, not {token.shown}", token.position)
        return node

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _takes(self, kind: str, text: str) -> bool:
        token = self._tokens[self._next]
        if token.kind == kind and token.text == text:
            self._next += 1
            return True
        return False

    def _disjunction(self, depth: int) -> Filter:
        children = [self._conjunction(depth)]
        while self._takes("word", "OR"):
            children.append(self._conjunction(depth))
        return _any_of(children)

    def _conjunction(self, depth: int) -> Filter:
        children = [self._negation(depth)]
        while self._takes("word", "AND"):
            children.append(self._negation(depth))
        return children[0] if len(children) == 1 else And(tuple(children))

    def _negation(self, depth: int) -> Filter:
        token = self._tokens[self._next]
        if depth > self._limits.filter_depth_max:
            _fail(f"nested deeper than {self._limits.shown('filter_depth_max')}", token.position)
        if self._takes("word", "NOT"):
            return Not(self._negation(depth + 1))
        if self._takes("operator", "("):
            node = self._disjunction(depth + 1)
            token = self._take()
            if token.text != ")" or token.kind != "operator":
                _fail(f"expected ')', not {token.shown}", token.position)
            return node
        return self._condition()

    def _condition(self) -> Filter:
        token = self._operand("a condition such as brand:Apple")
        self._num_conditions += 1
        if self._num_conditions > self._limits.filter_conditions_max:
            shown = self._limits.shown("filter_conditions_max")
            _fail(f"more than {shown} conditions", token.position)
        operator = self._tokens[self._next]
        if operator.kind != "operator" or operator.text in "()":
            return AnyOf(TAGS, (token.text,))
        self._next += 1
        value = self._operand(f"a value after '{operator.text}'")
        if operator.text == ":":
            return self._faceted(_field(token.text), value)
        number = number_of(value.text) if value.kind == "word" else None
        if number is None:
            _fail(f"expected a number after '{operator.text}', not {value.shown}", value.position)
        return _compared(_field(token.text), operator.text, number)

    def _faceted(self, field: str, value: _Token) -> Filter:
        """Parse the rest of a condition after `field:`; scores are rejected."""
        number = number_of(value.text) if value.kind == "word" else None
        if self._takes("word", "TO"):
            upper = self._operand("a number after TO")
            high = number_of(upper.text)
            if number is None or high is None:
                _fail("expected numbers on both sides of TO", value.position)
            return Range(field, lower=number, upper=high)
        score = self._tokens[self._next : self._next + 3]
        if len(score) == 3 and (score[0].text, score[1].text) == ("<", "score"):
            _fail("scores (<score=…>) cannot be given to filters", score[0].position)
        key = value.text if number is None else facet_key(number) or value.text
        return AnyOf(field, (key,))

    def _operand(self, what: str) -> _Token:
        token = self._take()
        is_word = token.kind == "word" and token.text not in ("AND", "OR", "NOT", "TO")
        if not is_word and token.kind != "quoted":
            _fail(f"expected {what}, not {token.shown}", token.position)
        return token


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            is_quote = text[start] in "\"'"
            _fail("a quoted text has no end" if is_quote else f"unexpected '{text[start]}'", start)
        kind = match.lastgroup or ""
        raw = match.group(kind)
        content = _ESCAPE.sub(r"\1", raw[1:-1]) if kind == "quoted" else raw
        yield _Token(kind, content, match.start(kind))
        position = match.end()
    yield _Token("end", "", end)
