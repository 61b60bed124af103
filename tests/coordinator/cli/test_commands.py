"""The command line against a running service, and without one."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.cli.commands import main
from tests.service import ROOT, Client, Service, free_port, run_command, start_command
from tests.waiting import wait_until


class TestLoad:
    def test_a_file_is_loaded_and_searched(self, service: Service, tmp_path: Path) -> None:
        file = tmp_path / "books.ndjson"
        file.write_text('{"id":1,"title":"Sea"}\n{"id":2,"title":"Land"}\n')
        configuration = tmp_path / "configuration.json"
        configuration.write_text('{"aggregations": {"title": {}}}')
        loaded = run_command(
            *("load", str(file), "--index", "books", "--config", str(configuration)),
            *("--data-dir", str(service.data)),
        )
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(loaded.stdout)["created"] == 2
        found = run_command("search", "books", "sea", "--json", "--data-dir", str(service.data))
        assert [item["id"] for item in json.loads(found.stdout)["data"]["items"]] == [1]
        shown = run_command("search", "books", "--port", str(service.port))
        assert b"2 hits" in shown.stdout
        assert b"Title" in shown.stdout
        mistyped = run_command("search", "books", "--fields", "titel", "--port", str(service.port))
        assert (mistyped.returncode, b"did you mean title?" in mistyped.stderr) == (0, True)

    def test_fields_of_the_configuration_that_no_item_has_are_named(
        self, service: Service, tmp_path: Path
    ) -> None:
        configuration = tmp_path / "configuration.json"
        configuration.write_text('{"boost": {"slod": {"log": 1}}, "colour": 1}')
        options = ("--index", "sold", "--config", str(configuration), "--port", str(service.port))
        loaded = run_command("load", "-", *options, text=b'{"id":1,"sold":7}')
        assert (loaded.returncode, json.loads(loaded.stdout)["created"]) == (0, 1)
        assert (
            b"facetd: configuration: boost.slod names 'slod', which no item has; did you mean sold?"
        ) in loaded.stderr
        assert b"facetd: configuration: colour is unknown and has no effect" in loaded.stderr
        configuration.write_text('{"boost": {"sodl": {"log": 1}}}')
        again = run_command("load", "-", *options, text=b'{"id":1,"sold":7}')
        assert again.returncode == 0
        assert b"boost.sodl names 'sodl', which no item has; did you mean sold?" in again.stderr

    def test_compressed_files_and_stdin_are_loaded(self, service: Service, tmp_path: Path) -> None:
        file = tmp_path / "books.ndjson.gz"
        file.write_bytes(gzip.compress(b'[{"id":1},{"id":2},{"id":3}]'))
        url = f"http://127.0.0.1:{service.port}"
        loaded = run_command("load", str(file), "--index", "zipped", "--url", url)
        assert json.loads(loaded.stdout)["created"] == 3
        loaded = run_command(
            "load", "-", "--index", "zipped", "--url", url, text=b'{"id":4}\n{"id":1}'
        )
        result = json.loads(loaded.stdout)
        assert (result["created"], result["updated"]) == (1, 1)

    def test_a_new_index_can_be_loaded_from_stdin(self, service: Service) -> None:
        """Its configuration is proposed, but not asked for: stdin is used up, and closed."""
        lines = b"".join(b'{"id":%d,"kind":"%s"}\n' % (i, b"ab"[i % 2 :][:1]) for i in range(60))
        loaded = run_command(
            *("load", "-", "--index", "piped", "--port", str(service.port)), text=lines
        )
        assert (loaded.returncode, json.loads(loaded.stdout)["created"]) == (0, 60), loaded.stderr
        assert b"facetd: apply it with --configure auto" in loaded.stderr

    def test_the_advice_can_be_pasted_whatever_the_index_is_called(self, service: Service) -> None:
        lines = b"".join(b'{"id":%d,"kind":"%s"}\n' % (i, b"ab"[i % 2 :][:1]) for i in range(60))
        loaded = run_command(
            *("load", "-", "--index", "Bob's films", "--port", str(service.port)), text=lines
        )
        assert b"""facetd configure 'Bob'"'"'s films'""" in loaded.stderr

    def test_a_bad_item_fails_and_can_be_skipped(self, service: Service) -> None:
        url = f"http://127.0.0.1:{service.port}"
        refused = run_command(
            "load", "-", "--index", "bad", "--url", url, text=b'{"id":1}\n{"id":}'
        )
        assert refused.returncode == 1
        assert refused.stdout == b""
        assert b"line 2" in refused.stderr
        loaded = run_command(
            *("load", "-", "--index", "bad", "--skip-bad", "--url", url), text=b'{"id":1}\n{"id":}'
        )
        assert loaded.returncode == 0
        assert json.loads(loaded.stdout)["rejected"] == 1


class TestExport:
    def test_what_was_exported_can_be_loaded_again(self, service: Service, tmp_path: Path) -> None:
        url = f"http://127.0.0.1:{service.port}"
        items = b"".join(b'{"id": %d,  "text":"x%d"}\n' % (i, i) for i in range(500))
        run_command("load", "-", "--index", "first", "--url", url, text=items)
        exported = run_command("export", "first", "--url", url)
        assert exported.returncode == 0, exported.stderr
        assert exported.stdout == items
        file = tmp_path / "items.ndjson"
        run_command("export", "first", "--output", str(file), "--url", url)
        assert file.read_bytes() == items
        loaded = run_command("load", str(file), "--index", "second", "--url", url)
        assert json.loads(loaded.stdout)["created"] == 500

    def test_an_index_is_exported_in_the_formats_of_another_engine(self, service: Service) -> None:
        url = f"http://127.0.0.1:{service.port}"
        run_command("load", "-", "--index", "moves", "--url", url, text=b'{"id":1}\n{"id":"b"}\n')
        exported = run_command("export", "moves", "--format", "opensearch", "--url", url)
        assert exported.stdout == (
            b'{"index":{"_id":"1"}}\n{"id":1}\n{"index":{"_id":"b"}}\n{"id":"b"}\n'
        )
        exported = run_command("export", "moves", "--format", "opensearch-mapping", "--url", url)
        assert json.loads(exported.stdout) == {"mappings": {"properties": {}}}

    def test_a_failed_export_leaves_the_file_as_it_was(
        self, service: Service, tmp_path: Path
    ) -> None:
        file = tmp_path / "items.ndjson"
        file.write_bytes(b"yesterday's")
        url = f"http://127.0.0.1:{service.port}"
        assert run_command("export", "none", "--output", str(file), "--url", url).returncode == 1
        assert file.read_bytes() == b"yesterday's"
        run_command("configure", "empty", "--set", "language=en", "--url", url)
        exported = run_command("export", "empty", "--output", str(file), "--url", url)
        assert (exported.returncode, file.read_bytes()) == (0, b"")

    def test_an_index_that_does_not_exist_is_named(self, service: Service) -> None:
        exported = run_command("export", "none", "--url", f"http://127.0.0.1:{service.port}")
        assert exported.returncode == 1
        assert b"there is no index" in exported.stderr


class TestStatus:
    def test_a_service_that_is_complete_is_ready(self, service: Service) -> None:
        shown = run_command("status", "--data-dir", str(service.data))
        assert shown.returncode == 0
        assert b"is ready" in shown.stdout

    def test_without_a_service_one_line_asks_whether_it_runs(self, tmp_path: Path) -> None:
        shown = run_command("status", "--data-dir", str(tmp_path), "--port", "1")
        assert shown.returncode == 1
        assert b"is facetd running?" in shown.stderr
        assert b"Traceback" not in shown.stderr

    def test_a_directory_without_a_service_is_not_another_service(
        self, service: Service, tmp_path: Path
    ) -> None:
        """Or a deletion meant for a test would reach the service at the usual port."""
        shown = run_command(*("status", "--data-dir", str(tmp_path)), FACETD_PORT=str(service.port))
        assert shown.returncode == 1
        assert f"no facetd runs on {tmp_path}".encode() in shown.stderr


def _demo(data: Path, port: int = 0, *, is_forked: bool = True, **environment: str) -> str:
    """Return what a demo says once it serves; it is stopped then.

    At a known port, it has its films as soon as it is ready.
    """
    ours, theirs = os.pipe()
    demo = start_command(
        *("demo", "--port", str(port), "--shards", "2", "--data-dir", str(data)),
        output=theirs,
        is_forked=is_forked,
        environment=environment,
    )
    os.close(theirs)
    with contextlib.closing(Client(port)) as client, open(ours) as output:
        if port:
            refused = (OSError, http.client.HTTPException)
            wait_until(lambda: client.get("/_ready").status == 200, 60, ignoring=refused)
            assert client.search("films", per_page=0)["pagination"]["total"] == 314
        lines = []
        for line in output:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        demo.terminate()
        assert demo.wait(20) == 0
    return "".join(lines)


class TestDemo:
    def test_it_starts_again_after_a_key_was_created(self, tmp_path: Path) -> None:
        data = tmp_path / "demo"
        assert "facetd serves 314 films" in _demo(data)
        created = run_command("keys", "create", "--data-dir", str(data))
        assert created.returncode == 0

        assert "facetd serves its films, to requests with an API key, at http" in _demo(data)
        key = json.loads(created.stdout)["key"]
        assert "facetd serves 314 films" in _demo(data, FACETD_KEY=key)

    def test_it_serves_films_and_says_what_to_try(self, tmp_path: Path) -> None:
        text = _demo(tmp_path / "demo", free_port(), is_forked=False)
        assert "facetd serves 314 films at http://127.0.0.1:" in text
        assert "/dashboard/films" in text

    def test_what_the_service_refuses_is_said_in_one_line(self, tmp_path: Path) -> None:
        shown = run_command(
            *("demo", "--port", "0", "--shards", "1", "--data-dir", str(tmp_path / "demo")),
            *("--log-level", "error", "--set", "limits.item_bytes_max=2000"),
            *("--set", "limits.bulk_body_bytes_max=2000"),
        )
        assert shown.returncode == 1
        (line,) = shown.stderr.decode().splitlines()
        assert line.startswith("facetd: ")
        assert "payload_too_large" in line


class TestWithoutService:
    def test_the_package_is_the_command(self) -> None:
        shown = subprocess.run(
            [sys.executable, "-m", "facetd", "--version"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.startswith("facetd, version")

    def test_settings_are_shown_with_their_origin(self) -> None:
        shown = CliRunner(env={"FACETD_PORT": "4000"}).invoke(main, ["config", "--json"])
        rows = json.loads(shown.stdout)
        assert rows["port"] == {
            "value": 4000,
            "unit": "port",
            "origin": "FACETD_PORT",
            "doc": rows["port"]["doc"],
        }
        assert "limits.per_page_max" in rows
        assert rows["shard.idle_ms"]["origin"] == "default"
        assert "4000" in CliRunner(env={"FACETD_PORT": "4000"}).invoke(main, ["config"]).stdout
        misspelt = CliRunner(env={"FACETD_PRT": "4000"}).invoke(main, ["config"])
        assert misspelt.stderr.startswith("facetd: FACETD_PRT is not a setting")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["serve", "--port", "x"], "from 0 to 65535"),
            (["serve", "--shards", "0"], "from 1 to 64"),
            (["serve", "--config-file", "none.toml"], "cannot read"),
            (["serve", "--set", "shard.idle_ms=0"], "shard.idle_ms must be an integer of at lea"),
            (["check", "--set", "shard.idle=1"], "did you mean shard.idle_ms?"),
            (["dance"], "No such command"),
            (["keys", "dance"], "No such command 'dance'; there are create, list, "),
            (["load"], "Missing argument"),
            (["cp"], "did you mean copy?"),
            (["mv"], "did you mean rename?"),
        ],
    )
    def test_wrong_use_ends_with_status_2(self, arguments: list[str], message: str) -> None:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 2
        assert message in result.output

    def test_a_key_is_made_before_the_first_start(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        made = run_command("keys", "create", "--actions", "admin,search", "--data-dir", str(data))
        assert made.returncode == 0, made.stderr
        key = json.loads(made.stdout)["key"]
        with Service(data, 2) as service:
            assert run_command("status", "--data-dir", str(data)).returncode == 1
            shown = run_command("status", "--data-dir", str(data), "--key", key)
            assert shown.returncode == 0, shown.stderr
            listed = run_command("keys", "list", "--data-dir", str(data), FACETD_KEY=key)
            assert listed.returncode == 0
            assert key.encode() not in listed.stdout
            with contextlib.closing(service.client()) as client:
                assert client.get("/_indexes").status == 401

    def test_the_shard_has_its_own_help(self) -> None:
        shown = run_command("shard", "--help")
        assert shown.returncode == 0
        assert b"--shard-id" in shown.stdout
        assert shown.stdout.startswith(b"Usage: facetd shard ")


@pytest.mark.parametrize("command", ["serve", "coordinator"])
def test_options_of_processes_are_listed_under_headings(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"]).output
    sections = shown.split("\n\n")
    titles = [section.partition("\n")[0] for section in sections]
    assert "Address and data:" in titles
    assert titles[-1] == "Further options:"
    further = [line.split()[0] for line in sections[-1].splitlines() if line.startswith("  -")]
    assert further[:2] == ["--config-file", "--set"]
    assert len(further) == 3  # and the help itself


def test_the_demo_shows_its_own_folder() -> None:
    shown = CliRunner().invoke(main, ["demo", "--help"]).output
    assert "facetd-demo-data" in shown.partition("--data-dir FOLDER")[2]


class TestConfigure:
    def test_what_was_mistyped_is_answered_with_what_is_known(self, service: Service) -> None:
        """An unknown key is answered with the known one, and a new index is said to be new."""
        url = ("--url", f"http://127.0.0.1:{service.port}")
        preview = run_command("configure", "shop", "--set", "aggregatons.a={}", "--preview", *url)
        shown = preview.stderr.decode()
        assert "shop is a new index" in shown
        assert "aggregatons is unknown and has no effect; did you mean aggregations?" in shown
        made = run_command("configure", "shop", "--set", "aggregations.a.sise=5", *url)
        assert (
            b"aggregations.a.sise is unknown and has no effect; did you mean size?" in made.stderr
        )
        again = run_command("configure", "shop", "--set", "aggregations.a.size=5", *url)
        assert b"new index" not in again.stderr


class TestNames:
    def test_an_index_is_copied_and_takes_the_place_of_another(self, service: Service) -> None:
        url = ("--url", f"http://127.0.0.1:{service.port}")
        run_command("load", "-", "--index", "shop-old", *url, text=b'{"id":1}')
        copied = run_command("copy", "shop-old", "shop-new", *url)
        assert copied.stdout == b"copied shop-old to shop-new\n", copied.stderr
        refused = run_command("rename", "shop-new", "shop-old", *url)
        assert (refused.returncode, b"index_exists" in refused.stderr) == (1, True)
        assert b"--replace" in refused.stderr
        done = run_command("rename", "shop-new", "shop-old", "--replace", *url)
        assert done.stdout == b"renamed shop-new to shop-old\n"
        run_command("rename", "shop-old", "shop-2025", "--alias", *url)
        unnamed = run_command("alias", "--remove", *url)
        assert (unnamed.returncode, b"NAME and --remove" in unnamed.stderr) == (2, True)
        found = run_command("export", "shop-old", *url)
        assert json.loads(found.stdout) == {"id": 1}
        run_command("delete", "shop-2025", "--yes", *url)


class TestSnapshots:
    def test_an_index_that_is_still_there_is_restored_under_another_name(
        self, service: Service
    ) -> None:
        url = ("--url", f"http://127.0.0.1:{service.port}")
        run_command("load", "-", "--index", "kept", *url, text=b'{"id":1}')
        run_command("snapshots", "create", "now", *url)
        refused = run_command("snapshots", "restore", "now", "--index", "kept", *url)
        assert refused.returncode == 1
        assert b"--rename kept=kept-restored" in refused.stderr
        done = run_command(
            *("snapshots", "restore", "now", "--index", "kept", "--rename", "kept=kept-restored"),
            *url,
        )
        assert done.stdout == b"restored kept-restored from kept\n"
        assert run_command("snapshots", "remove", "now", *url).stdout == b"deleted now\n"


def test_analytics_are_shown(service: Service) -> None:
    client = service.client()
    client.post("/counted/configuration", {})
    client.get("/counted/search", query="unheard of")
    client.close()
    shown = run_command("analytics", "counted", "--port", str(service.port))
    assert b"1 searches, 100.0% without a hit" in shown.stdout
    assert b"unheard of" in shown.stdout
    found = run_command("analytics", "--json", "--port", str(service.port))
    assert json.loads(found.stdout)["searches"] >= 1


def test_an_output_that_lacks_a_character_is_told_in_a_line() -> None:
    failed = run_command("config", "--data-dir", "zażółć", PYTHONIOENCODING="latin-1")
    told = failed.stderr.decode()
    assert failed.returncode == 1
    assert told.startswith("facetd: the output is latin-1, which has no ")
    assert told.endswith("; PYTHONIOENCODING=utf-8 makes it UTF-8\n")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "films", "caf\udce9"),
        ("status", "--url", "http://caf\udce9"),
        ("delete", "caf\udce9", "--yes"),
        ("load", "-", "--index", "caf\udce9"),
        ("analytics", "caf\udce9"),
    ],
)
def test_arguments_that_are_not_utf_8_are_told_in_a_line(
    service: Service, arguments: tuple[str, ...]
) -> None:
    url = () if "--url" in arguments else ("--url", f"http://127.0.0.1:{service.port}")
    failed = run_command(*arguments, *url, text=b'{"id":1}')
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert failed.stderr.startswith(b"facetd: "), failed.stderr
    assert len(failed.stderr.splitlines()) == 1
