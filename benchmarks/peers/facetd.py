"""facetd itself, through its public endpoints only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import processes
from benchmarks.corpus import FACETS
from benchmarks.http_client import JSON, TEXT, HttpRequest
from benchmarks.peers.base import Peer, read_items
from benchmarks.queries import CLASSES, Query
from benchmarks.truth import Answer, TypoRule
from coordinator.settings import SHARDS_DEFAULT

INDEX = "shop"

CONFIGURATION: Mapping[str, Any] = {
    "aggregations": {name: {"size": 10, "conjunction": name == "tags"} for name in FACETS},
    "searchable_fields": ["title", "description"],
}

READ_BYTES = 1 << 20
RESULT_CACHE_BYTES = 64 << 20


class Facetd(Peer):
    """facetd with as many shards as asked for, with or without its result cache."""

    name: ClassVar[str] = "facetd"
    title: ClassVar[str] = "facetd, its own HTTP server"
    classes: ClassVar[tuple[str, ...]] = tuple(CLASSES)
    typo_rule: ClassVar[TypoRule] = TypoRule(keeps_first_letter=True)

    def __init__(
        self,
        num_items: int,
        home: Path | None = None,
        *,
        num_shards: int = SHARDS_DEFAULT,
        caches_results: bool = False,
        checkout: Path | None = None,
    ) -> None:
        """Prepare a service.

        Args:
            num_items: of the corpus.
            home: of everything that measuring needs; as configured if None.
            num_shards: of the service; by default as many as it has on this machine.
            caches_results: whether it keeps whole responses.
            checkout: of another version to run, with its environment in `.venv`; None: this one.
        """
        super().__init__(num_items, home)
        self.checkout = checkout
        self.num_shards = num_shards
        self.result_cache_bytes = RESULT_CACHE_BYTES if caches_results else 0
        self.folder = self.folder.with_name(f"{self.folder.name}-{num_shards}")
        self.launcher: tuple[str, ...] = ()
        """Words in front of the command, as of a program that limits the ones it starts."""
        self.serve_options: tuple[str, ...] = ()
        """Further options of the command."""

    @property
    def description(self) -> str:
        """The title, with the number of shards."""
        return f"{self.title}, shards: {self.num_shards}"

    def start_service(self) -> None:
        """Start the service on the folder, whatever is in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        python: str | Path = processes.python()
        if self.checkout is not None:
            python = self.checkout.absolute() / ".venv" / "bin" / "python"
        self.start(
            [
                *(*self.launcher, python, "-m", "coordinator", "serve"),
                *("--port", str(self.port), "--shards", str(self.num_shards)),
                *("--data-dir", self.folder),
                *("--result-cache-bytes", str(self.result_cache_bytes)),
                *self.serve_options,
            ],
            self.answers("/_ready"),
            folder=self.checkout or processes.REPOSITORY,
        )

    def configure(self, configuration: Mapping[str, Any], index: str = INDEX) -> None:
        """Create or configure an index."""
        body = json.dumps(configuration).encode()
        self.client.ask("POST", f"/{index}/configuration", body, JSON)

    def shards(self) -> list[dict[str, Any]]:
        """Return the shards as the service describes them."""
        shards: list[dict[str, Any]] = json.loads(self.client.ask("GET", "/_stats"))["shards"]
        return shards

    def shard_pids(self) -> list[int]:
        """Return the processes of the shards."""
        return [shard["pid"] for shard in self.shards()]

    def load_file(self, items: Path, index: str = INDEX, copy: int = 0) -> dict[str, Any]:
        """Load a file of newline-delimited JSON in one streamed request.

        Args:
            items: the file, as `corpus.py` writes it.
            index: where the items go.
            copy: 0: the items as they are; 1 to 9: as further items, with other ids.
        """
        size = items.stat().st_size
        pieces = _pieces(items)
        if copy:
            digits = b"%d0000000" % copy
            size += self.num_items * len(digits)
            pieces = _with_other_ids(pieces, digits)
        headers = {**TEXT, "content-length": str(size)}
        answer = self.client.ask("POST", f"/{index}/index", pieces, headers)
        result: dict[str, Any] = json.loads(answer)
        return result

    def load(self, items: Path) -> float:
        """Load the corpus; every item is durable and searchable when the answer comes."""
        self.empty_folder()
        self.start_service()
        self.configure(CONFIGURATION)
        started = time.monotonic()
        self.load_file(items)
        return time.monotonic() - started

    def open(self) -> None:
        """Start on the loaded data."""
        self.start_service()

    def request(self, query: Query) -> HttpRequest:
        """Translate a query; typos and prefixes are off where the peers have them off."""
        if query.item_id is not None:
            return HttpRequest(f"/{INDEX}/items/{query.item_id}")
        body: dict[str, Any] = {
            "page": query.page,
            "per_page": query.per_page,
            "facet_fields": query.facets,
        }
        if query.text:
            prefix = "last" if query.is_prefix else "none"
            text = f'"{query.text}"' if query.is_phrase else query.text
            body.update(query=text, typo=query.num_typos, prefix=prefix)
        if query.distinct:
            body["distinct"] = query.distinct
        if query.filters or query.ranges:
            ranges = {n: {"gte": low, "lte": high} for n, (low, high) in query.ranges.items()}
            body["filters"] = {**query.filters, **ranges}
            if query.facets and not query.is_disjunctive:
                body["facet_mode"] = "strict"
        if query.sort:
            body.update(sort_field=query.sort, order="desc")
        return HttpRequest(f"/{INDEX}/search", "POST", JSON, json.dumps(body))

    def parse(self, query: Query, body: bytes) -> Answer:
        """Read an answer."""
        answer = json.loads(body)
        if query.item_id is not None:
            return Answer(ids=[int(answer["id"])])
        ids, prices = read_items(answer["data"]["items"])
        facets = {
            name: [(bucket["key"], bucket["doc_count"]) for bucket in facet["buckets"]]
            for name, facet in answer["data"].get("aggregations", {}).items()
        }
        return Answer(answer["pagination"]["total"], facets, ids, prices)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            yield piece


def _with_other_ids(pieces: Iterator[bytes], digits: bytes) -> Iterator[bytes]:
    """Put digits in front of the id of every item, the first member of its line."""
    member = b'{"id":'
    rest = b""
    for piece in pieces:
        whole, separator, rest = (rest + piece).rpartition(b"\n")
        yield (whole + separator).replace(member, member + digits)
    yield rest.replace(member, member + digits)
