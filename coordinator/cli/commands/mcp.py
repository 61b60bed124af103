"""The command that serves the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os

import click

from common.errors import CommandError
from coordinator.cli.connection_options import ConnectionOptions, with_service


@click.command()
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Also offer tools that add and remove items. Without it nothing can be changed.",
)
@with_service
def mcp(service: ConnectionOptions, allow_writes: bool) -> None:
    """Serve the Model Context Protocol, for language models, on stdin and stdout.

    It reads from a running service with the rights of the API key or tenant token. Needs the extra
    mcp: pip install 'facetd[mcp]'.
    """
    from facetd import AsyncClient

    try:
        from facetd.mcp import create_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "pydantic"):
            raise
        raise CommandError(
            "the Model Context Protocol needs a library that is not installed: "
            "pip install 'facetd[mcp]'"
        ) from None
    url = service.find_url(service.settings())
    key = service.key or os.environ.get("FACETD_KEY") or None
    try:
        client = AsyncClient(url, key)
    except ValueError as error:
        raise CommandError(str(error)) from None
    server = create_server(client, allows_writes=allow_writes)

    async def serve() -> None:
        async with client:  # closed in the loop that it was used in
            await server.run_stdio_async()

    asyncio.run(serve())
