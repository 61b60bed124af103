"""What all importers share: reading files and addresses, and making indexes."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import urllib.error
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from coordinator.cli.commands import main
from coordinator.cli.importers import elasticsearch
from coordinator.cli.importers.export_reading import read_items, read_object
from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions, SourceError
from coordinator.cli.sources.url_fetching import open_url
from coordinator.command_line_client import Client
from tests.coordinator.cli.importers.files import dump, write
from tests.service import Service


def test_an_answer_on_many_lines_is_read(tmp_path: Path) -> None:
    document = {"took": 1, "hits": {"hits": [{"_id": "1", "_source": {"a": 1}}]}}
    path = write(tmp_path / "x.json", json.dumps(document, indent=2))
    (one,) = elasticsearch.read(path, None, None)

    assert list(one.items()) == [{"id": "1", "a": 1}]
    with pytest.raises(SourceError, match="neither one JSON object nor one on each line"):
        elasticsearch.read(write(tmp_path / "y.json", "{\n  oh\n"), None, None)


@pytest.mark.parametrize(
    ("engine", "items", "settings"),
    [
        ("algolia", '{"objectID":"1"}', {"attributesForFaceting": 5}),
        ("typesense", '{"id":"1"}', {"overrides": [{"rule": {"query": "a"}, "includes": [{}]}]}),
        ("elasticsearch", '{"_id":"1","_source":{}}', {"properties": {"a": {"fields": [1]}}}),
        ("meilisearch", '{"id":1}', {"faceting": [1]}),
        ("meilisearch", '{"id":1}', 5),
    ],
)
def test_settings_in_another_form_are_named(
    tmp_path: Path, engine: str, items: str, settings: Any
) -> None:
    if engine == "meilisearch":
        arguments = [dump(tmp_path / "a.dump", {"books": ({}, settings, items)})]
    else:
        arguments = [write(tmp_path / "items.json", items)]
        arguments += ["--settings", write(tmp_path / "settings.json", settings)]
    result = CliRunner().invoke(main, ["import", engine, *arguments, "--dry-run"])

    assert result.exit_code == 1
    assert (
        "not in the form that the engine gives" in result.stderr or "not an object" in result.stderr
    )


@pytest.mark.parametrize("name", [["--index", "other"], []])
def test_what_is_noticed_among_the_items_is_told(tmp_path: Path, name: list[str]) -> None:
    records = write(tmp_path / "books.json", [{"objectID": "a", "id": 7}])
    result = CliRunner().invoke(main, ["import", "algolia", records, "--dry-run", *name])

    assert result.exit_code == 0, result.stderr
    assert f"index {name[-1] if name else 'books'}, configuration" in result.stderr
    assert "1 item had another value in a field id: it is own_id now" in result.stderr


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_integers_stay_exact_for_the_service_to_refuse(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.json", form.replace("{}", json.dumps({"n": 2**70})))
    assert [type(item["n"]) for item in read_items(path)] == [int]


def test_settings_may_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_object(str(path)) == {"a": 1}


def test_indexes_are_made_once_and_none_is_left_by_a_failure(
    service: Service, engines: str, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{service.port}"
    client = Client(url)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["import", *arguments, "--url", url])

    done = run("typesense", f"{engines}/collections/books", "--source-key", "k")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["created"] == 2500
    assert "what differs" in done.stderr
    assert client.request("GET", "/books/configuration")["aggregations"]["year"]
    again = run("typesense", f"{engines}/collections/books", "--source-key", "k")
    assert again.exit_code == 1
    assert "there is an index 'books' already" in again.stderr
    done = run("elasticsearch", f"{engines}/books", "--index", "elastic")
    assert json.loads(done.stdout)["created"] == 2500
    assert client.request("GET", "/elastic/items/2499") == {"id": "2499", "n": 2499}

    records = write(tmp_path / "r.json", [{"objectID": "a"}, {"b": 1}])
    failed = run("algolia", records, "--index", "broken")
    assert failed.exit_code == 1
    assert "no 'objectID'" in failed.stderr
    names = [one["name"] for one in client.request("GET", "/_indexes")["indexes"]]
    assert names == ["books", "elastic"]

    documents = '{"id":1}\n'
    path = dump(tmp_path / "x.dump", {name: ({}, {}, documents) for name in ("m1", "m2")})
    assert run("meilisearch-dump", path, "--index", "m3").exit_code == 1
    assert run("meilisearch-dump", path, "--dry-run").stdout == ""
    assert [
        json.loads(line)["index"] for line in run("meilisearch-dump", path).stdout.splitlines()
    ] == ["m1", "m2"]


def test_a_login_in_the_address_is_sent(engines: str) -> None:
    url = engines.replace("//", "//elastic:p%C3%A4%3A@") + "/secured"
    (one,) = elasticsearch.read(url, None, None)
    assert len(list(one.items())) == 2500
    with pytest.raises(SourceError, match="answers 401 Unauthorized"):
        elasticsearch.read(f"{engines}/secured", None, "elastic:wrong")
    with pytest.raises(SourceError, match="cannot fetch"):
        elasticsearch.read("http://a:b@127.0.0.1:x/books", None, None)


def test_a_response_that_breaks_off_is_not_taken_for_a_whole_one(engines: str) -> None:
    with pytest.raises(SourceError, match="broke off 989 bytes before its end"):
        list(read_items(f"{engines}/half.ndjson"))
    with pytest.raises(SourceError, match="broke off 989 bytes before its end"):
        list(format_dispatch.read(f"{engines}/half.ndjson", ReadOptions()).pieces())


def test_a_login_is_not_sent_to_another_host(engines: str) -> None:
    with open_url(f"{engines}/moved", {"Authorization": "Basic x"}) as stream:
        assert json.load(stream) == {"seen": None}


def test_a_port_that_does_not_speak_http_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x00\x01hello\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SourceError, match="does not speak this protocol"):
            open_url(f"http://127.0.0.1:{server.getsockname()[1]}/x")
        thread.join()


def test_a_certificate_of_an_unknown_authority_says_what_helps() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    with (
        patch("urllib.request.urlopen", side_effect=urllib.error.URLError(error)),
        pytest.raises(SourceError, match="SSL_CERT_FILE names a file"),
    ):
        open_url("https://127.0.0.1/x")


def test_facets_are_proposed_where_the_source_names_none(service: Service, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{service.port}"
    records = [
        {"objectID": str(i), "brand": "ab"[i % 2], "at": {"lat": 1.5, "lon": i}} for i in range(30)
    ]
    path = write(tmp_path / "r.json", records)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["import", "algolia", path, *arguments, "--url", url])

    dry = run("--index", "goods", "--dry-run")
    assert dry.exit_code == 0
    assert "its first item {" in dry.stderr
    done = run("--index", "goods", "--configure", "auto")
    assert done.exit_code == 0, done.output
    configuration = Client(url).request("GET", "/goods/configuration")
    assert configuration["aggregations"]["brand"]["conjunction"] is False
    assert configuration["geo_fields"] == ["at", "_geoloc", "_geo"]
    near = Client(url).request("GET", "/goods/search?filter=_geoRadius(1.5,3,1000)&fields=at")
    assert near["pagination"]["total"] == 1
    cut = gzip.compress(json.dumps(records).encode())[:-20]
    (tmp_path / "cut.json.gz").write_bytes(cut)
    failed = CliRunner().invoke(
        main, ["import", "algolia", str(tmp_path / "cut.json.gz"), "--url", url]
    )
    assert (failed.exit_code, "is cut off or damaged" in failed.stderr) == (1, True)
