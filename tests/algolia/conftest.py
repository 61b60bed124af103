"""A service with a shop in it, and Node with the real packages to ask it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.npm.install import packages
from tests.service import Service

ITEMS: list[dict[str, Any]] = [
    {
        "id": i,
        "name": f"Lamp {i}",
        "brand": "ABC"[i % 3],
        "size": ["S", "L"][: i % 3],
        "price": i,
        "hierarchy": {"lvl0": "Lamps", "lvl1": f"Lamp {i}"},
    }
    for i in range(30)
]
CONFIGURATION: dict[str, Any] = {"aggregations": {"brand": {}, "size": {}, "price": {}}}


class Shop(NamedTuple):
    """A service with the index `shop`."""

    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("algolia")
    with Service(folder / "data", 2) as service:
        client = service.client()
        assert client.post("/shop/configuration", CONFIGURATION).status == 200
        assert client.post("/shop/items", ITEMS).status == 200
        client.close()
        yield Shop(service.port)


def run_node(program: str, *arguments: str) -> Any:
    """Run a module beside the packages; return the JSON that it prints."""
    folder = packages()
    node = shutil.which("node")
    assert node is not None
    run = subprocess.run(
        [node, "--input-type=module", "-", *arguments],
        input=program,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def bundled(program: str, folder: Path) -> str:
    """Return a program and its packages as one script for a browser."""
    packages_folder = packages()
    out = folder / "bundle.js"
    command = [str(packages_folder / "node_modules" / ".bin" / "esbuild"), "--bundle"]
    command += ["--format=iife", "--loader=jsx", "--jsx=automatic", f"--outfile={out}"]
    command += ['--define:process.env.NODE_ENV="production"', "--log-level=error"]
    subprocess.run(command, input=program, cwd=packages_folder, text=True, timeout=60, check=True)
    return out.read_text()
