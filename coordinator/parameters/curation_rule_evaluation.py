"""Curation: the rules that apply to one search, and their effect on it (pure).

    rules ─▶ compiled once (filters parsed, words folded) ─▶ those whose conditions hold now
          ─▶ pins, filters and factors of the search

Rules apply in order: the first rule that pins an item decides, and any rule can hide an item.

A request's rules must name fields that items have, as its filters must. Configured ones need not: a
field that no item has yet, or any more, must not fail the searches of a shop. It is a warning
(`coordinator.write.field_references`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from common.analysis.analyzer import Analyzer
from common.curation_rules import Rule
from common.errors import InvalidRequest
from common.index_configuration import IndexConfiguration
from common.limits import Limits
from common.protocol.messages import FilterClause, FilterFactor, Pin
from common.query_syntax_tree import AllOf, And, AnyOf, Filter, Ids, Not, Or, Same, Under
from coordinator.parameters.filter_objects import check_objects, scalar_fields_of
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.parameters.sort_keys import geo_field_of
from coordinator.parameters.value_parsers import Mistake

ACCEPTED: Final = Limits(
    filter_expression_chars_max=1 << 30, filter_depth_max=100, filter_conditions_max=1 << 30
)
"""Limits for filters accepted earlier, possibly under other limits than today's."""
WORDS_MAX: Final = 256
"""Words of a query that rules are matched against."""


class CompiledRule(NamedTuple):
    """A rule prepared for matching."""

    rule: Rule
    words: str | None
    """Folded words of its query, as `_spaced` joins them; None matches any query."""
    filter: Filter | None
    factors: tuple[FilterFactor, ...]

    @property
    def fields(self) -> set[str]:
        """The fields that its filters compare."""
        conditions = [factor.filter for factor in self.factors]
        if self.filter is not None:
            conditions.append(self.filter)
        return {field for one in conditions for field in scalar_fields_of(one)}

    @property
    def is_for_no_query(self) -> bool:
        """Whether its query is text without a word, such as "!!!"."""
        return self.words == _spaced(()) and bool(self.rule.query and self.rule.query.strip())


