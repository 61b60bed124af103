"""The interface of an engine in the comparison, and code that the adapters share."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from benchmarks import processes, wrk
from benchmarks.http_client import HttpClient, HttpRequest
from benchmarks.processes import Running
from benchmarks.queries import BASIC_CLASSES, Query
from benchmarks.truth import Answer, TypoRule

ANSWER_SECONDS = 5.0
"""How long a starting server may take to respond before the request is repeated."""


class NotInstalled(Exception):
    """A dependency of a peer is missing; the message says how to install it."""


class Peer:
    """One engine, loaded into a folder of its own and served on this machine.

    `load` starts from an empty folder and ends when every item is durable and searchable; `open`
    starts what was loaded; `request` and `parse` translate queries and answers. A peer that does
    not speak HTTP overrides `ask` and `measure`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """What it is, with its version and how it is reached, for the table."""
    classes: ClassVar[tuple[str, ...]] = BASIC_CLASSES
    typo_rule: ClassVar[TypoRule] = TypoRule()
    is_memory_only: ClassVar[bool] = False
    """Whether opening means loading again."""
    warm_seconds: ClassVar[float] = 1.0
    """How long to run a class before it is measured; a virtual machine gets more."""

    def __init__(self, num_items: int, home: Path | None = None) -> None:
        self.num_items = num_items
        self.home = home or processes.home()
        self.folder = self.home / "data" / f"{self.name}-{num_items}"
        self.log = self.home / "logs" / f"{self.name}.txt"
        self.port = processes.free_port()
        self.client = HttpClient(self.port)
        self.running: Running | None = None

    @property
    def description(self) -> str:
        """The title, with what was chosen for this one."""
        return self.title

    # --- for adapters

    def check_installed(self) -> None:
        """Raise `NotInstalled` if something is missing."""

    def load(self, items: Path) -> float:
        """Load a file of newline-delimited JSON; returns the seconds that it took.

        A server is started before the clock is, a library's process after.
        """
        raise NotImplementedError

    def open(self) -> None:
        """Start serving the loaded data; returns when requests are answered."""
        raise NotImplementedError

    def request(self, query: Query) -> HttpRequest:
        """Translate a query into the engine's language."""
        raise NotImplementedError

    def parse(self, query: Query, body: bytes) -> Answer:
        """Read an answer."""
        raise NotImplementedError

    # --- shared

    def empty_folder(self) -> None:
        """Start over."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def start(
        self,
        command: Sequence[str | Path],
        is_ready: Callable[[], bool] | None = None,
        **options: Any,
    ) -> Running:
        """Start a process that `close` will stop."""
        self.running = Running(command, self.log, **options)
        if is_ready is not None:
            self.running.wait_until(is_ready)
        return self.running

    def answers(self, target: str, status: int = 200) -> Callable[[], bool]:
        """Return a question whether a page is there; it waits a few seconds for the answer."""

        def is_there() -> bool:
            client = HttpClient(self.port, ANSWER_SECONDS)
            try:
                return client.request("GET", target)[0] == status
            finally:
                client.close()

        return is_there

    def close(self) -> None:
        """Stop what runs."""
        self.client.close()
        if self.running is not None:
            self.running.stop()
            self.running = None

    def kill(self) -> None:
        """Kill what runs, all processes at once."""
        assert self.running is not None
        self.running.kill()
        self.close()

    def pids(self) -> list[int]:
        """Return all processes of the engine."""
        return self.running.pids() if self.running else []

    def ask(self, query: Query) -> Answer:
        """Ask one query."""
        return self.parse(query, self.client.send(self.request(query)))

    def measure(
        self, class_name: str, queries: Sequence[Query], *, clients: int, seconds: float
    ) -> wrk.Load:
        """Send the queries of a class in a cycle."""
        file = self.home / "requests" / f"{self.name}-{class_name}.txt"
        wrk.write_requests(file, (self.request(query) for query in queries))
        return wrk.run(self.port, file, connections=clients, seconds=seconds)


def batches(items: Path, count: int) -> Iterator[list[bytes]]:
    """Read a file in lists of lines without line ends."""
    lines: list[bytes] = []
    with items.open("rb") as file:
        for line in file:
            lines.append(line.rstrip(b"\n"))
            if len(lines) == count:
                yield lines
                lines = []
    if lines:
        yield lines


def read_items(documents: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    """Return ids and prices of the items of a page."""
    return [int(d["id"]) for d in documents], [float(d["price"]) for d in documents]


class ThinPeer(Peer):
    """A library behind the thinnest HTTP server of its language; all speak one small language.

    GET /search?text=…&f.tags=a,b&facets=brand,tags&sort=price&page=1&per_page=10
               &prefix=1&typos=1&disjunctive=1&phrase=1&distinct=category&r.price=2.5,9
        → {"total": n, "facets": {"brand": [["value", count], …]}, "items": [whole items]}
    GET /item/7 → the item
    """

    def request(self, query: Query) -> HttpRequest:
        """Translate a query into the common language of the thin servers."""
        if query.item_id is not None:
            return HttpRequest(f"/item/{query.item_id}")
        parameters: dict[str, str | int] = {"page": query.page, "per_page": query.per_page}
        optional = {
            "text": query.text,
            "facets": ",".join(query.facets),
            "sort": query.sort,
            "prefix": int(query.is_prefix),
            "typos": query.num_typos,
            "disjunctive": int(query.is_disjunctive),
            "phrase": int(query.is_phrase),
            "distinct": query.distinct,
            **{f"r.{name}": f"{low},{high}" for name, (low, high) in query.ranges.items()},
            **{f"f.{name}": ",".join(values) for name, values in query.filters.items()},
        }
        parameters.update({name: value for name, value in optional.items() if value})
        return HttpRequest("/search?" + urlencode(parameters, safe=","))

    def parse(self, query: Query, body: bytes) -> Answer:
        """Read an answer of a thin server."""
        answer = json.loads(body)
        if query.item_id is not None:
            return Answer(ids=[int(answer["id"])])
        ids, prices = read_items(answer["items"])
        facets = {name: [(k, n) for k, n in rows] for name, rows in answer["facets"].items()}
        return Answer(answer["total"], facets, ids, prices)


class PythonPeer(ThinPeer):
    """A Python library served by granian, two worker processes."""

    engine: ClassVar[str]
    """Module of `servers/` that has `build` and `Engine`."""
    packages: ClassVar[tuple[str, ...]]
    num_workers: ClassVar[int] = 2

    @property
    def interpreter(self) -> Path:
        """Return the interpreter of the peers' own environment."""
        return self.home / "venv" / "bin" / "python"

    def check_installed(self) -> None:
        """Look for the environment and the packages."""
        require_packages(self.interpreter, (*self.packages, "granian"), self.name)

    def load(self, items: Path) -> float:
        """Build the index in a process of its own."""
        self.empty_folder()
        started = time.monotonic()
        command: list[str | Path] = [self.interpreter, "-m", THIN_SERVER, self.engine]
        command += [items, self.folder]
        with Running(command, self.log) as building:
            building.finish()
        return time.monotonic() - started

    def open(self) -> None:
        """Serve the index."""
        self.start(
            [
                self.interpreter.with_name("granian"),
                *("--interface", "rsgi", "--host", "127.0.0.1", "--port", str(self.port)),
                *("--workers", str(self.num_workers), "--no-ws", "--loop", "uvloop"),
                *("--log-level", "warning", "--no-access-log", f"{THIN_SERVER}:app"),
            ],
            self.answers("/item/1"),
            environment={"THIN_ENGINE": self.engine, "THIN_FOLDER": str(self.folder)},
        )


SERVERS = Path(__file__).with_name("servers")
THIN_SERVER = "benchmarks.peers.servers.thin_server"


def require_packages(interpreter: Path, packages: Sequence[str], peer: str) -> None:
    """Raise `NotInstalled` unless the interpreter's environment has the packages."""
    names = {
        path.name.partition("-")[0].lower().replace("_", "-")
        for path in interpreter.parent.parent.glob("lib/python*/site-packages/*.dist-info")
    }
    missing = [name for name in packages if name not in names]
    if missing:
        raise NotInstalled(f"{', '.join(missing)}: python -m benchmarks.peers.install {peer}")
