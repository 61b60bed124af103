"""A naive in-memory stand-in for the service, only for developing the dashboard."""

from __future__ import annotations

import argparse
import asyncio
import gzip
import html
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from coordinator import dashboard

Json = dict[str, Any]
INDEXES: dict[str, Json] = {}
STARTED = time.time()
TOTAL = Counter()
CSP = {"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff"}


def fail(status: int, code: str, message: str, param: str | None = None) -> web.HTTPException:
    body = {"error": {"code": code, "message": message, "status": status, "request_id": "mock"}}
    if param:
        body["error"]["param"] = param
    response = web.json_response(body, status=status)
    return response


def values(item: Json, field: str) -> list[Any]:
    value = item.get(field)
    return [v for v in (value if isinstance(value, list) else [value]) if v is not None]


def key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def keep(item: Json, field: str, spec: Any, conjunction: bool) -> bool:
    have = values(item, field)
    if isinstance(spec, dict):
        low, high = spec.get("gte"), spec.get("lt")
        if low is not None or high is not None:
            have = [
                v
                for v in have
                if (low is None or v >= type(v)(low)) and (high is None or v < type(v)(high))
            ]
            if not have:
                return False
        keys = {key(v) for v in values(item, field)}
        if spec.get("any") and not keys & set(spec["any"]):
            return False
        return not (spec.get("all") and not set(spec["all"]) <= keys)
    keys = {key(v) for v in have}
    want = [key(v) for v in spec]
    if not want:
        return True
    return all(w in keys for w in want) if conjunction else any(w in keys for w in want)


def text_of(item: Json) -> str:
    return " ".join(
        str(v) for value in item.values() for v in (value if isinstance(value, list) else [value])
    )


def search(index: Json, body: Json) -> tuple[list[Json], dict[str, list[Json]]]:
    aggs = index["configuration"].get("aggregations", {})
    words = body.get("query", "").lower().split()
    filters, nots = body.get("filters", {}), body.get("not_filters", {})

    def conj(f: str) -> bool:
        return (
            body.get("facets", {})
            .get(f, {})
            .get("conjunction", aggs.get(f, {}).get("conjunction", True))
        )

    base = [
        i
        for i, t in zip(index["items"], index["texts"])
        if all(w in t for w in words)
        and not any({key(v) for v in values(i, f)} & {key(v) for v in vs} for f, vs in nots.items())
    ]
    hits = [i for i in base if all(keep(i, f, s, conj(f)) for f, s in filters.items())]
    own = {
        f: [i for i in base if all(keep(i, g, s, conj(g)) for g, s in filters.items() if g != f)]
        if f in filters and not conj(f)
        else hits
        for f in aggs
    }
    return hits, own


def buckets(index: Json, items: list[Json], field: str, selected: list[str]) -> list[Json]:
    counts: Counter[str] = Counter({k: 0 for k in index["keys"].get(field, ())})
    for item in items:
        counts.update({key(v) for v in values(item, field)})
    rows = [{"key": k, "doc_count": n, "selected": k in selected} for k, n in counts.items()]
    rows.sort(key=lambda r: (not r["selected"], -r["doc_count"], r["key"]))
    return rows


def reindex(index: Json) -> None:
    index["texts"] = [text_of(i).lower() for i in index["items"]]
    index["keys"] = {
        f: {key(v) for i in index["items"] for v in values(i, f)}
        for f in index["configuration"].get("aggregations", {})
    }


def mark(text: str, words: list[str], pre: str, post: str) -> str:
    out = html.escape(text)
    for word in words:
        at = out.lower().find(html.escape(word))
        if at >= 0:
            out = out[:at] + pre + out[at : at + len(word)] + post + out[at + len(word) :]
    return out


