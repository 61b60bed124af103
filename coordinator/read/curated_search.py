"""Searches to which the curation rules of their index are applied, or those of the request.

The rules of an index are compiled once (`index_caches`), those of a request for each search; what
rules do to a search, `coordinator.parameters.curation_rule_evaluation` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from common.curation_rules import Rule
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import now
from coordinator.parameters.curation_rule_evaluation import CompiledRule, compile_rules, curated
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.text.query_pieces import wanted_words

if TYPE_CHECKING:
    from coordinator.read.read_services import ReadServices

RULES_FAST_CHARS: Final = 2_048
"""Rules of a request whose texts are longer take more than half a millisecond to compile."""


NO_RULES: Final[Sequence[Rule]] = ()


def has_rules(index: Index, parameters: SearchParameters) -> bool:
    """Return whether there are rules that might apply to a search."""
    return bool(index.configuration.rules if parameters.rules is None else parameters.rules)


async def curated_search(
    services: ReadServices, index: Index, parameters: SearchParameters, timestamp: int
) -> tuple[SearchParameters, list[Rule]]:
    """Apply the curation rules that match a search; return the new search and these rules.

    Args:
        services: what all kinds of searches share; long rules yield the event loop.
        index: to search.
        parameters: of the search.
        timestamp: now, in seconds since 1970.
    """
    if parameters.rules is None:
        rules: Sequence[CompiledRule] = services.caches.of(index).rules
    else:
        steps = compile_rules(
            parameters.rules, index.configuration, services.analyzer, services.limits
        )
        is_long = _num_chars(parameters.rules) > RULES_FAST_CHARS
        rules = await services.scheduler.run(index.number, steps, is_long=is_long)
    if not rules:
        return parameters, []
    # The words of a search for similar items are the item's, not the user's.
    query = parameters.query if parameters.similar_to is None else ""
    return curated(parameters, rules, wanted_words(query, services.analyzer), timestamp)


def narrowed_search(
    services: ReadServices, index: Index, parameters: SearchParameters
) -> SearchParameters:
    """Return a search without the items that the index's rules leave out for any query."""
    rules = services.caches.of(index).narrowing_rules
    return curated(parameters, rules, (), now())[0] if rules else parameters


def _num_chars(rules: Sequence[Rule]) -> int:
    """Return how long the texts of rules are that have to be parsed."""
    return sum(
        [
            len(rule.query or "")
            + len(rule.filter or "")
            + sum([len(one.filter) for one in rule.factors])
            for rule in rules
        ]
    )
