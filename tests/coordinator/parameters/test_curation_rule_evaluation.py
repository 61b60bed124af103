"""Rules: valid ones, the searches that they match, and their effects."""

from __future__ import annotations

from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from common.curation_rules import parse_rules, written
from common.errors import InvalidRequest
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from common.process.cooperative_scheduler import run_to_completion
from common.protocol.messages import FilterClause, Pin
from common.query_syntax_tree import And, AnyOf, Ids, Not, Or, Same
from coordinator.parameters.curation_rule_evaluation import ACCEPTED, compile_rules, curated
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.text.query_pieces import wanted_words

ANALYZER = Analyzer()
NOON = 1_795_521_600  # 2026-11-24T12:00:00Z


def fail(path: str, message: str) -> None:
    pytest.fail(f"{path} {message}")


def mistakes_of(rules: list[Any]) -> list[tuple[str, str]]:
    mistakes: list[tuple[str, str]] = []

    def report(path: str, message: str) -> None:
        mistakes.append((path, message))

    parse_rules(rules, DEFAULT_LIMITS, report)
    return mistakes


def names(when: Any, query: str = "", filters: Any = (), timestamp: int = NOON) -> list[str]:
    """Return the names of the rules that hold for a search: the only one, or none."""
    rules = parse_rules([{"name": "it", "when": when, "hide": [1]}], None, fail)
    compiled = run_to_completion(
        compile_rules(rules, IndexConfiguration(), ANALYZER, DEFAULT_LIMITS)
    )
    parameters = SearchParameters(query=query, filters=tuple(map(FilterClause, filters)))
    _, held = curated(parameters, compiled, wanted_words(query, ANALYZER), timestamp)
    return [rule.name for rule in held]


@pytest.mark.parametrize(
    ("when", "query", "holds"),
    [
        (None, "", True),
        (None, "anything", True),
        ({"query": "tv"}, "TV", True),
        ({"query": {"is": "tv"}}, "  tv! ", True),
        ({"query": {"is": "tv"}}, "tv stand", False),
        ({"query": ""}, "", True),
        ({"query": ""}, "tv", False),
        ({"query": {"contains": "flat TV"}}, "new flat tv stand", True),
        ({"query": {"contains": "flat TV"}}, "flat new tv", False),
        ({"query": {"contains": "tv"}}, "", False),
        ({"query": {"contains": "used"}}, "tv -used", False),
        ({"query": {"contains": "old tv"}}, 'new tv -"old tv"', False),
        ({"query": {"is": "tv"}}, 'tv -used -"not new"', True),
        ({"query": "x-men"}, "x-men", True),
    ],
)
def test_rules_hold_for_queries(when: Any, query: str, holds: bool) -> None:
    assert names(when, query) == (["it"] if holds else [])


@pytest.mark.parametrize(
    "tree", [{"path": "category", "separator": " > "}, {"levels": ["lvl0", "lvl1"]}]
)
def test_rules_hold_for_the_chosen_nodes_of_a_tree(tree: dict[str, Any]) -> None:
    """The page of a category filters by its node: what a shop pins there is a rule for it."""
    facets: dict[str, Any] = {"category": {}, "lvl0": {}, "lvl1": {}}
    document = {"aggregations": facets, "hierarchies": {"tree": tree, "category": tree}}
    configuration = parse_configuration(document)[0]
    for name in ("tree", "category"):
        when = {"filters": {name: "Home > Garden"}}
        rules = parse_rules([{"when": when, "hide": [1]}], None, fail)
        steps = compile_rules(rules, configuration, ANALYZER, DEFAULT_LIMITS)
        compiled = run_to_completion(steps)
        for nodes, holds in (
            (["Home > Garden"], True),
            (["Toys", "Home > Garden"], True),
            (["Home"], False),
            (["Home > Garden > Hoses"], False),
        ):
            search = parse_search({"filters": {name: nodes}}, configuration, DEFAULT_LIMITS)
            assert bool(curated(search, compiled, (), NOON)[1]) == holds


def test_compiling_rules_can_be_interrupted_before_each_filter() -> None:
    """A request may have two megabytes of them: other requests run in between."""
    rule = {"filter": "a = 1", "boost": [{"filter": "b = 1", "factor": 2}], "bury": ["c = 1"]}
    rules = parse_rules([rule] * 5, None, fail)
    assert len(list(compile_rules(rules, IndexConfiguration(), ANALYZER, DEFAULT_LIMITS))) == 15


def test_rules_hold_for_filters() -> None:
    when = {"filters": {"category": ["tv", "radio"], "new": True}}
    category, new = AnyOf("category", ("radio", "tv", "phone")), AnyOf("new", ("true",))
    assert names(when, filters=[category, new]) == ["it"]
    assert names(when, filters=[category]) == []
    assert names(when, filters=[category, Not(new)]) == []


def test_rules_hold_for_the_values_of_one_element() -> None:
    red, medium = AnyOf("shirts.color", ("red",)), AnyOf("shirts.size", ("M",))
    when = {"filters": {"shirts.color": "red"}}
    assert names(when, filters=[Same("shirts", And((red, medium)))]) == ["it"]
    assert names(when, filters=[Same("shirts", red)]) == ["it"]
    assert names(when, filters=[Same("shirts", medium)]) == []
    assert names(when, filters=[Same("shirts", Or((red, medium)))]) == []
    assert names(when, filters=[Not(Same("shirts", red))]) == []


def test_rules_hold_for_a_period() -> None:
    when = {"from": "2026-11-24", "until": "2026-11-24T18:00:00+01:00"}
    assert names(when, timestamp=NOON) == ["it"]
    assert names(when, timestamp=NOON - 12 * 3_600) == ["it"]
    assert names(when, timestamp=NOON - 12 * 3_600 - 1) == []
    assert names(when, timestamp=NOON + 5 * 3_600) == []


