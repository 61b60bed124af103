"""The TypeScript client: compiled with types generated from the service, run under Node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.algolia.conftest import Shop
from tests.facetd.scripted import serving
from tests.facetd.test_client import PAGE, WRITTEN
from tests.node_process import Ask, node_process
from tests.npm.install import packages

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "typescript"


def attempt(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(packages() / "node_modules" / ".bin" / name), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def tool(name: str, *arguments: str, cwd: Path) -> None:
    run = attempt(name, *arguments, cwd=cwd)
    assert run.returncode == 0, run.stdout + run.stderr


RUNNER = """
import { createInterface } from "node:readline";
import { Client, FacetdError } from "./dist/index.js";
const Program = (async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
    const { url, program } = JSON.parse(line);
    const body = `let answer;${program}\\nreturn answer;`;
    const run = new Program("Client", "FacetdError", "client", body);
    const done = run(Client, FacetdError, new Client({ url, firstWait: 1 }));
    console.log(JSON.stringify(await done.then(
        (answer) => ({ answer }),
        (error) => ({ error: String(error?.stack ?? error) }),
    )));
}
"""


class Built(NamedTuple):
    """The compiled client, and a process of Node that runs programs with it."""

    folder: Path
    ask: Ask


@pytest.fixture(scope="module")
def built(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    with urllib.request.urlopen(f"http://{shop.host}/_openapi.json", timeout=30) as reply:
        (folder / "openapi.json").write_bytes(reply.read())
    tool("openapi-typescript", "openapi.json", "-o", "src/schema.ts", cwd=folder)
    tool("tsc", "-p", ".", cwd=folder)
    (folder / "runner.mjs").write_text(RUNNER)
    with node_process(folder / "runner.mjs") as ask:
        yield Built(folder, ask)


def run(built: Built, url: str, program: str) -> Any:
    """Run a program with the compiled client; it returns what `answer` is."""
    told = built.ask({"url": url, "program": program})
    assert "error" not in told, told["error"]
    return told.get("answer")


def test_against_the_service(built: Built, shop: Shop) -> None:
    answer = run(
        built,
        f"http://{shop.host}",
        """
        await client.configure("ts", { aggregations: { kind: {} } });
        const added = await client.add("ts", [{ id: 1, kind: "a" }, { id: 2, kind: "b" }]);
        await client.load("ts", '{"id":3,"kind":"a"}\\n{"id":"x y","kind":"a"}\\n');
        await client.update("ts", 2, { kind: "x" });
        const changes = [{ id: 2, kind: "c" }, { id: 9, kind: "c" }];
        const patched = await client.updateItems("ts", changes);
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
        await client.copy("ts", "ts-copy");
        await client.rename("ts-copy", "ts", { replace: true });
        await client.rename("ts", "ts-2", { alias: true });
        const renamed = await client.get("ts", 3);
        await client.deleteIndex("ts-2");
        answer = { added: added.created, total: page.pagination.total, all: first.pagination.total,
            values: facet.data.buckets.map((bucket) => bucket.key), item, exported,
            deleted: deleted.deleted, error, renamed,
            patched: [patched.updated, patched.rejected] };
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
        "renamed": {"id": 3, "kind": "a"},
        "patched": [1, 1],
    }


@pytest.mark.parametrize(
    ("call", "num_sent"),
    [
        ('search("a")', 2),
        ('add("a", [{ id: 1 }])', 2),
        ('add("a", [{ name: "without id" }])', 1),
        ('load("a", "{}")', 1),
        ('rename("a", "b")', 1),
        ('copy("a", "b")', 1),
    ],
)
@pytest.mark.parametrize("failure", ["hang up", "away"])
def test_only_what_cannot_happen_twice_is_sent_again(
    built: Built, call: str, num_sent: int, failure: str
) -> None:
    away = (503, {"error": {"code": "shard_unavailable", "message": "no", "status": 503}})
    first = away if failure == "away" else failure
    with serving(first, (200, {**PAGE, **WRITTEN})) as server:
        program = f"answer = await client.{call}.then(() => true, () => false);"
        assert run(built, server.url, program) is (num_sent == 2)
    assert len(server.asked) == num_sent


def test_what_was_not_begun_is_sent_again_whatever_it_is(built: Built) -> None:
    busy = (503, {"error": {"code": "overloaded", "message": "no", "status": 503}})
    with serving(busy, (200, WRITTEN)) as server:
        run(built, server.url, 'answer = await client.add("a", [{ name: "without id" }]);')
    assert len(server.asked) == 2


STARTING = (503, {"error": {"code": "starting", "message": "no", "status": 503}})


