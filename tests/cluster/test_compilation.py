"""Nothing is compiled while serving: the servers import no compiler."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.conftest import Services


def test_first_search_and_first_write_compile_nothing(services: Services) -> None:
    service = services(2)
    client = service.client()
    index = "compilation"
    client.post(f"/{index}/configuration", {"aggregations": {"brand": {}}})
    items = [{"id": i, "title": f"first words {i}", "brand": "b"} for i in range(50)]
    assert client.post(f"/{index}/items", items).status == 200
    answer = client.search(index, query="first wrods", facet_fields=["brand"], sort_field="id")
    assert answer["pagination"]["total"] == 50
    client.close()
    pids = service.pids()
    assert len(pids) == 5
    for pid in pids:
        mapped = Path(f"/proc/{pid}/maps").read_text()
        assert "llvmlite" not in mapped
        assert "/numba/" not in mapped
    shards = [pid for pid in pids if "_compiled.abi3.so" in Path(f"/proc/{pid}/maps").read_text()]
    assert len(shards) >= 3  # the coordinator and what the shards are forked from