def test_rules_add_up() -> None:
    listed = [
        {"pin": [42, {"id": "7", "position": 5}], "boost": {"filter": "a = b", "factor": 3}},
        {"name": "second", "pin": {"id": 42, "position": 9}, "hide": [13], "bury": "used = true"},
        {"when": {"query": "other"}, "hide": [1]},
        {"filter": "in_stock = true", "hide": [13, "x"], "data": {"banner": "x"}},
    ]
    rules = parse_rules(listed, DEFAULT_LIMITS, fail)
    assert parse_rules(written(rules), DEFAULT_LIMITS, fail) == rules
    compiled = run_to_completion(
        compile_rules(rules, IndexConfiguration(), ANALYZER, DEFAULT_LIMITS)
    )
    search, held = curated(SearchParameters(query="tv"), compiled, ("tv",), NOON)
    assert [rule.name for rule in held] == ["rule 1", "second", "rule 4"]
    assert [rule.data for rule in held] == [None, None, {"banner": "x"}]
    assert search.pins == (Pin("42", 1, "rule 1"), Pin("7", 5, "rule 1"))
    assert [(one.factor, one.rule) for one in search.factors] == [
        (3.0, "rule 1"),
        (0.001, "second"),
    ]
    assert [clause.filter for clause in search.filters] == [
        AnyOf("in_stock", ("true",)),
        Not(Ids(("13", "x"))),
    ]


@pytest.mark.parametrize(
    ("rule", "path", "message"),
    [
        (3, "[0]", "must be an object with some of name, when, pin"),
        ({}, "[0]", "must do something: pin, hide, boost, bury, filter or"),
        ({"pins": [1]}, "[0].pins", "is unknown; known are name, when, pin"),
        ({"hide": [1.5]}, "[0].hide[0]", "must be the id of an item"),
        ({"pin": [1, 1]}, "[0].pin", "has an item twice"),
        ({"pin": [{"id": 1, "position": 0}]}, "[0].pin[0].position", "must be an integer from 1"),
        ({"boost": [{"filter": "a = b"}]}, "[0].boost[0].factor", "must be a number above 0"),
        ({"boost": [{"factor": 2}]}, "[0].boost[0].filter", "must be a filter expression such as"),
        ({"hide": [1], "when": {"from": "soon"}}, "[0].when.from", "must be an ISO date such as"),
        ({"hide": [1], "when": {"query": {"like": "a"}}}, "[0].when.query", 'must be {"is": …}'),
        (
            {"hide": [1], "when": {"from": "2026-11-24", "until": "2026-11-24T00:00:00Z"}},
            "[0].when.until",
            "must be after from",
        ),
        ({"hide": [1], "when": {"filters": {"a": []}}}, "[0].when.filters.a", "must be a value"),
        ({"hide": list(range(101))}, "[0]", "pins and hides 101 items, more than 100 (limit rule_"),
    ],
)
def test_mistakes_say_what_would_be_valid(rule: Any, path: str, message: str) -> None:
    ((where, what),) = mistakes_of([rule])
    assert where == path
    assert what.startswith(message)


@pytest.mark.parametrize("query", [{"contains": "!!!"}, {"is": "..."}, "?"])
def test_a_query_without_a_word_is_refused_and_a_stored_one_holds_for_nothing(query: Any) -> None:
    rules = parse_rules([{"hide": [1]}, {"hide": [2], "when": {"query": query}}], None, fail)
    with pytest.raises(InvalidRequest, match=r"rules\[1\]\.when\.query has no word") as caught:
        run_to_completion(compile_rules(rules, IndexConfiguration(), ANALYZER, DEFAULT_LIMITS))
    assert caught.value.param == "rules[1].when.query"
    stored = run_to_completion(compile_rules(rules, IndexConfiguration(), ANALYZER, ACCEPTED))
    for typed in ("", "tv", "!!!"):
        words = wanted_words(typed, ANALYZER)
        _, held = curated(SearchParameters(query=typed), stored, words, NOON)
        assert [rule.name for rule in held] == ["rule 1"]


class _Word(str):
    """A word that counts how often it is compared."""

    __slots__ = ()
    num_compared = 0

    def __eq__(self, other: object) -> bool:
        _Word.num_compared += 1
        return str(self) == other

    __hash__ = str.__hash__


def test_rules_are_not_compared_with_a_long_query_word_by_word() -> None:
    """A query of 256 words and a thousand rules held up all other requests for 27 ms."""
    raw = [{"hide": [i], "when": {"query": {"contains": f"lamp{i} red"}}} for i in range(100)]
    rules = parse_rules(raw, None, fail)
    stored = run_to_completion(compile_rules(rules, IndexConfiguration(), ANALYZER, ACCEPTED))
    words = tuple(map(_Word, ["red", *["tv"] * 252, "lamp7", "red", "ed"]))
    _, held = curated(SearchParameters(), stored, words, NOON)
    assert [rule.name for rule in held] == ["rule 8"]
    assert _Word.num_compared < 1_000


def test_a_period_without_a_moment_that_was_accepted_before_is_kept() -> None:
    rule = {"hide": [1], "when": {"from": "2027", "until": "2026"}}
    assert len(parse_rules([rule], None, fail)) == 1


def test_a_wrong_filter_names_its_rule() -> None:
    rules = parse_rules([{"hide": [1]}, {"filter": "price >"}], None, fail)
    with pytest.raises(InvalidRequest, match=r"rules\[1\] has a filter that is wrong") as caught:
        run_to_completion(compile_rules(rules, IndexConfiguration(), ANALYZER, DEFAULT_LIMITS))
    assert caught.value.param == "rules[1]"
