"""The TypeScript client: compiled with types generated from the service, run under Node."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.algolia.conftest import Shop
from tests.facetd.scripted import serving
from tests.facetd.test_client import PAGE, WRITTEN
from tests.npm.install import packages

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "typescript"


def tool(name: str, *arguments: str, cwd: Path) -> None:
    run = subprocess.run(
        [str(packages() / "node_modules" / ".bin" / name), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def built(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    with urllib.request.urlopen(f"http://{shop.host}/_openapi.json", timeout=30) as reply:
        (folder / "openapi.json").write_bytes(reply.read())
    tool("openapi-typescript", "openapi.json", "-o", "src/schema.ts", cwd=folder)
    tool("tsc", "-p", ".", cwd=folder)
    return folder


def run(built: Path, url: str, program: str) -> Any:
    """Run a program with the compiled client; it returns what `answer` is."""
    script = built / "program.mjs"
    script.write_text(
        'import { Client, FacetdError } from "./dist/index.js";\n'
        f"const client = new Client({{ url: {json.dumps(url)}, firstWait: 1 }});\n"
        f"let answer;{program}\nconsole.log(JSON.stringify(answer));"
    )
    done = subprocess.run(
        ["node", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_against_the_service(built: Path, shop: Shop) -> None:
    answer = run(
        built,
        f"http://{shop.host}",
        """
        await client.configure("ts", { aggregations: { kind: {} } });
        const added = await client.add("ts", [{ id: 1, kind: "a" }, { id: 2, kind: "b" }]);
        await client.load("ts", '{"id":3,"kind":"a"}\\n{"id":"x y","kind":"a"}\\n');
        await client.update("ts", 2, { kind: "c" });
        const page = await client.search("ts", { filters: { kind: "a" }, facet_fields: ["kind"] });
        const [first] = await client.searches([{ index: "ts", per_page: 0 }]);
        const facet = await client.facet("ts", "kind");
        const item = await client.get("ts", "x y");
        const exported = [];
        for await (const one of client.export("ts", { filter: "kind = a" })) exported.push(one.id);
        const deleted = await client.delete("ts", { filter: "kind = c" });
        let error;
        try { await client.search("ts", { page: 0 }); } catch (caught) {
            error = [caught instanceof FacetdError, caught.status, caught.code, caught.param];
        }
        await client.deleteIndex("ts");
        answer = { added: added.created, total: page.pagination.total, all: first.pagination.total,
            values: facet.data.buckets.map((bucket) => bucket.key), item, exported,
            deleted: deleted.deleted, error };
        """,
    )

    assert answer == {
        "added": 2,
        "total": 3,
        "all": 4,
        "values": ["a", "c"],
        "item": {"id": "x y", "kind": "a"},
        "exported": [1, 3, "x y"],
        "deleted": 1,
        "error": [True, 400, "invalid_page", "page"],
    }


@pytest.mark.parametrize(
    ("call", "num_sent"),
    [
        ('search("a")', 2),
        ('add("a", [{ id: 1 }])', 2),
        ('add("a", [{ name: "without id" }])', 1),
        ('load("a", "{}")', 1),
    ],
)
@pytest.mark.parametrize("failure", ["hang up", "away"])
def test_only_what_cannot_happen_twice_is_sent_again(
    built: Path, call: str, num_sent: int, failure: str
) -> None:
    away = (503, {"error": {"code": "shard_unavailable", "message": "no", "status": 503}})
    first = away if failure == "away" else failure
    with serving(first, (200, {**PAGE, **WRITTEN})) as server:
        program = f"answer = await client.{call}.then(() => true, () => false);"
        assert run(built, server.url, program) is (num_sent == 2)
    assert len(server.asked) == num_sent


def test_what_was_not_begun_is_sent_again_whatever_it_is(built: Path) -> None:
    busy = (503, {"error": {"code": "overloaded", "message": "no", "status": 503}})
    with serving(busy, (200, WRITTEN)) as server:
        run(built, server.url, 'answer = await client.add("a", [{ name: "without id" }]);')
    assert len(server.asked) == 2


def test_a_stream_is_sent_once(built: Path) -> None:
    busy = (503, {"error": {"code": "overloaded", "message": "no", "status": 503}})
    with serving(busy) as server:
        program = """
            const lines = new Blob(["{}"]).stream();
            answer = await client.load("a", lines).catch((error) => error.code);
        """
        assert run(built, server.url, program) == "overloaded"
    assert len(server.asked) == 1


def test_a_failed_search_among_several_throws_its_error(built: Path) -> None:
    failed = {"error": {"code": "index_not_found", "message": "no", "status": 404}}
    with serving((200, {"results": [PAGE, failed]})) as server:
        program = """
            const listed = [{ index: "a" }, { index: "b" }];
            answer = await client.searches(listed).catch((error) => [error.status, error.code]);
        """
        assert run(built, server.url, program) == [404, "index_not_found"]


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_an_error_that_names_where_to(built: Path, status: int) -> None:
    target = {"Location": "https://example.org/a/search"}
    with serving((status, b"", target), (200, PAGE)) as server:
        program = 'answer = await client.search("a", { query: "x" }).catch(String);'
        assert "redirects to https://example.org/a/search" in run(built, server.url, program)
    assert len(server.asked) == 1


@pytest.mark.parametrize("content", [b"<html>", b"<html>\n</html>\n"])
@pytest.mark.parametrize("call", ['search("a")', 'export("a").next()'])
def test_another_server_is_named_as_such(built: Path, call: str, content: bytes) -> None:
    with serving((200, content)) as server:
        program = f"""
            answer = await client.{call}.catch((e) => [e instanceof FacetdError, e.message]);
        """
        is_ours, message = run(built, server.url, program)
    assert is_ours
    assert "is not facetd" in message


def test_an_answer_that_breaks_off_is_asked_for_again(built: Path) -> None:
    program = """
        let asked = 0;
        const broken = new ReadableStream({ pull(controller) { controller.error("broke"); } });
        const flaky = new Client({
            firstWait: 1,
            fetch: async () => new Response(++asked === 1 ? broken : "{}"),
        });
        await flaky.search("a");
        answer = asked;
    """
    assert run(built, "http://127.0.0.1", program) == 2


@pytest.mark.parametrize("name", [".", ".."])
def test_an_id_of_dots_is_refused_as_fetch_would_ask_for_a_folder(built: Path, name: str) -> None:
    with serving() as server:
        program = f"""
            try {{ answer = await client.get("a", {json.dumps(name)}); }}
            catch (error) {{ answer = error.message; }}
        """
        assert "dots" in run(built, server.url, program)
    assert server.asked == []


def test_an_export_that_is_left_early_ends_its_request(built: Path) -> None:
    program = """
        answer = false;
        const line = new TextEncoder().encode('{"id":1}\\n');
        const body = new ReadableStream({
            pull(controller) { controller.enqueue(line); },
            cancel() { answer = true; },
        });
        const endless = new Client({ fetch: async () => new Response(body) });
        for await (const one of endless.export("a")) if (one.id === 1) break;
    """
    assert run(built, "http://127.0.0.1", program) is True


WRONG = ['client.search("a", { pages: 3 })', "client.search(3)", 'client.facet("a")']
RIGHT = [
    'client.configure("a", { geo_fields: ["at"], nested: ["parts"], display: { title: "name" } })',
    'client.configure("a", { hierarchies: { place: { levels: ["country", "city"] } } })',
    'client.search("a", { rules: [{ pin: [1, { id: "b", position: 2 }] }], min_score: 0.5 })',
    'client.explain("a", 1, { query: "b" })',
]


@pytest.mark.parametrize("call", [*WRONG, *RIGHT])
def test_the_compiler_knows_the_parameters(built: Path, call: str) -> None:
    program = built / "src" / "program.ts"
    program.write_text(
        f'import {{ Client }} from "./index.js";\nconst client = new Client();\n{call};\n'
    )
    try:
        if call in RIGHT:
            tool("tsc", "-p", ".", "--noEmit", cwd=built)
        else:
            with pytest.raises(AssertionError, match=r"program\.ts"):
                tool("tsc", "-p", ".", "--noEmit", cwd=built)
    finally:
        program.unlink()
