"""The installed wheel: without numba or compiler, read-only, in a hostile folder.

FACETD_TEST_WHEEL names the wheel; .ci/run builds it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service import free_port

WHEEL = os.environ.get("FACETD_TEST_WHEEL")
START_SECONDS = 90
"""Time to start on a busy machine; what it must never do, compile kernels, takes longer."""

pytestmark = [
    pytest.mark.skipif(not WHEEL, reason="FACETD_TEST_WHEEL names no wheel"),
    pytest.mark.timeout(600),
]


UV = Path(sys.executable).with_name("uv")
"""Where it is, it installs: it takes a tenth of pip's processor time."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("wheel") / "environment"
    venv.create(folder)
    python = str(folder / "bin/python")
    if UV.exists():  # copies: a test changes a file
        command = [str(UV), "pip", "install", "-p", python, "--link-mode", "copy"]
    else:  # our pip, so that the environment needs none
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile"]
    environment = strangers_environment(folder)
    del environment["PYTHONPYCACHEPREFIX"]
    environment["HOME"] = str(Path.home())  # has what was downloaded before
    subprocess.run([*command, "-q", str(WHEEL)], check=True, env=environment)
    return folder


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A working directory whose files have the names of modules."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("common", "coordinator", "shard", "json", "numpy"):
        (folder / f"{name}.py").write_text("raise SystemExit('hostile code was run')\n")
    return folder


def files_of(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def strangers_environment(environment: Path) -> dict[str, str]:
    """Return variables that point neither to this checkout nor to a home.

    Bytecode goes beside the environment, in which nothing may be written.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FACETD_")}
    kept.pop("PYTHONPATH", None)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    bytecode = str(environment.with_name("bytecode"))
    return {**kept, "PYTHONPYCACHEPREFIX": bytecode, "HOME": "/nonexistent"}


@pytest.fixture
def service(environment: Path, hostile_folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a service of the wheel; it must end with status 0."""
    before = files_of(environment / "lib")
    port = free_port()
    command = [str(environment / "bin/facetd"), "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data")],
        cwd=hostile_folder,
        env=strangers_environment(environment),
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, process)
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert files_of(environment / "lib") == before
    finally:
        process.kill()


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            ask(f"{url}/_ready")
        except urllib.error.HTTPError as starting:
            starting.close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        else:
            return
        time.sleep(0.05)
    pytest.fail(f"not ready; status {process.poll()}")


def test_it_brings_no_compiler(environment: Path) -> None:
    (library,) = environment.glob("lib/python*/site-packages")
    installed = {path.name.partition("-")[0] for path in library.glob("*.dist-info")}
    assert {"facetd", "numpy"} <= installed
    assert not installed & {"numba", "llvmlite"}


def test_it_serves_wherever_it_is_started(service: str) -> None:
    ask(f"{service}/films/configuration", {"aggregations": {"year": {}}})
    items = [{"id": i, "title": f"The Godfather part {i}", "year": 1970 + i} for i in range(9)]
    ask(f"{service}/films/items", items)
    found = ask(f"{service}/films/search?query=godfathr&facet_fields=year")
    assert found["pagination"]["total"] == 9


def test_a_machine_that_it_has_no_code_for_hears_why(environment: Path, tmp_path: Path) -> None:
    """The sources do not belong to the compiled kernels, and numba is not there."""
    (library,) = environment.glob("lib/python*/site-packages")
    changed = library / "common/item_placement.py"
    content = changed.read_bytes()
    changed.write_bytes(content + b"\n# changed\n")
    try:
        command = [str(environment / "bin/facetd"), "serve", "--port", str(free_port())]
        ended = subprocess.run(
            [*command, "--data-dir", str(tmp_path / "data")],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env=strangers_environment(environment),
        )
    finally:
        changed.write_bytes(content)
    assert ended.returncode == 1
    assert "facetd[numba]" in ended.stderr.splitlines()[-1]
