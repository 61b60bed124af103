"""The recorder of answers uses every parameter, and detects changes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from coordinator.parameters.parameter_table import (
    FACET_PARAMETERS,
    SEARCH_PARAMETERS,
    SUGGEST_PARAMETERS,
)
from tests.recorded_answers import NUM_REQUESTS, SEED, Requests, compare, record
from tests.service import Service


def test_every_parameter_is_used() -> None:
    requests = Requests(SEED)
    for draw, table in (
        (requests.search, SEARCH_PARAMETERS),
        (requests.facet, FACET_PARAMETERS),
        (requests.suggest, SUGGEST_PARAMETERS),
    ):
        used = Counter(name for _ in range(NUM_REQUESTS) for name in draw())
        assert {one.name for one in table} - {"timeout_ms"} <= set(used)


def test_recorded_answers_are_compared_byte_by_byte(tmp_path: Path) -> None:
    file = tmp_path / "answers.ndjson"
    with Service(tmp_path / "data", 2) as service:
        url = f"http://127.0.0.1:{service.port}"
        assert record(url, file, count=60) == 60
        assert compare(url, file) == []
        head, first, *rest = file.read_text().splitlines()
        changed = json.loads(first)
        changed["answer"] += " "
        file.write_text("\n".join([head, json.dumps(changed), *rest]))
        (difference,) = compare(url, file)
        assert changed["path"] in difference