def narrowing_rules(rules: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    """Return what rules that are for any query leave out of the hits, without their other effects.

    This holds for suggestions, too: what a shop hides must not be proposed.
    """
    return tuple(
        [
            one._replace(rule=one.rule._replace(pins=()), factors=())
            for one in rules
            if one.words is None and (one.rule.hidden or one.filter is not None)
        ]
    )


def compile_rules(
    rules: Sequence[Rule],
    configuration: IndexConfiguration,
    analyzer: Analyzer,
    limits: Limits,
    code: str = "invalid_rules",
) -> Generator[None, None, tuple[CompiledRule, ...]]:
    """Parse the filters of rules and fold their words; yield before each filter.

    A filter may take some milliseconds, and a request may have a hundred of that length.

    Args:
        rules: of the configuration or of a request.
        configuration: of the index.
        analyzer: folds the words.
        limits: on the filters; `ACCEPTED` for rules that were accepted before.
        code: of the error.

    Returns:
        The rules, in the same order.

    Raises:
        InvalidRequest: a filter is wrong, or a query has no word; `param` names the rule.
    """
    compiled = []
    for i, rule in enumerate(rules):
        try:
            one = yield from _compile(rule, configuration, analyzer, limits)
        except InvalidRequest as error:
            raise InvalidRequest(
                f"rules[{i}] has a filter that is wrong: {error.message}",
                code=code,
                param=f"rules[{i}]",
                details=error.details,
            ) from None
        if one.is_for_no_query and limits is not ACCEPTED:
            raise InvalidRequest(
                f"rules[{i}].when.query has no word: no search is for {rule.query!r}",
                code=code,
                param=f"rules[{i}].when.query",
            )
        compiled.append(one)
    return tuple(compiled)


def _compile(
    rule: Rule, configuration: IndexConfiguration, analyzer: Analyzer, limits: Limits
) -> Generator[None, None, CompiledRule]:
    words = condition = None
    if rule.query is not None:
        words = _spaced(analyzer.words(rule.query))
    if rule.filter is not None:
        yield
        condition = _condition(rule.filter, configuration, limits)
    factors = []
    for one in rule.factors:
        yield
        boosted = _condition(one.filter, configuration, limits)
        factors.append(FilterFactor(boosted, one.factor, rule.name))
    return CompiledRule(rule, words, condition, tuple(factors))


def _condition(text: str, configuration: IndexConfiguration, limits: Limits) -> Filter:
    """Parse a filter of a rule.

    Raises:
        InvalidRequest: it is wrong, or asks for points or elements that the index does not have.
    """
    condition = parse_filter(text, limits, geo_field_of(configuration))
    if limits is not ACCEPTED:
        try:
            check_objects(condition, configuration)
        except Mistake as mistake:
            raise InvalidRequest(f"it {mistake.message}", code="invalid_filter") from None
    return condition


def curated(
    parameters: SearchParameters,
    rules: Sequence[CompiledRule],
    words: tuple[str, ...],
    timestamp: int,
) -> tuple[SearchParameters, list[Rule]]:
    """Apply the matching rules to a search; return the new search and these rules.

    Args:
        parameters: of the search.
        rules: of its index, or of the request.
        words: of the query, folded, without those that it excludes.
        timestamp: now, in seconds since 1970.
    """
    words = words[:WORDS_MAX]
    chosen: dict[str, set[str]] = {}
    for clause in parameters.filters:
        _add_chosen(clause.filter, chosen)
        if clause.facet is not None:
            chosen.setdefault(clause.facet, set()).update(_nodes_of(clause.filter))
    query = _spaced(words)
    holding = [one for one in rules if _holds(one, query, chosen, timestamp)]
    if not holding:
        return parameters, []
    pins: dict[str, Pin] = {}
    hidden: dict[str, None] = {}
    filters: list[FilterClause] = []
    factors: list[FilterFactor] = []
    fields = dict(parameters.filter_fields)
    for one in holding:
        hidden.update(dict.fromkeys(one.rule.hidden))
        factors += one.factors
        if one.filter is not None:
            filters.append(FilterClause(one.filter))
        if parameters.rules is not None:
            fields |= dict.fromkeys(one.fields, "rules")
        for pin in one.rule.pins:
            pins.setdefault(pin.id, Pin(pin.id, pin.position, one.rule.name))
    if hidden:
        filters.append(FilterClause(Not(Ids(tuple(hidden)))))
    changed = msgspec.structs.replace(
        parameters,
        filters=(*parameters.filters, *filters),
        factors=tuple(factors),
        filter_fields=fields,
        pins=tuple(sorted(pins.values(), key=lambda pin: pin.position)),
    )
    return changed, [one.rule for one in holding]


def _add_chosen(condition: Filter, chosen: dict[str, set[str]]) -> None:
    """Collect the values that a filter requires, by field."""
    match condition:
        case And(children):
            for child in children:
                _add_chosen(child, chosen)
        case Same(_, within):
            _add_chosen(within, chosen)
        case AnyOf(field, values) | AllOf(field, values):
            chosen.setdefault(field, set()).update(values)
        case _:
            pass


def _nodes_of(condition: Filter) -> tuple[str, ...]:
    """Return the nodes that a clause of a tree requires, as `Conditions` makes it; else none."""
    match condition:
        case Under(_, nodes):
            return nodes
        case Or(levels):
            return tuple([node for one in levels if isinstance(one, AnyOf) for node in one.values])
        case _:
            return ()


def _holds(compiled: CompiledRule, query: str, chosen: dict[str, set[str]], timestamp: int) -> bool:
    """Return whether all conditions of a rule hold.

    Args:
        compiled: the rule.
        query: the words of the query, as `_spaced` joins them.
        chosen: by field, the values that filters require.
        timestamp: now.
    """
    rule = compiled.rule
    if rule.begins is not None and timestamp < rule.begins:
        return False
    if rule.ends is not None and timestamp >= rule.ends:
        return False
    if not all(chosen.get(name, set()).issuperset(keys) for name, keys in rule.filters):
        return False
    wanted = compiled.words
    if wanted is None:
        return True
    if compiled.is_for_no_query:
        return False
    return wanted == query if rule.is_whole_query else wanted in query


def _spaced(words: Iterable[str]) -> str:
    """Join words, with a space on either side of each, so that a part of the text is whole words.

    A thousand rules are compared with a long query in a millisecond; word by word it takes 25.
    """
    return " ".join(("", *words, ""))
