"""Schemathesis reads the service's own description and sends what that allows, and what not.

It is a program of its own with many dependencies, so it is no dependency of ours: the test runs
where the command `schemathesis` is there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.http.fakes import CONFIGURATION
from tests.service import Service

COMMAND = shutil.which("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.mark.skipif(COMMAND is None, reason="the command schemathesis is not installed")
@pytest.mark.parametrize("is_about_films", [True, False])
@pytest.mark.timeout(600)
def test_described_requests_get_described_answers(tmp_path: Path, is_about_films: bool) -> None:
    with Service(tmp_path / "data", 2) as service:
        client = service.client()
        assert client.post("/films/configuration", CONFIGURATION).status == 200
        items = [{"id": i, "name": f"star {i}", "tags": ["a"], "year": 1990 + i} for i in range(9)]
        assert client.post("/films/items", items).status == 200
        document = client.get("/_openapi.json").json
        client.close()
        excluded = ["/_keys", "/_keys/{id}"]  # the first key would end the test
        if is_about_films:
            excluded += ["/{index}", "/{index}/reset"]
            _fix_paths(document)
        (tmp_path / "openapi.json").write_text(json.dumps(document))

        run = subprocess.run(
            [
                *(str(COMMAND), "run", str(tmp_path / "openapi.json")),
                *("--url", f"http://127.0.0.1:{service.port}"),
                *("--max-examples", "20", "--phases", "coverage,fuzzing", "--seed", "1"),
                *("--checks", ",".join(CHECKS), "--request-timeout", "20", "--no-color"),
                *(word for path in excluded for word in ("--exclude-path", path)),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

        assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
        assert client.get("/_ready").status == 200
        client.close()


def _fix_paths(document: dict[str, object]) -> None:
    """Let all requests go to the index and items that exist."""
    known = {"index": ["films"], "id": ["1", "2", "3", "nope"]}
    paths = document["paths"]
    assert isinstance(paths, dict)
    for operations in paths.values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    parameter["schema"] = {"enum": known[parameter["name"]]}
