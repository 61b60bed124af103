"""A service of your own in front of facetd: it decides what is asked, and adds what is yours."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse

from facetd import AsyncClient, BadRequest, FacetdError, NotFound


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client for all requests."""
    url = os.environ.get("FACETD_URL", "http://127.0.0.1:3000")
    async with AsyncClient(url, os.environ.get("FACETD_KEY")) as client:
        app.state.client = client
        yield


app = FastAPI(title="Shop", lifespan=lifespan)


@app.exception_handler(FacetdError)
async def search_failed(request: Request, error: FacetdError) -> JSONResponse:
    """Answer for facetd when it does not answer, or refuses our key."""
    return JSONResponse({"detail": f"the search failed: {error}"}, 502)


@app.get("/search")
async def search(
    request: Request,
    q: str = "",
    category: Annotated[list[str] | None, Query()] = None,
    price_max: float | None = None,
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> dict[str, Any]:
    """Search the products; prices come with tax."""
    client: AsyncClient = request.app.state.client
    parameters: dict[str, Any] = {"query": q, "page": page, "per_page": 12}
    if category:
        parameters["filters"] = {"category": category}
    if price_max is not None:
        parameters["filter"] = f"price <= {price_max}"
    try:
        found = await client.search("products", facet_fields=["category"], **parameters)
    except BadRequest as error:
        raise HTTPException(400, str(error)) from error
    return {
        "total": found.total,
        "products": [
            {**item, "price_with_tax": round(item["price"] * 1.2, 2)} for item in found.items
        ],
        "categories": found.facets["category"].counts,
    }


@app.get("/products/{number}")
async def product(request: Request, number: int) -> dict[str, Any]:
    """Return one product."""
    client: AsyncClient = request.app.state.client
    try:
        return await client.get("products", number)
    except NotFound as error:
        raise HTTPException(404, "there is no such product") from error
