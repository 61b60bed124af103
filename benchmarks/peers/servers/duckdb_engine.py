"""DuckDB: columns and its full-text extension; facets by GROUP BY over a temporary table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.servers.thin_server import Found, Search

duckdb: Any = import_module("duckdb")

COLUMNS = {
    "id": "INTEGER",
    "title": "VARCHAR",
    "description": "VARCHAR",
    "brand": "VARCHAR",
    "category": "VARCHAR",
    "tags": "VARCHAR[]",
    "country": "VARCHAR",
    "price": "DOUBLE",
    "rating": "DOUBLE",
    "year": "INTEGER",
    "in_stock": "BOOLEAN",
}


def _connect(folder: str) -> Any:
    package = Path(import_module("duckdb_extension_fts").__file__ or "").parent
    extension = next(package.rglob("*.duckdb_extension*"))
    connection = duckdb.connect(folder + "/db", config={"allow_unsigned_extensions": "true"})
    connection.execute(f"load '{extension}'")
    return connection


def build(items: str, folder: str) -> None:
    """Load and index."""
    connection = _connect(folder)
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
    connection.execute(
        "create table item as select * from read_json(?, format='newline_delimited', "
        f"columns={{{columns}}})",
        [items],
    )
    connection.execute("create index by_id on item(id)")
    connection.execute(
        "pragma create_fts_index('item', 'id', 'title', 'description', "
        "stemmer='none', stopwords='none', ignore='[^a-z]+')"
    )
    connection.close()


class Engine:
    """One opened database."""

    def __init__(self, folder: str) -> None:
        self.connection = _connect(folder)

    def search(self, search: Search) -> Found:
        """Collect the hits in a temporary table, then read it once for each part of the answer."""
        execute = self.connection.execute
        source, conditions, arguments = "item", [], []
        if search.words:
            source = (
                "(select *, fts_main_item.match_bm25(id, ?, conjunctive := 1) as score from item)"
            )
            conditions.append("score is not null")
            arguments.append(" ".join(search.words))
        for name, values in search.filters:
            quoted = ",".join(f"'{value}'" for value in values)
            conditions.append(
                f"list_has_any(tags, [{quoted}])" if name == "tags" else f"{name} in ({quoted})"
            )
        where = " where " + " and ".join(conditions) if conditions else ""
        columns = "id, brand, category, country, tags, price" + (", score" if search.words else "")
        execute(
            f"create or replace temp table hit as select {columns} from {source}{where}", arguments
        )
        total = execute("select count(*) from hit").fetchone()[0]
        order = "order by score desc" if search.words else ""
        if search.sort:
            order = f"order by {search.sort} desc"
        page = f"(select id from hit {order} limit {search.per_page} offset {search.offset})"
        named = ", ".join(f"{name} := {name}" for name in COLUMNS)
        rows = execute(
            f"select to_json(struct_pack({named}))::varchar from item "
            f"where id in {page} {_again(order)}"
        ).fetchall()
        facets = {}
        for name in search.facets:
            value = "unnest(tags)" if name == "tags" else name
            facets[name] = execute(
                f"select v, count(*) n from (select {value} v from hit) "
                "group by v order by n desc limit 10"
            ).fetchall()
        return Found(total, facets, [row[0].encode() for row in rows])

    def item(self, number: int) -> bytes:
        """Return one item."""
        named = ", ".join(f"{name} := {name}" for name in COLUMNS)
        rows = self.connection.execute(
            f"select to_json(struct_pack({named}))::varchar from item where id = ?", [number]
        )
        text: str = rows.fetchone()[0]
        return text.encode()


def _again(order: str) -> str:
    """Order the page as the hits were, where the item itself has the key."""
    return "" if "score" in order else order
