"""The catalogue of hostile requests, and of mistakes that many clients make, by subject.

Every case is the bytes of one request and what may come back: a set of statuses, and the error code
where there is one to expect. The rules that hold for all of them are in `test_hostile_requests`: a
JSON error in the one shape, never a 5xx, and the connection or the next one still works. The index
`films` exists, has facets `tags` (disjunctive), `country`, `director`, `year`, and the item 1.
"""

from __future__ import annotations

from tests.http.hostile.algolia import algolia
from tests.http.hostile.bodies import bodies, content_types
from tests.http.hostile.operations import operations
from tests.http.hostile.protocol import headers, methods, paths, protocol
from tests.http.hostile.searches import expressions, filters, numbers, parameters
from tests.http.hostile.writes import bulk, configurations, items

GROUPS = {
    group.__name__: list(group())
    for group in (
        numbers,
        filters,
        expressions,
        parameters,
        bodies,
        content_types,
        paths,
        methods,
        protocol,
        headers,
        items,
        bulk,
        configurations,
        operations,
        algolia,
    )
}
