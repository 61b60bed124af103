"""SQLite: FTS5 for text, a narrow table for each facet, counts by GROUP BY."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.servers.thin_server import Found, Search

orjson: Any = import_module("orjson")

FACETS = ("brand", "category", "country", "tags")
BATCH_ITEMS = 20_000
PRAGMAS = ("journal_mode=wal", "cache_size=-1000000", "temp_store=memory", "mmap_size=8000000000")


def _connect(folder: str) -> sqlite3.Connection:
    connection = sqlite3.connect(folder + "/db", isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute("pragma " + pragma)
    return connection


def build(items: str, folder: str) -> None:
    """Load in one transaction, then make the indexes."""
    connection = _connect(folder)
    execute, many = connection.execute, connection.executemany
    execute("create table item(id integer primary key, source blob, price real)")
    execute("create virtual table text using fts5(title, description, content='', detail=column)")
    codes: dict[str, dict[str, int]] = {name: {} for name in FACETS}
    for name in FACETS:
        execute(f"create table {name}(id integer, v integer, primary key(id, v)) without rowid")
        execute(f"create table {name}_value(v integer primary key, key text unique)")
    execute("begin")
    batch: list[tuple[bytes, dict[str, Any]]] = []

    def flush() -> None:
        many("insert into item values(?,?,?)", [(x["id"], s, x["price"]) for s, x in batch])
        many(
            "insert into text(rowid, title, description) values(?,?,?)",
            [(x["id"], x["title"], x["description"]) for _, x in batch],
        )
        for name, known in codes.items():
            rows = []
            for _, item in batch:
                values = item[name] if name == "tags" else (item[name],)
                rows += [(item["id"], known.setdefault(value, len(known))) for value in values]
            many(f"insert into {name} values(?,?)", rows)
        batch.clear()

    with Path(items).open("rb") as file:
        for line in file:
            batch.append((line.rstrip(b"\n"), orjson.loads(line)))
            if len(batch) == BATCH_ITEMS:
                flush()
    flush()
    for name, known in codes.items():
        many(f"insert into {name}_value values(?,?)", [(v, key) for key, v in known.items()])
        execute(f"create index {name}_by_value on {name}(v, id)")
    execute("create index item_by_price on item(price)")
    execute("insert into text(text) values('optimize')")
    execute("commit")
    execute("analyze")
    connection.close()


class Engine:
    """One opened database."""

    def __init__(self, folder: str) -> None:
        self.connection = _connect(folder)
        self.connection.execute("create temp table hit(id integer primary key)")
        rows = self.connection.execute
        self.names = {name: dict(rows(f"select v, key from {name}_value")) for name in FACETS}
        self.codes = {n: {key: v for v, key in known.items()} for n, known in self.names.items()}

    def search(self, search: Search) -> Found:
        """Search, then count by facet."""
        execute = self.connection.execute
        source, arguments = self._source(search)
        total = execute(f"select count(*) from ({source})", arguments).fetchone()[0]
        page = f"limit {search.per_page} offset {search.offset}"
        if search.words:
            rows = execute(f"{source} order by rank {page}", arguments).fetchall()
        else:
            order = f"order by {search.sort} desc" if search.sort else ""
            rows = execute(f"{source} {order} {page}").fetchall()
        facets = self._count(search, source, arguments) if search.facets else {}
        one = "select source from item where id=?"
        return Found(total, facets, [execute(one, row).fetchone()[0] for row in rows])

    def _source(self, search: Search) -> tuple[str, list[str]]:
        """Return the statement that yields the ids of all hits."""
        if search.words:
            words = " AND ".join(search.words) + ("*" if search.is_prefix else "")
            return "select rowid id from text where text match ?", [words]
        conditions = []
        for name, values in search.filters:
            codes = ",".join(str(self.codes[name][v]) for v in values if v in self.codes[name])
            conditions.append(f"id in (select id from {name} where v in ({codes}))")
        where = " where " + " and ".join(conditions) if conditions else ""
        return f"select id from item{where}", []

    def _count(
        self, search: Search, source: str, arguments: list[str]
    ) -> dict[str, list[tuple[str, int]]]:
        execute = self.connection.execute
        among = "{0}"
        if search.words or search.filters:
            execute("delete from hit")
            execute(f"insert into hit {source}", arguments)
            among = "hit join {0} using(id)"
        facets = {}
        for name in search.facets:
            statement = f"select v, count(*) n from {among} group by v order by n desc limit 10"
            rows = execute(statement.format(name))
            facets[name] = [(self.names[name][v], count) for v, count in rows]
        return facets

    def item(self, number: int) -> bytes:
        """Return one item."""
        rows = self.connection.execute("select source from item where id=?", (number,))
        source: bytes = rows.fetchone()[0]
        return source
