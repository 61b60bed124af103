"""The dashboard: a static front end that uses only the public HTTP API.

The coordinator serves `HOME_PAGE` at `/dashboard`, `PAGE` at `/dashboard/{index}`, and each of
`ASSETS` at `/dashboard/assets/<name>`. Pages name them by `VERSION` as well (`assets/<version>/…`,
so that modules name each other by it too): a browser keeps what it has got under such an address,
and asks for none of the modules again until one has changed. All addresses are relative, so a
proxy may serve them under any path; that is why the two pages differ. All files are read once, at
import. Only names in that dict exist, so no request can name a path on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield every file below a folder with its slash-separated name."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def _load_assets() -> dict[str, tuple[str, bytes]]:
    """Read the style sheet, the modules and the icon: name -> (content type, bytes)."""
    assets: dict[str, tuple[str, bytes]] = {}
    for name, entry in _walk(files(__name__)):
        content_type = CONTENT_TYPES.get(name.rpartition(".")[2])
        if content_type is not None:
            assets[name] = (content_type, entry.read_bytes())
    return assets


def _version_of(assets: dict[str, tuple[str, bytes]]) -> str:
    """Return what is different whenever an asset is."""
    digest = hashlib.blake2b(digest_size=8)
    for name, (_, content) in assets.items():
        digest.update(b"%s %d\n" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


ASSETS: dict[str, tuple[str, bytes]] = _load_assets()
VERSION: str = _version_of(ASSETS)
ASSETS_PATH: str = f"dashboard/assets/{VERSION}"
"""Where the pages find them, below the root."""
PAGE: bytes = (
    files(__name__)
    .joinpath("index.html")
    .read_bytes()
    .replace(b'"assets', b'"assets/%s' % VERSION.encode())
)
HOME_PAGE: bytes = PAGE.replace(b'"assets/', b'"dashboard/assets/')
