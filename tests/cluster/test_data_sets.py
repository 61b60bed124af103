"""Real data: every set of `../shared/data`, loaded, searched and compared with the naive model.

The facets and texts of a set are those that its SOURCE.md names. CI takes a sample of each; with
`--long` whole sets are loaded. Without the data beside the checkout there is nothing to test.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import DATA, Index, Services
from tests.cluster.test_against_oracle import check, stable
from tests.oracle.engine import Oracle
from tests.oracle.items import Item, leaves
from tests.oracle.words import words_in

SETS = sorted(path.parent.name for path in DATA.glob("*/items.ndjson.gz"))
NUM_SAMPLED = 300
NUM_SEARCHES = 12
FACETS_MAX = 8
_MODELLED = re.compile(r"[a-z0-9\u00df-\u04ff\u3040-\u30ff\u3400-\u9fff]+")
"""Scripts whose words the model cuts like the service: Latin, Greek, Cyrillic, Kana, Han."""

pytestmark = pytest.mark.skipif(not SETS, reason="no data beside the checkout")


def lines_of(name: str) -> Iterator[bytes]:
    with gzip.open(DATA / name / "items.ndjson.gz") as file:
        yield from file


def fields_of(name: str, kind: str) -> list[str]:
    """Return the fields that SOURCE.md lists as text or facet fields."""
    source = (DATA / name / "SOURCE.md").read_text()
    line = re.search(rf"^- {kind} fields: (.*)$", source, re.MULTILINE)
    return re.findall(r"`([^`]+)`", line[1]) if line else []


def configuration_of(name: str) -> dict[str, Any]:
    """Return facets of all kinds of settings, and the texts as searchable fields."""
    facets = {}
    for number, field in enumerate(fields_of(name, "facet")[:FACETS_MAX]):
        facets[field] = {
            "conjunction": number % 2 == 0,
            "size": 10 + number,
            "show_facet_stats": number % 3 == 0,
            "hide_zero_doc_count": number % 4 == 1,
            "sort": "term" if number % 5 == 4 else "count",
        }
    texts = fields_of(name, "text")
    return {"aggregations": facets} | ({"searchable_fields": texts} if texts else {})


def made_up_search(dice: random.Random, items: list[Item], facets: list[str]) -> dict[str, Any]:
    """Return a search that some items are likely to match."""
    item = dice.choice(items)
    parameters: dict[str, Any] = {"query": "", "per_page": dice.choice([0, 5, 20])}
    texts = [value for _, value, _ in leaves(item) if isinstance(value, str) and value]
    words = (
        [word for word in words_in(dice.choice(texts)) if _MODELLED.fullmatch(word)]
        if texts
        else []
    )
    if words and dice.random() < 0.7:
        start = dice.randrange(len(words))
        chosen = words[start : start + dice.randint(1, 2)]
        if dice.random() < 0.3:
            chosen[-1] = chosen[-1][: dice.randint(2, 6)]
        elif dice.random() < 0.2 and len(chosen) == 2 and all(map(str.isascii, chosen)):
            chosen = [f'"{" ".join(chosen)}"']
        parameters["query"] = " ".join(chosen)
    values = [(path, value) for path, value, shape in leaves(item)
              if path in facets and shape < 2 and value not in (None, "")]  # fmt: skip
    if values and dice.random() < 0.6:
        chosen_values = dice.sample(values, min(len(values), dice.randint(1, 2)))
        parameters["filters"] = {path: [value] for path, value in chosen_values}
    if values and dice.random() < 0.2:
        path, value = dice.choice(values)
        parameters["not_filters"] = {path: [value]}
    scalars = [path for path, value, shape in leaves(item) if shape == 0 and value is not None]
    if scalars and dice.random() < 0.4:
        parameters["sort_field"] = dice.choice(scalars)
        parameters["order"] = dice.choice(["asc", "desc"])
    elif dice.random() < 0.3:
        parameters["page"] = dice.randint(2, 4)
    return parameters


def compare(services: Services, name: str, lines: list[bytes], shard_counts: list[int]) -> None:
    """Load the lines on clusters and compare answers to searches made up from the items."""
    dice = random.Random(name)
    configuration = configuration_of(name)
    items = [json.loads(line) for line in lines]
    oracle = Oracle(configuration)
    oracle.put(items)
    indexes = [Index(services(count).client(), f"set-{name}") for count in shard_counts]
    try:
        for index in indexes:
            assert index.configure(configuration).status == 200
            reply = index.load(b"".join(lines))
            assert reply.status == 200, reply.body[:500]
            assert reply.json["created"] == len(oracle.items)
        for _ in range(NUM_SEARCHES):
            parameters = made_up_search(dice, items, list(configuration["aggregations"]))
            replies = [index.post("search", parameters) for index in indexes]
            assert [reply.status for reply in replies] == [200] * len(replies), replies[0].body
            assert len({stable(reply.body) for reply in replies}) == 1, parameters
            check(replies[0].json, oracle.search(**parameters), parameters)
            for index in indexes:
                index.client.close()  # the model takes longer than idle connections are kept
        for key in dice.sample(list(oracle.items), 3):
            assert indexes[-1].get(f"items/{key}").json == oracle.items[key]
    finally:
        for index in indexes:
            index.client.delete(index.path)
            index.client.close()


@pytest.mark.parametrize("name", SETS)
def test_answers_over_a_sample_are_those_of_the_oracle(services: Services, name: str) -> None:
    lines = list(lines_of(name))
    step = max(1, len(lines) // NUM_SAMPLED)

    compare(services, name, lines[::step][:NUM_SAMPLED], [1, 3])


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", SETS)
def test_answers_over_a_whole_set_are_those_of_the_oracle(services: Services, name: str) -> None:
    compare(services, name, list(lines_of(name)), [2])
