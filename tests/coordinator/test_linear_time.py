"""What a request may say at any length is read in time proportional to its length.

Each of these texts once took seconds, or would take them by a regular expression that tries every
way to divide it: far longer than the bound, whatever the machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from common.errors import InvalidRequest
from common.index_configuration import IndexConfiguration
from common.limits import DEFAULT_LIMITS
from coordinator.algolia.filters import groups_of, numeric_filters, tag_filters
from coordinator.algolia.parameter_interactions import PRE
from coordinator.algolia.responses import _mark
from coordinator.algolia.rule_translation import RULES
from coordinator.algolia.search_request import Style
from coordinator.algolia.settings_translation import split_name
from coordinator.parameters.sort_keys import read_sort_keys
from coordinator.parameters.value_parsers import Mistake
from coordinator.write.bulk_loads import _BULK_ACTION

SECONDS_MAX = 2.0


def _numeric(text: str) -> object:
    return numeric_filters([text], DEFAULT_LIMITS)


def _sorted(text: str) -> object:
    return read_sort_keys(text, IndexConfiguration(), DEFAULT_LIMITS)


def _marked(text: str) -> object:
    return _mark(text, Style(), frozenset())


def _rule(pattern: str) -> object:
    condition = {"pattern": pattern, "anchoring": "is"}
    rule = {"objectID": "a", "conditions": [condition], "consequence": {"hide": []}}
    return RULES.native_of(rule, "rule")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (_sorted, "," * 100_000),
        (_sorted, "_geo(1" * 20_000),
        (_numeric, "a" + " " * 100_000),
        (_numeric, ":" * 100_000),
        (_numeric, ": " * 50_000),
        (_numeric, "= " * 50_000),
        (lambda text: tag_filters([text], DEFAULT_LIMITS), "<score=1" * 20_000),
        (lambda text: groups_of(text, DEFAULT_LIMITS), "(a" * 50_000),
        (split_name, "a" + ":a:asc" * 30_000 + "x"),
        (split_name, "a" + ":a:asc" * 30_000),
        (_marked, PRE * 100_000),
        (_rule, "{facet:" * 30_000),
        (lambda text: _BULK_ACTION.match(text.encode()), '{"index":{' + '"a":1  ' * 100 + "!"),
    ],
    ids=lambda one: repr(one[:10]) if isinstance(one, str) else "",
)
def test_reading_takes_time_proportional_to_the_length(
    read: Callable[[str], object], text: str
) -> None:
    started = time.process_time()
    with contextlib.suppress(Mistake, InvalidRequest):
        read(text)
    assert time.process_time() - started < SECONDS_MAX
