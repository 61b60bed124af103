"""Keys are created where the user intends: in the running service, or before the first start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.commands import main
from coordinator.command_line_client import Client, ClientError
from tests.service import Service, free_port


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("keys") / "data", 1) as service:
        yield service


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("FACETD_URL", "FACETD_KEY", "FACETD_DATA_DIR", "FACETD_PORT"):
        monkeypatch.delenv(name, raising=False)


def _run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, arguments)


def test_a_running_service_gets_the_key_however_it_is_named(
    service: Service, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{service.port}"
    first = _run("keys", "create", FACETD_URL=url)
    assert first.exit_code == 0, first.output
    made = json.loads(first.stdout)
    assert made["actions"] == ["search", "write", "configure", "admin"], "the first administers"
    assert "every request needs a key" in first.stderr
    key = made["key"]
    for arguments, environment in (
        (("--port", str(service.port)), {}),
        (("--url", url), {"FACETD_URL": "http://127.0.0.1:1"}),
        (("--data-dir", str(service.data)), {}),
        ((), {"FACETD_URL": url}),
        ((), {"FACETD_PORT": str(service.port)}),
    ):
        result = _run("keys", "create", *arguments, "--key", key, **environment)
        assert result.exit_code == 0, (arguments, result.output)
        assert json.loads(result.stdout)["actions"] == ["search"]
    listed = _run("keys", "list", "--url", url, "--key", key, "--json")
    assert len(json.loads(listed.stdout)["keys"]) == 6
    assert "never" in _run("keys", "list", "--url", url, "--key", key).stdout
    assert not list(tmp_path.iterdir()), "no data directory was made in passing"

    for one in json.loads(listed.stdout)["keys"]:
        if one["id"] != made["id"]:
            removed = _run("keys", "delete", one["id"], "--url", url, "--key", key)
            assert (removed.exit_code, removed.stderr) == (0, "")
    for key_id in ("é", "a b", "a/b"):
        unknown = _run("keys", "rm", key_id, "--url", url, "--key", key)
        assert (unknown.exit_code, "key_not_found" in unknown.stderr) == (1, True), unknown.stderr
    last = _run("keys", "rm", made["id"], "--url", url, "--key", key)
    assert "no key is left: every request is allowed" in last.stderr


def test_what_to_do_about_a_first_key_that_may_have_been_made_is_said(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Client.request

    def lost(client: Client, method: str, path: str, *more: Any) -> Any:
        answer = request(client, method, path, *more)
        if method == "POST":
            keys.append(answer["key"])
            raise ClientError("no answer")
        return answer

    keys: list[str] = []
    monkeypatch.setattr(Client, "request", lost)
    lines = _run("keys", "create", "--data-dir", str(service.data))
    assert (lines.exit_code, lines.stdout) == (1, "")
    assert "it was made, and its secret is lost: stop the service" in lines.stderr
    assert f"facetd keys create --action admin --data-dir {service.data} makes" in lines.stderr

    further = _run("keys", "create", "--data-dir", str(service.data), "--key", keys[0])
    assert further.stderr == "facetd: no answer\n"
    monkeypatch.undo()
    client = service.client()
    client.headers["x-api-key"] = keys[0]
    for one in keys[::-1]:
        assert client.delete(f"/_keys/{one.split('_')[1]}").status == 200
    client.close()


def test_a_key_is_made_with_filter_expiry_and_indexes(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    first = _run("keys", "create", "--actions", "admin,search", *data)
    assert json.loads(first.stdout)["actions"] == ["admin", "search"]
    assert "next start" in first.stderr
    made = json.loads(
        _run(
            *("keys", "create", "--action", "search", "--index", "pub-a", "--index", "pub-b"),
            *("--filter", "tenant = 7", "--expires-in", "30d", *data),
        ).stdout
    )
    assert made["indexes"] == ["pub-a", "pub-b"]
    assert made["filter"] == "tenant = 7"
    assert made["expires_at"] is not None


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--action", "read"), 2, "none of search, write, configure, admin"),
        (("--expires-in", "soon"), 2, "90m, 12h, 30d"),
        (("--filter", "a ="), 1, "facetd: "),
        (("--action", "search"), 1, "must have admin"),
        (("--expires-at", "2020-01-01"), 1, "must not be past"),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    result = _run("keys", "create", *arguments, "--data-dir", str(tmp_path / "data"))
    assert result.exit_code == status
    assert message in result.output
    assert result.stdout == ""


def test_without_service_and_data_nothing_is_made(tmp_path: Path) -> None:
    result = _run("keys", "create", FACETD_PORT=str(free_port()))
    assert result.exit_code == 1
    assert "name the service with --url, or the data directory" in result.output
    assert not list(tmp_path.iterdir())
