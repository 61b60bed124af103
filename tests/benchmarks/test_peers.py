"""Adapters and the report, without any peer installed."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from benchmarks import corpus
from benchmarks.compare import BEFORE, Loaded, Report, Result, Round
from benchmarks.corpus import Shape
from benchmarks.peers import PEERS, check_name, facetd, make
from benchmarks.peers.base import NotInstalled
from benchmarks.peers.servers import thin_server
from benchmarks.peers.sqlite import Sqlite
from benchmarks.processes import Memory
from benchmarks.queries import make_queries
from benchmarks.truth import TruthTeller, differences

NUM_ITEMS = 300
SHAPE = Shape(num_words=2_000, num_brands=40, num_categories=12, num_tags=60, num_countries=8)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACETD_BENCHMARKS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "facetd"])
def test_a_peer_that_is_not_installed_says_how_to_install_it(name: str) -> None:
    with pytest.raises(NotInstalled, match=r"benchmarks\.peers\.install|apt-get install"):
        make(name, NUM_ITEMS).check_installed()


def test_every_peer_says_every_query_of_its_classes() -> None:
    for name in PEERS:
        peer = make(name, NUM_ITEMS)
        if name != "redisearch":  # speaks no HTTP
            for class_name, queries in make_queries(SHAPE, NUM_ITEMS, count=5).items():
                if class_name in peer.classes:
                    assert all(peer.request(query).target.startswith("/") for query in queries)


def test_a_thin_server_answers_like_the_truth(tmp_path: Path) -> None:
    items = corpus.write(tmp_path / "items.ndjson", SHAPE, NUM_ITEMS)
    engine_module = importlib.import_module("benchmarks.peers.servers.sqlite_engine")
    engine_module.build(str(items), str(tmp_path))
    engine = engine_module.Engine(str(tmp_path))
    peer, teller = Sqlite(NUM_ITEMS), TruthTeller(SHAPE, NUM_ITEMS)
    for class_name, queries in make_queries(SHAPE, NUM_ITEMS, count=5).items():
        for query in queries if class_name in peer.classes else ():
            target = peer.request(query).target
            if query.item_id is not None:
                body = engine.item(query.item_id)
            else:
                body = thin_server.run(engine, thin_server.read(target.partition("?")[2]))
            assert differences(query, teller.answer(query), peer.parse(query, body)) == []
    engine.connection.close()


def load(median_ms: float) -> dict[str, float]:
    return {"median_ms": median_ms, "p99_ms": 2, "per_second": 10, "processor_us": 5}


def test_the_report_has_medians_multiples_and_what_disagrees() -> None:
    floors = [Round(0, one={"fan-out 2": load(0.5), "item": load(0.1)})]
    found = {
        "facetd": Result(
            "facetd",
            [Loaded(1.0, 1_000.0, 500)],
            [Round(0.5, Memory(600, 100), {"Q1": load(ms)}) for ms in (1, 2, 9)],
        ),
        "tantivy": Result(
            "tantivy",
            rounds=[Round(0.5, Memory(800), {"Q1": load(4), "Q2": {**load(1), "num_errors": 3}})],
        ),
        "typesense": Result(
            "typesense",
            rounds=[Round(0.5, Memory(900), {"Q1": load(1)})],
            wrong={"Q1": "1 of 9: total"},
        ),
    }
    found[BEFORE] = Result("facetd", rounds=[Round(0.5, Memory(600), {"Q1": load(8)})])
    report = Report(found, floors, 2, json_bytes=1_000)
    table = report.measure("one", "median_ms", "least").splitlines()
    assert table[2].startswith("| floor | 0.500")
    assert table[3] == "| facetd | **2.00** | - |"
    assert table[5] == "| typesense | 1.00 ≠ | - |"
    assert table[6] == "| facetd before | 8.00 | - |"
    assert table[7] == "| facetd ÷ floor | 4.00 | - |"
    assert table[8] == "| facetd ÷ best peer | 0.500 | - |"
    assert table[9] == "| facetd ÷ facetd before | 0.250 | - |"
    text = report.text("title")
    assert "typesense Q1: 1 of 9: total" in text
    assert "tantivy Q2: 3 requests failed" in text
    assert "x9.00" in text


@pytest.mark.parametrize("name", ["elastic", "tantivy:2", "facetd:x", "facetd+merged", "lucene+x"])
def test_unknown_peers_and_options_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"none of|take a number|known are"):
        check_name(name)


def test_options_of_a_peer_are_in_its_name() -> None:
    assert make("lucene:2+merged", 7).folder.name == "lucene-7-merged"
    assert make("lucene:2", 7).folder == make("lucene", 7).folder
    assert make("facetd:4+cache", 7).folder.name == "facetd-7-4"


def test_the_own_folder_of_a_peer_is_in_the_home() -> None:
    assert str(make("facetd:4", 7).folder) == os.environ["FACETD_BENCHMARKS_HOME"] + (
        "/data/facetd-7-4"
    )


@pytest.mark.parametrize("piece_bytes", [7, 100, 1 << 20])
def test_a_copy_of_the_corpus_has_other_ids_and_the_length_that_was_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(facetd, "READ_BYTES", piece_bytes)
    items = corpus.write(tmp_path / "items.ndjson", SHAPE, NUM_ITEMS)
    sent: list[tuple[bytes, int]] = []

    class Recorder:
        def ask(
            self, method: str, target: str, body: Iterable[bytes], headers: Mapping[str, str]
        ) -> bytes:
            sent.append((b"".join(body), int(headers["content-length"])))
            return b"{}"

    service = facetd.Facetd(NUM_ITEMS)
    monkeypatch.setattr(service, "client", Recorder())
    for copy in range(3):
        service.load_file(items, copy=copy)
    assert all(len(body) == announced for body, announced in sent)
    parsed = [[json.loads(line) for line in body.splitlines()] for body, _ in sent]
    ids = [item.pop("id") for copied in parsed for item in copied]
    assert len(set(ids)) == 3 * NUM_ITEMS
    assert parsed[1] == parsed[2] == parsed[0]
