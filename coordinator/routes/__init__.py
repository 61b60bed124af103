"""The route table: every page of the service, one file per resource."""

from __future__ import annotations

from typing import Final

from coordinator.routes import search
from coordinator.routing import Route

ROUTES: Final[tuple[Route, ...]] = (*search.ROUTES,)
