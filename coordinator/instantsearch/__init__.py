"""The search client of InstantSearch: an ES module, served to pages that use the widgets."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

INSTANTSEARCH: Final = (files(__name__) / "instantsearch.js").read_bytes()
