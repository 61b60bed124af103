"""Every benchmark runs, on tiny data; the figures are not checked."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    compare,
    cores,
    data_shapes,
    data_shapes_corpus,
    field_names,
    floor,
    large_index,
    processes,
    relevance,
    scale,
    search_as_you_type_relevance,
    suggest,
    vocabulary_lookup,
    writes,
    wrk,
)
from benchmarks import results as results_module
from benchmarks.corpus import Shape, words
from benchmarks.game.__main__ import main as play_game
from benchmarks.game.brute_force import IDFS, BruteForce
from benchmarks.game.records import Record, check_counts, check_scores
from benchmarks.peers import base
from benchmarks.peers.facetd import CONFIGURATION, INDEX, Facetd
from benchmarks.peers.servers.game_player import GameQuery, Played
from benchmarks.relevance import JudgedSet
from tests import forking
from tests.service import ROOT
from tests.waiting import wait_until

SHAPE = Shape(num_words=2_000, num_brands=40, num_categories=12, num_tags=60, num_countries=8)
NUM_ITEMS = 300

needs_wrk = pytest.mark.skipif(not wrk.is_installed(), reason="wrk is not installed")


class Running(processes.Running):
    """Its services are forked where many tests run in parallel: no figure is checked here."""

    def __init__(self, command: Sequence[str | Path], log: Path, **options: Any) -> None:
        words = [str(word) for word in command]
        if words[1:4] != ["-m", "coordinator", "serve"] or not forking.can_fork(os.environ):
            super().__init__(command, log, **options)
            return
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output, open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            forked: Any = forking.fork(words[3:], os.environ, ROOT, streams)
        self.process = forked


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("benchmarks")
        patch.setenv("FACETD_BENCHMARKS_HOME", str(folder))
        patch.setattr(results_module, "FOLDER", folder / "results")
        patch.setattr(base, "Running", Running)
        yield folder


@pytest.fixture(scope="module")
def service(home: Path) -> Iterator[Facetd]:
    running = Facetd(NUM_ITEMS)
    running.empty_folder()
    running.start_service()
    running.configure(CONFIGURATION)
    yield running
    running.close()


@pytest.fixture(scope="module")
def workload(home: Path) -> compare.Workload:
    return compare.Workload(NUM_ITEMS, seed=1, shape=SHAPE)


def test_suggestions_are_typed(home: Path) -> None:
    path = suggest.main(
        ["--items", "300", "--shards", "1", "--keystrokes", "400", "--write-every", "300"]
    )
    measured = json.loads(path.read_text())["measured"]["now"]
    assert measured["first"]["count"] + measured["again"]["count"] == 400
    assert 0 < measured["first"]["p50"] <= measured["first"]["p99"]


def test_facetd_answers_all_classes_like_the_truth(
    service: Facetd, workload: compare.Workload
) -> None:
    service.load_file(workload.file)
    assert compare.check(service, workload, count=5) == {}


@needs_wrk
def test_one_class_is_measured(service: Facetd, workload: compare.Workload) -> None:
    service.load_file(workload.file)
    load = service.measure("Q6", workload.queries["Q6"], clients=2, seconds=1)
    assert load.num_requests > 0
    assert load.num_errors == 0


@needs_wrk
def test_a_large_index_is_measured(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_index, "NUM_SINGLE_ITEMS", 500)
    monkeypatch.setattr(large_index, "RESTING_RUNS", 1)
    monkeypatch.setattr(large_index, "IDLE_RUNS_MAX", 1)
    saved = large_index.main(
        ["--items", "300", "--copies", "2", "--classes", "Q2", "--seconds", "1"]
    )
    seen = json.loads(saved.read_text())["seen"]
    assert seen.keys() >= set(large_index.TARGETS) - {
        "Q4 median, ms",
        "Q2 while merging: p99 over idle",
    }
    assert seen["single items/s"] > 0


def count_items(service: Facetd) -> int:
    number: int = json.loads(service.client.ask("GET", f"/{INDEX}/stats"))["items"]
    return number


@needs_wrk
def test_single_writes_and_a_load_are_measured(service: Facetd, home: Path) -> None:
    load = writes.measure_single_items(service, 1, num_items=50)
    assert load.num_errors == 0
    num_items = count_items(service)

    def write_all() -> bool:
        """Write some; on a busy machine, a second is too short for all."""
        writes.measure_single_items(service, 1, num_items=50, prefix="n")
        return count_items(service) == num_items + 50

    wait_until(write_all)
    others = writes.write_other_items(home / "others.ndjson", 50)
    with writes.Loading(service, others) as loading:
        pass
    assert loading.failure is None


def test_relevance_is_measured_over_http(
    service: Facetd,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = home / "judged" / "tiny"
    folder.mkdir(parents=True)
    items = [{"id": "a", "text": "searching whales"}, {"id": "b", "text": "gardens in spring"}]
    with gzip.open(folder / "items.ndjson.gz", "wt") as file:
        file.writelines(json.dumps(item) + "\n" for item in items)
    (folder / "queries.tsv").write_text("1\tspring garden\n2\twhale search\n3\tunjudged\n")
    (folder / "qrels.tsv").write_text("1\t0\tb\t1\n2\t0\ta\t2\n")
    baseline = dict.fromkeys(("ndcg@10", "map", "p@10", "mrr", "recall@100"), 0.5)
    tiny = JudgedSet("tiny", ("text",), baseline, ("map", 0.9))
    monkeypatch.setattr(relevance, "SETS", (tiny,))
    arguments = ["--data", str(folder.parent), "--sets", "tiny", "--port", str(service.port)]
    relevance.main(arguments)
    printed = capsys.readouterr().out
    assert (
        "| tiny | facetd | 1.0000 | 1.0000 | 0.1000 | 1.0000 | 1.0000 | map ≥ 0.9: yes" in printed
    )
    assert printed.count("keeps") == 2


def test_typing_is_measured(
    service: Facetd,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = search_as_you_type_relevance.Catalogue("few", "name", ("name",), num_names=2)
    monkeypatch.setattr(search_as_you_type_relevance, "CATALOGUES", (few,))
    (tmp_path / "few").mkdir()
    names = ["git", "git remote", "redis"]
    items = [{"id": str(number), "name": name} for number, name in enumerate(names)]
    with gzip.open(tmp_path / "few" / "items.ndjson.gz", "wt") as file:
        file.writelines(json.dumps(item) + "\n" for item in items)
    search_as_you_type_relevance.main(
        ["--data", str(tmp_path), "--sets", "few", "--port", str(service.port)]
    )
    assert "| few | 3 | 14 | 0.00% | 100.0% | 100.0% of 2 |" in capsys.readouterr().out


def test_letters_of_a_word_follow_each_other() -> None:
    typed = list(search_as_you_type_relevance.keystrokes("Ab cd"))
    assert typed == [("ab", False), ("ab c", False), ("ab cd", True)]


def test_missing_judged_sets_are_named(home: Path) -> None:
    with pytest.raises(relevance.NoData, match="scifact"):
        relevance.main(["--data", str(home), "--sets", "scifact"])


def test_vocabulary_lookups_are_measured(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vocabulary_lookup.main(["--terms", "2000", "--words", "20"])
    assert "not found: 0" in capsys.readouterr().out


@needs_wrk
def test_the_floor_is_measured(home: Path) -> None:
    one, many = floor.measure("fan-out", 1, seconds=1)
    assert one.num_errors == many.num_errors == 0
    assert 0 < one.median_ms < one.p99_ms


def test_every_shape_is_asked_and_answered(service: Facetd, home: Path) -> None:
    file = data_shapes_corpus.write(SHAPE, NUM_ITEMS)
    for index in (INDEX, data_shapes.OTHER_INDEX):
        service.client.request("DELETE", f"/{index}")
        service.configure(data_shapes_corpus.CONFIGURATION, index)
        service.load_file(file, index)
    for name in data_shapes.SHAPES:
        asked = data_shapes.requests(name, SHAPE, NUM_ITEMS)
        replies = [json.loads(service.client.send(one)) for one in asked[:20]]
        if name == "suggest":
            found = [reply["data"]["suggestions"] for reply in replies]
        else:
            found = [reply["pagination"]["total"] for reply in replies]
        assert any(found) or name == "big page", name


@needs_wrk
def test_one_core_is_compared_with_more(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = {cores.settings()[0], cores.settings()[-1]}
    monkeypatch.setattr(cores, "settings", lambda: sorted(compared))
    arguments = f"--items {NUM_ITEMS} --rounds 1 --seconds 1 --classes Q6"
    cores.main(arguments.split())
    printed = capsys.readouterr().out
    assert "| Q6 | one core |" in printed
    assert len(compared) == 1 or "2 coordinators |" in printed


def test_field_names_come_and_go(home: Path) -> None:
    arguments = f"--items {NUM_ITEMS} --names 600 --shards 1 --requests 2"
    stages = json.loads(field_names.main(arguments.split()).read_text())["stages"]
    assert len(stages) == 4
    for stage in stages.values():
        assert all(min(stage[kind].values()) > 0 for kind in field_names.KINDS)


def test_growth_is_fitted() -> None:
    table = {"linear, ms": {10: 1.0, 100: 10.0}, "constant, ms": {10: 2.0, 100: 2.0}}
    text = scale.render("items", table, floor_ms=0.0)
    assert "| linear, ms | 1.00 | 10.0 | 1.00 | 1.00 |" in text
    assert "| constant, ms | 2.00 | 2.00 | 0.00 | 0.00 |" in text


def test_the_game_counts_like_brute_force(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text('1\tthe\n2\t+red +sea\n3\tthe sea\n4\t"the red sea"\n5\t+the sea\n')

    play_game(["--items", "300", "--rounds", "1", "--peers", "floor,facetd", "--count", "5"])
    drawn = capsys.readouterr().out
    arguments = ["--items", "300", "--rounds", "1", "--peers", "facetd", "--reuse"]
    play_game([*arguments, "--queries", str(queries)])
    read = capsys.readouterr().out

    assert "All counts are right; best scores are those of BM25." in drawn
    assert "All counts are right; best scores are those of BM25." in read
    assert "4 queries (1 of other forms left out)" in read


def test_the_game_notices_a_wrong_count_and_a_wrong_score() -> None:
    queries = [GameQuery("term", (words(SHAPE)[0],))]
    brute_force = BruteForce(SHAPE, 300, queries)
    right = brute_force.best_scores(queries[0], 10, IDFS["pisa"])
    total = brute_force.count(queries[0])
    record = Record("an engine")
    record.turns["TOP_10"] = [[Played(1, -1, right)]]
    record.turns["COUNT"] = [[Played(1, total, ())]]

    check_counts(record, queries, {queries[0]: total})
    check_scores(record, queries, brute_force, IDFS["pisa"])
    assert record.wrong == []
    check_counts(record, queries, {queries[0]: total + 1})
    record.turns["TOP_10"] = [[Played(1, -1, [2 * right[0], *right[1:]])]]
    check_scores(record, queries, brute_force, IDFS["pisa"])
    assert [one.partition(" ")[0] for one in record.wrong] == ["COUNT", "TOP_10"]
