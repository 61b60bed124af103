"""Clients for other programs' APIs, served as files; `INSTANTSEARCH` is an ES module."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

INSTANTSEARCH: Final = (files(__name__) / "instantsearch.js").read_bytes()
