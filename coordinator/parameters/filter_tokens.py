"""The tokens of a filter expression, and its errors: the lexer below `filter_parser`.

A token is a word, a quoted text ('…' or "…") or an operator. Keywords are bare words, in either
case. A bare word that is a JSON number is a number; a quoted one is text. A backslash in a quoted
text escapes as in JSON, so a text encoded as JSON is a quoted text; before any other character it
stands for that character.
"""

from __future__ import annotations

import re

from msgspec import Struct

from common.errors import InvalidRequest
from common.value_kinds_and_facet_keys import INTEGER_MAX, INTEGER_MIN

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
_ESCAPE = re.compile(
    r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
"""A pair of surrogates is one character."""
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "TO", "EXISTS", "IS", "NULL", "EMPTY", "STARTS", "WITH", "CONTAINS")
)


class FilterToken(Struct, frozen=True):
    """A word, a quoted text, an operator, or the end."""

    kind: str
    """quoted, operator, word or end."""
    text: str
    position: int
    keyword: str | None = None
    """The keyword that this bare word is, in upper case."""

    @property
    def shown(self) -> str:
        """The token as error messages show it."""
        return "the end" if self.kind == "end" else f"'{self.text[:40]}'"

    @property
    def looks_like_number(self) -> bool:
        """Whether the text is a JSON number, quoted or not."""
        return _NUMBER.match(self.text) is not None

    @property
    def is_long_integer(self) -> bool:
        """Whether this is a bare integer that no item has: parcels have numbers of 22 digits."""
        digits = self.text.removeprefix("-")
        return isinstance(self.value, float) and digits.isdecimal()

    @property
    def value(self) -> int | float | str:
        """A bare word that is a number as a number, anything else as text.

        An integer stays an integer within the range that items have; greater ones become doubles.
        """
        if self.kind == "word" and (number_parts := _NUMBER.match(self.text)):
            if number_parts["fraction"] is None and len(self.text) <= _INTEGER_CHARS_MAX:
                integer = int(self.text)
                if INTEGER_MIN <= integer <= INTEGER_MAX:
                    return integer
            number = float(self.text)
            if number in (float("inf"), float("-inf")):
                raise invalid_filter("a number is too large", self.position)
            return number
        return self.text


class FilterTokens:
    """Reads the tokens of an expression from left to right, each when it is asked for.

    So an expression that exceeds a limit of the grammar is read no further.

    Args:
        text: the expression.

    Attributes:
        next: the next token, which stays.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = len(text.rstrip())
        self._position = 0
        self.next = self._read()

    def take(self) -> FilterToken:
        """Return the next token and go on after it; the end stays."""
        token = self.next
        if token.kind != "end":
            self.next = self._read()
        return token

    def take_value(self) -> FilterToken:
        """Return the next token, which must be a word or a quoted text."""
        token = self.take()
        if token.kind not in ("word", "quoted"):
            raise invalid_filter(f"expected a value, not {token.shown}", token.position)
        return token

    def take_keyword(self, keyword: str) -> bool:
        """Take a keyword; return whether it was there."""
        if self.next.keyword == keyword:
            self.take()
            return True
        return False

    def take_operator(self, operator: str) -> bool:
        """Take an operator; return whether it was there."""
        if self.next.kind == "operator" and self.next.text == operator:
            self.take()
            return True
        return False

    def expect_operator(self, operator: str) -> None:
        """Take an operator, which must be there."""
        if not self.take_operator(operator):
            raise self.unexpected(f"'{operator}'")

    def unexpected(self, expected: str) -> InvalidRequest:
        """Return the error for the next token, which is not what was expected."""
        return invalid_filter(f"expected {expected}, not {self.next.shown}", self.next.position)

    def _read(self) -> FilterToken:
        text, position = self._text, self._position
        if position >= self._end:
            return FilterToken("end", "", self._end)
        found = _TOKEN.match(text, position)
        if found is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            what = (
                "a quoted text has no end"
                if text[start] in "\"'"
                else f"unexpected character '{text[start]}'"
            )
            raise invalid_filter(what, start)
        self._position = found.end()
        kind = found.lastgroup or ""
        raw, start = found.group(kind), found.start(kind)
        match kind:
            case "quoted":
                return FilterToken(kind, _unescaped(raw[1:-1], start), start)
            case "word" if raw.isascii() and (upper := raw.upper()) in _KEYWORDS:
                return FilterToken(kind, raw, start, upper)
            case _:
                return FilterToken(kind, raw, start)


def _unescaped(text: str, position: int) -> str:
    """Return what the inside of a quoted text stands for.

    Args:
        text: between the quotes.
        position: of the opening quote.
    """
    if "\\" not in text:
        return text

    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        if len(code) == 1:
            return _ESCAPED.get(code, code)
        units = bytes.fromhex(code.replace("\\u", "")[1:])
        try:
            return units.decode("utf-16-be")
        except UnicodeDecodeError:
            raise invalid_filter(
                f"a surrogate, '{escape[0]}', must be one of a pair,", position
            ) from None

    return _ESCAPE.sub(character, text)


def invalid_filter(problem: str, position: int) -> InvalidRequest:
    """Return the error for an expression.

    Args:
        problem: what was found, and what was expected there.
        position: in characters, from 0.
    """
    return InvalidRequest(
        f"{problem} at position {position}; valid is for example: "
        'year >= 1990 AND (tags = a OR tags IN [b, "c d"]) AND NOT country = US',
        code="invalid_filter",
        param="filter",
        details={"position": position},
    )
