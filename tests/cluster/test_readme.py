"""The example of geo points and variants in the README, line by line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Services

README = Path(__file__).parents[2] / "README.md"
_LINE = re.compile(r"^    POST (/shirts/\S+) (.+)$", re.MULTILINE)


def test_requests_about_places_and_variants_answer_as_the_readme_says(services: Services) -> None:
    client = services(2).client()
    answers: list[Any] = []
    try:
        for path, body in _LINE.findall(README.read_text()):
            reply = client.request(
                "POST", path, body.encode(), {"content-type": "application/json"}
            )
            assert reply.status == 200, reply.body
            json.loads(body)
            answers.append(reply.json)
    finally:
        client.delete("/shirts")
        client.close()
    same, near, cheap = [answer["data"] for answer in answers[2:]]
    assert [(item["id"], item["_elements"]) for item in same["items"]] == [(1, {"variants": [0]})]
    counts = {
        name: {one["key"]: one["doc_count"] for one in facet["buckets"]}
        for name, facet in same["aggregations"].items()
    }
    assert counts == {
        "variants.color": {"red": 1, "blue": 1},
        "variants.size": {"M": 1, "L": 1},
    }
    assert [(item["id"], item["_geoDistance"]) for item in near["items"]] == [(2, 143_677)]
    assert [item["id"] for item in cheap["items"]] == [1, 2]
    assert sum(cell["doc_count"] for cell in cheap["ranges"]["_geo"]) == 2
