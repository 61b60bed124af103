"""The dashboard: a static front end that uses only the public HTTP API.

The coordinator serves `HOME_PAGE` at `/dashboard`, `PAGE` at `/dashboard/{index}`, and each of
`ASSETS` at `/dashboard/assets/<name>`. All addresses in them are relative, so a proxy may serve
them under any path; that is why the two pages differ. All files are read once, at import. Only
names in that dict exist, so no request can name a path on disk.
"""

from __future__ import annotations

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


ASSETS: dict[str, tuple[str, bytes]] = _load_assets()
PAGE: bytes = files(__name__).joinpath("index.html").read_bytes()
HOME_PAGE: bytes = PAGE.replace(b'"assets/', b'"dashboard/assets/')