async def on_search(request: web.Request) -> web.Response:
    index = INDEXES.get(request.match_info["index"])
    if not index:
        return fail(404, "index_not_found", "There is no index of this name.")
    started = time.perf_counter()
    body = await request.json() if request.can_read_body else {}
    if body.get("query") == "boom":
        return fail(503, "shard_unavailable", "Shard 1 does not answer.")
    hits, own = search(index, body)
    aggs = index["configuration"].get("aggregations", {})
    if field := body.get("sort_field"):
        hits = sorted(
            (i for i in hits if field in i),
            key=lambda i: i[field],
            reverse=body.get("order") == "desc",
        ) + [i for i in hits if field not in i]
    page, per_page = body.get("page", 1), body.get("per_page", 10)
    shown = [dict(i) for i in hits[(page - 1) * per_page : page * per_page]]
    words = body.get("query", "").lower().split()
    for item in shown:
        if (mark_spec := body.get("highlight")) and words:
            item["_highlight"] = {
                f: mark(str(item[f]), words, mark_spec["pre"], mark_spec["post"])
                for f in mark_spec["fields"]
                if isinstance(item.get(f), str)
            }
        if "score_details" in body.get("show", []):
            parts = [
                {"term": w, "field": f, "kind": "exact", "score": round(random.random() * 4, 3)}
                for w in words
                for f in ("name", "description")
            ]
            item["_score"] = sum(p["score"] for p in parts)
            item["_score_details"] = parts
    fields = body.get("facet_fields", list(aggs))
    out = {}
    for field in sorted(f for f in fields if f in aggs):
        options = aggs[field] | body.get("facets", {}).get(field, {})
        spec = body.get("filters", {}).get(field, [])
        selected = [key(v) for v in spec] if isinstance(spec, list) else []
        rows = buckets(index, own[field], field, selected)[: options.get("size", 10)]
        out[field] = {
            "name": field,
            "title": options.get("title", field),
            "position": 1,
            "buckets": rows,
        }
        numbers = [v for i in hits for v in values(i, field) if isinstance(v, (int, float))]
        if options.get("stats") and numbers:
            out[field]["facet_stats"] = {
                "min": min(numbers),
                "max": max(numbers),
                "avg": sum(numbers) / len(numbers),
                "sum": sum(numbers),
                "count": len(numbers),
            }
    ranges = {}
    for field, edges in body.get("facet_ranges", {}).items():
        ranges[field] = []
        without = {f: v for f, v in body.get("filters", {}).items() if f != field}
        hits_without = search(index, body | {"filters": without})[0]
        for edge in edges:
            low, high = edge.get("from"), edge.get("to")
            n = sum(
                any(
                    (low is None or v >= low) and (high is None or v < high)
                    for v in values(i, field)
                )
                for i in hits_without
            )
            ranges[field].append({**edge, "doc_count": n})
    took = (time.perf_counter() - started) * 1000
    return web.json_response(
        {
            "pagination": {"page": page, "per_page": per_page, "total": len(hits)},
            "timings": {
                "total": int(took),
                "search": 0,
                "facets": int(took),
                "sort": 0,
                "sorting": 0,
            },
            "data": {"items": shown, "aggregations": out, "ranges": ranges},
            "meta": {"took_us": int(took * 1000), "shards": {"total": 2, "ok": 2, "failed": 0}},
        },
        headers={
            "Server-Timing": f"total;dur={took:.2f}, search;dur={took * 0.6:.2f}, facets;dur={took * 0.3:.2f}, sort;dur={took * 0.1:.2f}"
        },
    )


async def on_facet(request: web.Request) -> web.Response:
    index = INDEXES[request.match_info["index"]]
    body = await request.json()
    field = body["name"]
    hits, own = search(index, body | {"query": body.get("search_query", "")})
    spec = body.get("filters", {}).get(field, [])
    rows = buckets(index, own[field], field, spec if isinstance(spec, list) else [])
    if start := body.get("facet_query", "").lower():
        rows = [r for r in rows if any(w.startswith(start) for w in r["key"].lower().split())]
    page, per_page = body.get("page", 1), body.get("per_page", 10)
    return web.json_response(
        {
            "pagination": {"page": page, "per_page": per_page, "total": len(rows)},
            "data": {"name": field, "buckets": rows[(page - 1) * per_page : page * per_page]},
        }
    )


