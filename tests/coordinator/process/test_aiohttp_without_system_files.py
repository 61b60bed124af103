"""aiohttp without certificates and lists of file types, in a process of its own."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import pytest

from tests.service import ROOT

CERTIFICATES = """
import os
import coordinator.process.aiohttp_without_system_files
from aiohttp.connector import _SSL_CONTEXT_VERIFIED
print(len(_SSL_CONTEXT_VERIFIED.get_ca_certs()))
print({name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")})
"""
FILE_TYPES = """
import sys
read = []
sys.addaudithook(lambda event, details: read.append(details[0]) if event == "open" else None)
import coordinator.process.aiohttp_without_system_files
import mimetypes
print("aiohttp.web" in sys.modules, *{*mimetypes.knownfiles} & {*filter(str, read)})
"""


def _printed(code: str, variables: dict[str, str]) -> list[str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("SSL_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


@pytest.mark.parametrize("variables", [{}, {"SSL_CERT_DIR": "/nowhere"}])
def test_no_certificate_is_read_and_the_environment_stays(variables: dict[str, str]) -> None:
    if not ssl.create_default_context().get_ca_certs():
        pytest.skip("this system has no certificates in one file")

    expected = {"SSL_CERT_FILE": None, "SSL_CERT_DIR": None, **variables}
    assert _printed(CERTIFICATES, variables) == ["0", str(expected)]


def test_no_list_of_file_types_is_read() -> None:
    assert _printed(FILE_TYPES, {}) == ["True"]
