"""Analytics of a real service: counted, asked, kept, off."""

from __future__ import annotations

from pathlib import Path

from tests.service import Service


def test_searches_and_clicks_are_counted_and_kept(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 2) as service:
        client = service.client()
        client.post("/films/configuration", {})
        client.post("/films/items", [{"id": 7, "name": "sea"}, {"id": 8, "name": "land"}])
        client.get("/films/search", query="sea")
        client.get("/films/search", query="sea", page="2")
        client.get("/films/search", query="nothing")
        client.post("/_search", {"searches": [{"index": "films", "query": "land"}]})
        queries = {"requests": [{"indexName": "films", "query": "bird"}]}
        client.post("/1/indexes/*/queries", queries)
        click = {"index": "films", "query": "sea", "id": 7, "position": 1}
        other = {**click, "query": "never searched"}
        reply = client.post("/_analytics/clicks", {"clicks": [click, other]})
        assert reply.json == {"status": "counted", "counted": 1}
        found = client.get("/_analytics").json
        assert {row["query"] for row in found["popular"]} == {"sea", "nothing", "land", "bird"}
        assert {row["query"] for row in found["without_hits"]} == {"nothing", "bird"}
        assert found["clicked"] == [{"index": "films", "id": "7", "clicks": 1, "position": 1.0}]
        assert found["searches"] == 4
        client.post("/_aliases", {"aliases": {"cinema": "films"}})
        assert (
            client.get("/_analytics?index=cinema").json
            == client.get("/_analytics?index=films").json
        )
        for path, code in (
            ("/_analytics?index=none", "index_not_found"),
            ("/_analytics?days=0", "invalid_days"),
            ("/_analytics?size=x", "invalid_size"),
            ("/_analytics?sizes=3", "unknown_parameter"),
        ):
            assert client.get(path).json["error"]["code"] == code
        for clicks in ([], [1], [{"index": "films"}], [{**click, "position": 0}], [{"x": 1}]):
            reply = client.post("/_analytics/clicks", {"clicks": clicks})
            assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_body")
        missing = {"clicks": [{"index": "none", "id": 1}]}
        assert client.post("/_analytics/clicks", missing).status == 404
        client.close()
        service.terminate()
        service.start()
        client = service.client()
        after = client.get("/_analytics").json
        assert after["searches"] == 4
        assert after["popular"] == found["popular"]
        assert client.request("DELETE", "/_analytics?index=films").status == 200
        assert client.get("/_analytics").json["searches"] == 0
        # Keys: the search key may send clicks and see nothing.
        admin = client.post("/_keys", {"actions": ["admin", "search"]}).json["key"]
        client.headers["authorization"] = f"Bearer {admin}"
        search = client.post("/_keys", {"actions": ["search"], "indexes": ["films"]}).json["key"]
        client.get("/films/search", query="sea")
        client.headers["authorization"] = f"Bearer {search}"
        assert client.get("/_analytics").status == 403
        assert client.post("/_analytics/clicks", {"clicks": [click]}).json["counted"] == 1
        # What others search for is not for a key with a filter to find out.
        client.headers["authorization"] = f"Bearer {admin}"
        key = client.post("/_keys", {"actions": ["search"], "filter": "id = 8"}).json["key"]
        client.headers["authorization"] = f"Bearer {key}"
        guesses = {"clicks": [click, {**click, "query": "never searched"}]}
        assert client.post("/_analytics/clicks", guesses).json["counted"] == 2
        client.headers["authorization"] = f"Bearer {admin}"
        assert client.get("/_analytics").json["clicked"][0]["clicks"] == 2
        client.close()


def test_analytics_are_off_where_no_days_are_kept(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1, environment={"FACETD_ANALYTICS_DAYS": "0"}) as service:
        client = service.client()
        client.post("/films/configuration", {})
        client.get("/films/search", query="sea")
        reply = client.get("/_analytics")
        assert (reply.status, reply.json["error"]["code"]) == (404, "analytics_off")
        client.close()
        service.terminate()
        assert not (tmp_path / "data" / "analytics").exists()