async def on_configuration(request: web.Request) -> web.Response:
    name = request.match_info["index"]
    if request.method == "GET":
        return web.json_response(INDEXES[name]["configuration"])
    body = await request.json()
    for field, options in body.get("aggregations", {}).items():
        size = options.get("size", 10)
        if not isinstance(size, int) or size < 0:
            return fail(
                400,
                "invalid_configuration",
                "size must be an integer of 0 or more.",
                f"aggregations.{field}.size",
            )
    index = INDEXES.setdefault(name, {"items": [], "texts": [], "keys": {}})
    index["configuration"] = body
    reindex(index)
    unknown = sorted(set(body) - {"aggregations", "searchable_fields", "sorting_fields"})
    return web.json_response(
        {
            "status": "configuration accepted",
            "warnings": [f"Unknown key {k!r} is kept." for k in unknown],
        }
    )


async def on_load(request: web.Request) -> web.Response:
    index = INDEXES[request.match_info["index"]]
    raw = await request.read()
    text = raw.decode()
    errors, good = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            assert isinstance(item, dict)
            good.append(item)
        except Exception as error:
            errors.append(
                {
                    "line": number,
                    "id": None,
                    "code": "invalid_json",
                    "message": str(error) or "not an object",
                }
            )
    if errors and request.query.get("on_error") != "skip":
        return fail(
            400,
            "invalid_items",
            f"Line {errors[0]['line']}: {errors[0]['message']}",
            f"line.{errors[0]['line']}",
        )
    index["items"] += good
    reindex(index)
    return web.json_response(
        {
            "status": "indexed",
            "created": len(good),
            "updated": 0,
            "rejected": len(errors),
            "errors": errors[:1000],
            "seq": 1,
        }
    )


async def on_item(request: web.Request) -> web.Response:
    index, wanted = INDEXES[request.match_info["index"]], request.match_info["id"]
    for n, item in enumerate(index["items"]):
        if str(item.get("id")) == wanted:
            break
    else:
        return fail(404, "item_not_found", "There is no item of this id.")
    if request.method == "DELETE":
        del index["items"][n]
    elif request.method == "POST":
        index["items"][n] = await request.json()
    else:
        return web.json_response(item, headers={"ETag": '"1"'})
    reindex(index)
    return web.json_response({"status": "updated", "seq": 2})


async def on_indexes(request: web.Request) -> web.Response:
    rows = [
        {
            "name": n,
            "items": len(i["items"]),
            "bytes": len(i["items"]) * 380,
            "shards": 2,
            "state": "ready",
            "facets": sorted(i["configuration"].get("aggregations", {})),
            "seq": 7,
        }
        for n, i in INDEXES.items()
    ]
    return web.json_response({"indexes": rows})


async def on_stats(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "uptime_s": time.time() - STARTED,
            "requests": {
                "total": TOTAL["n"],
                "in_flight": 1,
                "errors": 3,
                "per_second": 40 + random.random() * 20,
                "p50_ms": 0.8 + random.random(),
                "p99_ms": 4 + 5 * random.random(),
            },
            "memory_bytes": 180_000_000,
            "shards": [
                {
                    "id": s,
                    "state": "ready",
                    "pid": 4000 + s,
                    "memory_bytes": 240_000_000 + s,
                    "queue": 0,
                    "indexes": [
                        {
                            "name": n,
                            "items": len(i["items"]) // 2,
                            "segments": 4,
                            "bytes": len(i["items"]) * 190,
                            "merging": s == 0,
                        }
                        for n, i in INDEXES.items()
                    ],
                }
                for s in range(2)
            ],
            "slow_queries": [
                {
                    "at": "2025-11-20T07:31:02.120Z",
                    "index": next(iter(INDEXES), ""),
                    "took_ms": 312.4,
                    "request": {"query": "new york <b>x</b>", "filters": {"country": ["France"]}},
                }
            ],
        }
    )