@pytest.mark.parametrize(
    ("options", "num_sent"), [("", 9), ("triesWhileStarting: 6", 6), ("tries: 1", 1)]
)
def test_a_service_that_starts_is_waited_for(built: Built, options: str, num_sent: int) -> None:
    with serving(*[STARTING] * 8, (200, WRITTEN)) as server:
        program = f"""
            const waiting = new Client({{ url: client.url, firstWait: 1, {options} }});
            const added = waiting.add("a", [{{ name: "without id" }}]);
            answer = await added.then(() => true, (error) => error.code);
        """
        assert run(built, server.url, program) == (True if num_sent == 9 else "starting")
    assert len(server.asked) == num_sent


@pytest.mark.parametrize(
    ("steps", "is_answered"),
    [
        (["starting", "starting", "lost", "starting", "overloaded", "ok"], True),
        (["starting", "late", "late", "ok"], False),
        (["lost", "lost", "ok"], False),
    ],
)
def test_a_start_is_waited_for_while_the_port_changes_hands(
    built: Built, steps: list[str], is_answered: bool
) -> None:
    """The lost connection is a part of the start, and neither counts as a failed try."""
    program = f"""
        const steps = {json.dumps(steps)};
        const fetch = async () => {{
            const step = steps.shift();
            if (step === "ok") return new Response("{{}}");
            if (step === "lost") throw new TypeError("fetch failed");
            if (step === "late") throw new DOMException("late", "TimeoutError");
            return Response.json({{ error: {{ code: step }} }}, {{ status: 503 }});
        }};
        const waiting = new Client({{ firstWait: 1, tries: 2, fetch }});
        answer = await waiting.search("a").then(() => true, () => false);
    """
    assert run(built, "http://127.0.0.1", program) is is_answered


def test_a_stream_is_sent_once(built: Built) -> None:
    busy = (503, {"error": {"code": "overloaded", "message": "no", "status": 503}})
    with serving(busy) as server:
        program = """
            const lines = new Blob(["{}"]).stream();
            answer = await client.load("a", lines).catch((error) => error.code);
        """
        assert run(built, server.url, program) == "overloaded"
    assert len(server.asked) == 1


def test_a_failed_search_among_several_throws_its_error(built: Built) -> None:
    failed = {"error": {"code": "index_not_found", "message": "no", "status": 404}}
    with serving((200, {"results": [PAGE, failed]})) as server:
        program = """
            const listed = [{ index: "a" }, { index: "b" }];
            answer = await client.searches(listed).catch((error) => [error.status, error.code]);
        """
        assert run(built, server.url, program) == [404, "index_not_found"]


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_an_error_that_names_where_to(built: Built, status: int) -> None:
    target = {"Location": "https://example.org/a/search"}
    with serving((status, b"", target), (200, PAGE)) as server:
        program = 'answer = await client.search("a", { query: "x" }).catch(String);'
        assert "redirects to https://example.org/a/search" in run(built, server.url, program)
    assert len(server.asked) == 1


@pytest.mark.parametrize("content", [b"<html>", b"<html>\n</html>\n"])
@pytest.mark.parametrize("call", ['search("a")', 'export("a").next()'])
def test_another_server_is_named_as_such(built: Built, call: str, content: bytes) -> None:
    with serving((200, content)) as server:
        program = f"""
            answer = await client.{call}.catch((e) => [e instanceof FacetdError, e.message]);
        """
        is_ours, message = run(built, server.url, program)
    assert is_ours
    assert "is not facetd" in message


def test_an_answer_that_breaks_off_is_asked_for_again(built: Built) -> None:
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


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_that_would_ask_for_something_else_is_refused(built: Built, name: str) -> None:
    with serving() as server:
        program = f"""
            try {{ answer = await client.get("a", {json.dumps(name)}); }}
            catch (error) {{ answer = error.message; }}
        """
        assert "dots" in run(built, server.url, program)
    assert server.asked == []


def test_an_export_that_is_left_early_ends_its_request(built: Built) -> None:
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


CALLS = [
    'search("a", {}, options)',
    'searches([{ index: "a" }], options)',
    'facet("a", "kind", {}, options)',
    'suggest("a", "b", {}, options)',
    'explain("a", 1, {}, options)',
    'get("a", 1, options)',
    'add("a", [{ id: 1 }], options)',
    'update("a", 1, { b: 2 }, options)',
    'updateItems("a", [{ id: 1, b: 2 }], options)',
    'delete("a", { ids: [1] }, options)',
    'load("a", "{}", options)',
    'export("a", {}, options).next()',
    'configure("a", {}, options)',
    'configuration("a", options)',
    'rename("a", "b", options)',
    'copy("a", "b", options)',
    'deleteIndex("a", options)',
]


