"""Imports aiohttp without the system's certificates.

Its client makes two TLS contexts when it is imported, and each reads all certificates: a twentieth
of the processor time of a start. A coordinator uses aiohttp's server only; a client in it would
have to make a context of its own.

To be imported before anything else imports aiohttp, in a process that has one thread.
"""

from __future__ import annotations

import os
from typing import Final

_PLACES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that tell OpenSSL where certificates are."""


def _import() -> None:
    known = {name: os.environ.get(name) for name in _PLACES}
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        import aiohttp  # noqa: F401
    finally:
        for name, value in known.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_import()