async def on_index_stats(request: web.Request) -> web.Response:
    name = request.match_info["index"]
    index = INDEXES.get(name)
    if not index:
        return fail(
            404,
            "index_not_found",
            f"There is no index {name!r}. POST /{name}/configuration creates it.",
        )
    fields: dict[str, Counter[str]] = {}
    for item in index["items"][:5000]:
        for field, value in item.items():
            for v in value if isinstance(value, list) else [value]:
                kind = (
                    "boolean"
                    if isinstance(v, bool)
                    else "number"
                    if isinstance(v, (int, float))
                    else "string"
                )
                fields.setdefault(field, Counter())[kind] += 1
    return web.json_response(
        {
            "name": name,
            "items": len(index["items"]),
            "bytes": 1,
            "fields": [
                {"name": f, "kinds": sorted(k), "items": sum(k.values())} for f, k in fields.items()
            ],
            "shards": [],
        }
    )


async def on_delete(request: web.Request) -> web.Response:
    INDEXES.pop(request.match_info["index"], None)
    return web.json_response({"status": "deleted"})


async def on_page(request: web.Request) -> web.Response:
    return web.Response(body=dashboard.PAGE, content_type="text/html", charset="utf-8", headers=CSP)


async def on_asset(request: web.Request) -> web.Response:
    content_type, body = dashboard._load_assets()[request.match_info["name"]]
    return web.Response(body=body, headers={"Content-Type": content_type, **CSP})


@web.middleware
async def count(request: web.Request, handler: Any) -> web.StreamResponse:
    TOTAL["n"] += 1
    if (
        not request.path.startswith("/dashboard")
        and request.app["key"]
        and request.headers.get("X-API-Key") != request.app["key"]
    ):
        return fail(401, "unauthorized", "This service needs a key.")
    return await handler(request)


def create_app(api_key: str = "") -> web.Application:
    app = web.Application(client_max_size=2**30, middlewares=[count])
    app["key"] = api_key
    app.add_routes(
        [
            web.get("/dashboard", on_page),
            web.get("/dashboard/{index}", on_page),
            web.get("/dashboard/assets/{name:.+}", on_asset),
            web.get("/_indexes", on_indexes),
            web.get("/_stats", on_stats),
            web.get("/{index}/stats", on_index_stats),
            web.route("*", "/{index}/configuration", on_configuration),
            web.post("/{index}/search", on_search),
            web.post("/{index}/facet", on_facet),
            web.post("/{index}/index", on_load),
            web.delete("/{index}", on_delete),
            web.get("/{index}/items/{id}", on_item),
            web.delete("/{index}/items/{id}", on_item),
            web.post("/{index}/items/{id}/update", on_item),
        ]
    )
    return app


def preload(name: str, path: Path, configuration: Json, limit: int) -> None:
    items = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            items.append(json.loads(line))
            if len(items) == limit:
                break
    INDEXES[name] = {"items": items, "configuration": configuration}
    reindex(INDEXES[name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=3900)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--key", default="")
    args = parser.parse_args()
    if args.data:
        preload(
            "cities",
            args.data / "geonames-cities/items.ndjson.gz",
            {
                "aggregations": {
                    f: {"title": f.replace("_", " ").title()}
                    for f in (
                        "continent",
                        "country",
                        "country_languages",
                        "population",
                        "latitude",
                        "timezone",
                        "population_band",
                    )
                },
                "searchable_fields": ["name^3", "alternate_names"],
            },
            4000,
        )
        preload(
            "cve",
            args.data / "cve-records/items.ndjson.gz",
            {
                "aggregations": {
                    f: {}
                    for f in (
                        "products",
                        "reference_hosts",
                        "weaknesses",
                        "year",
                        "reference_count",
                        "versions",
                    )
                },
                "searchable_fields": ["description", "products^2"],
            },
            6000,
        )
        preload(
            "art",
            args.data / "cmoa-collection/items.ndjson.gz",
            {
                "aggregations": {
                    f: {}
                    for f in (
                        "classification",
                        "created_from",
                        "creators",
                        "on_view",
                        "width_in",
                        "department",
                    )
                }
            },
            4000,
        )
        demo = Path("coordinator/demo")
        INDEXES["films"] = {
            "items": [json.loads(x) for x in (demo / "films.ndjson").read_text().splitlines()],
            "configuration": json.loads((demo / "configuration.json").read_text()),
        }
        reindex(INDEXES["films"])
    web.run_app(create_app(args.key), port=args.port, print=None)