def test_each_call_is_among_the_calls(built: Built) -> None:
    program = "answer = Object.getOwnPropertyNames(Client.prototype);"
    methods = set(run(built, "http://127.0.0.1", program)) - {"constructor"}
    assert methods == {call.partition("(")[0] for call in CALLS}


@pytest.mark.parametrize("place", ["headers", "content"])
def test_each_call_fails_after_the_timeout(built: Built, place: str) -> None:
    program = f"""
        {_SILENT[place]}
        const patient = new Client({{ fetch: silent, tries: 1 }});
        const options = {{ timeout: 10 }};
        const calls = [{", ".join(f"() => patient.{call}" for call in CALLS)}];
        answer = await Promise.all(calls.map((call) => call().then(
            () => "answered",
            (error) => [error instanceof FacetdError, error.status, error.cause?.name],
        )));
    """
    assert run(built, "http://127.0.0.1", program) == [[True, 0, "TimeoutError"]] * len(CALLS)


@pytest.mark.parametrize("place", ["headers", "content"])
def test_each_call_ends_with_the_reason_of_its_signal(built: Built, place: str) -> None:
    program = f"""
        {_SILENT[place]}
        const patient = new Client({{ fetch: silent, firstWait: 1 }});
        const controller = new AbortController();
        const options = {{ signal: controller.signal }};
        const calls = [{", ".join(f"() => patient.{call}" for call in CALLS)}];
        setTimeout(() => controller.abort(), 20);
        answer = await Promise.all(calls.map((call) => call().then(
            () => "answered",
            (error) => error === controller.signal.reason && error.name,
        )));
        answer.push(asked);
    """
    ended = run(built, "http://127.0.0.1", program)
    assert ended == [*["AbortError"] * len(CALLS), len(CALLS)]


_NEVER = """
    let asked = 0;
    const until = (signal) => new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
    });
"""
_SILENT = {
    "headers": f"""{_NEVER}const silent = (_, {{ signal }}) => {{
        asked += 1;
        return until(signal);
    }};""",
    "content": f"""{_NEVER}const silent = async (_, {{ signal }}) => {{
        asked += 1;
        return new Response(new ReadableStream({{ start: () => {{}}, pull: () => until(signal) }}));
    }};""",
}
"""A service that answers nothing, or headers only, until the request is aborted."""


def test_a_call_whose_signal_is_aborted_sends_nothing(built: Built) -> None:
    with serving() as server:
        program = """
            const signal = AbortSignal.abort("enough");
            answer = await client.search("a", {}, { signal }).catch((reason) => reason);
        """
        assert run(built, server.url, program) == "enough"
    assert server.asked == []


def test_a_signal_ends_the_wait_before_the_next_try(built: Built) -> None:
    busy = (503, {"error": {"code": "overloaded", "message": "no", "status": 503}})
    with serving(busy) as server:
        program = """
            const controller = new AbortController();
            let answered;
            const patient = new Client({
                url: client.url,
                firstWait: 10_000,
                fetch: async (...request) => {
                    const reply = await fetch(...request);
                    answered = Date.now();
                    setTimeout(() => controller.abort(), 100);
                    return reply;
                },
            });
            const error = await patient.search("a", {}, { signal: controller.signal })
                .catch((error) => error);
            answer = [error.name, Date.now() - answered < 4_000];
        """
        assert run(built, server.url, program) == ["AbortError", True]
    assert len(server.asked) == 1


def test_a_read_that_timed_out_is_sent_again(built: Built) -> None:
    program = f"""
        {_SILENT["headers"]}
        const slow = new Client({{
            firstWait: 1,
            timeout: 20,
            fetch: (...request) => asked ? new Response("{{}}") : silent(...request),
        }});
        await slow.search("a");
        answer = asked;
    """
    assert run(built, "http://127.0.0.1", program) == 1


def test_the_timeout_counts_from_the_last_byte_and_not_while_the_caller_works(built: Built) -> None:
    program = """
        const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        const line = new TextEncoder().encode('{"id":1}\\n');
        let sent = 0;
        const drops = new ReadableStream({
            async pull(controller) {
                if (sent++ === 4) return controller.close();
                await sleep(100);
                controller.enqueue(line);
            },
        }, { highWaterMark: 0 });
        const fetch = async () => new Response(drops);
        const dropping = new Client({ timeout: 250, tries: 1, fetch });
        answer = 0;
        for await (const _ of dropping.export("a")) {
            answer += 1;
            await sleep(answer === 1 ? 400 : 0);
        }
    """
    assert run(built, "http://127.0.0.1", program) == 4


