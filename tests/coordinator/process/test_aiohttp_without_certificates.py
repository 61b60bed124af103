"""aiohttp without certificates, in a process of its own."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import pytest

from tests.service import ROOT

CODE = """
import os
import coordinator.process.aiohttp_without_certificates
from aiohttp.connector import _SSL_CONTEXT_VERIFIED
print(len(_SSL_CONTEXT_VERIFIED.get_ca_certs()))
print({name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")})
"""


@pytest.mark.parametrize("variables", [{}, {"SSL_CERT_DIR": "/nowhere"}])
def test_no_certificate_is_read_and_the_environment_stays(variables: dict[str, str]) -> None:
    if not ssl.create_default_context().get_ca_certs():
        pytest.skip("this system has no certificates in one file")
    others = {name: value for name, value in os.environ.items() if not name.startswith("SSL_")}
    shown = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {"SSL_CERT_FILE": None, "SSL_CERT_DIR": None, **variables}
    assert shown.splitlines() == ["0", str(expected)]
