"""Draws Algolia's filters in all four syntaxes, each with a predicate that says what it means.

filters         brand:"red" AND (price > 10 OR NOT colors:'a b')
facetFilters    [["brand:red", "colors:-x"], "price:10"]
numericFilters  ["price>=10"]
tagFilters      ["ten"]
"""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Callable
from typing import Any, Final

from common.value_kinds_and_facet_keys import facet_key

Item = dict[str, Any]
Predicate = Callable[[Item], bool]
Drawn = tuple[str, Predicate]

_SCORE: Final = "<score=1>"
"""At the end of a facet filter it is none of the value, and refused."""
TEXTS: Final = (
    *("red", "Red", "blue green", "a:b", "-neg", 'x"y', "it's", "(p)", "AND", "NOT", "ten", "true"),
    *("é", _SCORE, "a,b", "\\b", "TO", "😀", "10", "0.1"),
)
NUMBERS: Final = (0, 1, -1, 2, 10, 10.5, -0.0, 3, 1e3, 9007199254740993, 0.1)
ABSENT: Final = ("nope", "1", "0", "-1", "1000", "0.1", "false")
FACETS: Final = ("brand", "colors", "price", "o.k", "_tags")
FIELDS: Final = (*FACETS, "free", "o.n")
NUMERIC: Final = ("price", "o.n", "colors")
DEPTH_MAX: Final = 3
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


def values_of(item: Item, field: str) -> list[Any]:
    """Return the values of a field, by its path."""
    value: Any = item
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return []
        value = value[part]
    return value if isinstance(value, list) else [value]


def keys_of(item: Item, field: str) -> set[str]:
    """Return the facet values of a field."""
    keys = (facet_key(value) for value in values_of(item, field))
    return {key for key in keys if key is not None}


def _has(field: str, key: str) -> Predicate:
    return lambda item: key in keys_of(item, field)


def _not(one: Predicate) -> Predicate:
    return lambda item: not one(item)


def _all(ones: list[Predicate]) -> Predicate:
    return lambda item: all(one(item) for one in ones)


def _any(ones: list[Predicate]) -> Predicate:
    return lambda item: any(one(item) for one in ones)


def _compares(field: str, name: str, number: float) -> Predicate:
    if name == "!=":
        return _not(_compares(field, "=", number))
    compare = _COMPARISONS[name]
    return lambda item: any(compare(value, number) for value in _numbers(item, field))


def _numbers(item: Item, field: str) -> list[Any]:
    values = values_of(item, field)
    return [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]


class DrawnFilters:
    """Draws items and searches.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def _is(self, probability: float) -> bool:
        return self.chance.random() < probability

    def _value(self) -> Any:
        kind = self.chance.random()
        if kind < 0.6:
            return self.chance.choice(TEXTS)
        if kind < 0.85:
            return self.chance.choice(NUMBERS)
        return self.chance.choice((True, False, None))

    def item(self, number: int) -> Item:
        """Return an item; half of the ids are numbers written as texts."""
        chance = self.chance
        item: Item = {"objectID": str(number) if self._is(0.5) else f"o{number}"}
        if self._is(0.9):
            item["brand"] = chance.choice(TEXTS[:8])
        if self._is(0.8):
            item["colors"] = [self._value() for _ in range(chance.randrange(5))]
        if self._is(0.8):
            item["price"] = chance.choice(NUMBERS)
        if self._is(0.3):
            item["price"] = [chance.choice(NUMBERS) for _ in range(chance.randrange(4))]
        if self._is(0.6):
            item["_tags"] = [chance.choice(TEXTS) for _ in range(chance.randrange(4))]
        if self._is(0.5):
            item["o"] = {"k": self._value(), "n": chance.choice(NUMBERS)}
        if self._is(0.5):
            item["free"] = self._value()
        return item

    # --- filters

    def _field_and_key(self) -> tuple[str, str]:
        return self.chance.choice(FIELDS), self.chance.choice((*TEXTS, *ABSENT))

    def _quoted(self, text: str) -> str:
        text = text.replace("\\", "\\\\")
        if self._is(0.7):
            return '"' + text.replace('"', '\\"') + '"'
        return "'" + text.replace("'", "\\'") + "'"

    def _number_filter(self) -> Drawn:
        chance = self.chance
        field, number = chance.choice(NUMERIC), chance.choice(NUMBERS)
        comparison = chance.choice((*_COMPARISONS, "!="))
        space = chance.choice(("", " "))
        return f"{field}{space}{comparison}{space}{number}", _compares(field, comparison, number)

    def _span(self) -> Drawn:
        chance = self.chance
        field, first, last = chance.choice(NUMERIC), chance.choice(NUMBERS), chance.choice(NUMBERS)
        return f"{field}:{first} TO {last}", lambda item: any(
            first <= value <= last for value in _numbers(item, field)
        )

    def _expression(self, depth: int = 0) -> Drawn:
        kind = self.chance.random()
        if depth < DEPTH_MAX and kind < 0.5:
            first, second = self._expression(depth + 1), self._expression(depth + 1)
            word, join = ("AND", _all) if kind < 0.25 else ("OR", _any)
            return f"({first[0]} {word} {second[0]})", join([first[1], second[1]])
        if kind < 0.6:
            text, means = self._expression(DEPTH_MAX)
            return f"NOT {text}", _not(means)
        if kind < 0.8:
            field, key = self._field_and_key()
            return f"{field}:{self._quoted(key)}", _has(field, key)
        if kind < 0.85:
            key = self.chance.choice(TEXTS)
            return self._quoted(key), _has("_tags", key)
        return self._span() if self._is(0.3) else self._number_filter()

    def _facet_filter(self) -> Drawn:
        field, key = self._field_and_key()
        while key == _SCORE:
            field, key = self._field_and_key()
        if self._is(0.25):
            return f"{field}:-{key}", _not(_has(field, key))
        return f"{field}:\\{key}" if key.startswith("-") else f"{field}:{key}", _has(field, key)

    def search(self) -> tuple[Item, Predicate]:
        """Return the parameters of a search, and which items are its hits."""
        chance = self.chance
        parameters: Item = {}
        tests: list[Predicate] = []
        if self._is(0.6):
            parameters["filters"], means = self._expression()
            tests.append(means)
        if self._is(0.5):
            groups: list[Any] = []
            for _ in range(chance.randrange(1, 4)):
                drawn = [self._facet_filter() for _ in range(chance.randrange(1, 4))]
                is_group = self._is(0.5)
                groups.append([text for text, _ in drawn] if is_group else drawn[0][0])
                tests.append(_any([one for _, one in drawn]) if is_group else drawn[0][1])
            parameters["facetFilters"] = groups if self._is(0.7) else json.dumps(groups)
        if self._is(0.4):
            drawn = [self._number_filter() for _ in range(chance.randrange(1, 3))]
            parameters["numericFilters"] = [text for text, _ in drawn]
            tests += [one for _, one in drawn]
        if self._is(0.2):
            key = chance.choice([text for text in TEXTS if text[0] != "-" and text != _SCORE])
            parameters["tagFilters"] = [key]
            tests.append(_has("_tags", key))
        return parameters, _all(tests)