def test_the_timeout_of_the_client_is_not_that_of_a_load(built: Built) -> None:
    program = """
        const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        const slow = async (_, { signal }) => {
            await sleep(100);
            signal.throwIfAborted();
            return new Response("{}");
        };
        answer = await new Client({ timeout: 10, fetch: slow }).load("a", "{}");
    """
    assert run(built, "http://127.0.0.1", program) == {}


@pytest.mark.parametrize("timeout", ["0", "-1", "NaN"])
def test_a_timeout_that_is_none_is_refused(built: Built, timeout: str) -> None:
    program = f"""
        answer = await client.search("a", {{}}, {{ timeout: {timeout} }}).catch(String);
    """
    assert f"above 0 milliseconds, not {timeout}" in run(built, "http://127.0.0.1", program)


@pytest.mark.parametrize("timeout", ["Infinity", "2 ** 31"])
def test_a_timeout_longer_than_timers_is_none(built: Built, timeout: str) -> None:
    with serving((200, PAGE)) as server:
        program = f'await client.search("a", {{}}, {{ timeout: {timeout} }}); answer = true;'
        assert run(built, server.url, program) is True


def test_a_signal_that_lives_on_keeps_nothing_of_finished_calls(built: Built) -> None:
    with serving((200, PAGE), (404, {}), (200, b'{"id":1}\n')) as server:
        program = """
            const { signal } = new AbortController();
            const listeners = new Set();
            let most = 0;
            signal.addEventListener = (_, one) => { most = listeners.add(one).size; };
            signal.removeEventListener = (_, one) => listeners.delete(one);
            await client.search("a", {}, { signal });
            await client.search("a", {}, { signal }).catch(() => {});
            for await (const _ of client.export("a", {}, { signal })) break;
            answer = [most, listeners.size];
        """
        assert run(built, server.url, program) == [1, 0]


WRONG = ['client.search("a", { pages: 3 })', "client.search(3)", 'client.facet("a")']
RIGHT = [
    'client.configure("a", { geo_fields: ["at"], nested: ["parts"], display: { title: "name" } })',
    'client.configure("a", { hierarchies: { place: { levels: ["country", "city"] } } })',
    'client.search("a", { rules: [{ pin: [1, { id: "b", position: 2 }] }], min_score: 0.5 })',
    'client.explain("a", 1, { query: "b" })',
]


LOADING = """
import { Client, type SearchAnswer } from "facetd-client";
import { openAsBlob } from "node:fs";
const client = new Client({ url: process.argv[2]! });
await client.configure("ts-loaded", {});
const loaded = await client.load("ts-loaded", await openAsBlob(process.argv[3]!));
let cursor: string | undefined = "*";
const ids: unknown[] = [];
while (cursor) {
  const page: SearchAnswer = await client.search("ts-loaded", { cursor, per_page: 2 });
  ids.push(...page.data.items.map((item) => item["id"]));
  cursor = page.pagination.cursor;
}
console.log(JSON.stringify([loaded.created, ids]));
"""


def test_a_project_with_the_types_of_node_alone(built: Built, shop: Shop, tmp_path: Path) -> None:
    """They lack some names of the DOM's, on which the client must not depend."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "facetd-client").symlink_to(built.folder)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "load.ts").write_text(LOADING)
    options = {
        "target": "ES2022", "module": "nodenext", "lib": ["ES2023"], "types": ["node"],
        "typeRoots": [str(packages() / "node_modules" / "@types")], "strict": True,
        "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True,
        "preserveSymlinks": True,
    }  # fmt: skip
    programs = {f"program{n}.ts": call for n, call in enumerate(WRONG + RIGHT)}
    for name, call in programs.items():
        source = (
            f'import {{ Client }} from "facetd-client";\nconst client = new Client();\n{call};\n'
        )
        (tmp_path / name).write_text(source)
    project = {"compilerOptions": options, "files": ["load.ts", *programs]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project))
    items = tmp_path / "items.ndjson"
    items.write_text("".join(f'{{"id":{i}}}\n' for i in range(5)))

    # The compiler knows the parameters, and finds no mistake but these.
    compiled = attempt("tsc", "-p", ".", cwd=tmp_path).stdout
    mistaken = set(re.findall(r"^(\S+)\(\d+,\d+\): error TS", compiled, re.MULTILINE))
    assert sorted(mistaken) == [name for name, call in programs.items() if call in WRONG]
    done = subprocess.run(
        ["node", "load.js", f"http://{shop.host}", str(items)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [5, [0, 1, 2, 3, 4]]
