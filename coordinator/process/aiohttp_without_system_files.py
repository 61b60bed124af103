"""Imports aiohttp without files of the system that only a client, or a server of files, needs.

Its client makes two TLS contexts when it is imported, and each reads all certificates; its server
reads the lists of file types. Each is 3 to 5 % of the processor time of a start. A coordinator uses
aiohttp's server only, and names the types of what it serves itself; a client in it would have to
make a context of its own.

To be imported before anything else imports aiohttp, in a process that has one thread.
"""

from __future__ import annotations

import mimetypes
import os
from typing import Final

_PLACES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that tell OpenSSL where certificates are."""


def _import() -> None:
    known = {name: os.environ.get(name) for name in _PLACES}
    lists = mimetypes.knownfiles
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    mimetypes.knownfiles = []
    try:
        import aiohttp.web  # noqa: F401
    finally:
        mimetypes.knownfiles = lists
        for name, value in known.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_import()
