"""The demo: films, loaded into a newly started service."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from common.endpoint_files import read_coordinator_endpoint
from coordinator.command_line_client import Client, ClientError, find_url

if TYPE_CHECKING:
    from coordinator.settings import Settings

INDEX: Final = "films"
READY_SECONDS: Final = 600.0
"""If kernels had to be compiled, the first start of an installation takes this long."""
TRY_SECONDS: Final = 0.05

_TEXT: Final = """
  facetd serves {films} at {url}

    dashboard      {url}/dashboard/films
    search         curl '{url}/films/search?query=godfather'
    with filters   curl -G '{url}/films/search' --data-urlencode 'filters={{"genres":["Drama"]}}'
    facet values   curl '{url}/films/facet?name=director&per_page=5'
    interface      {url}/_docs

  Ctrl-C stops it; the data stay in {data_dir}
"""


async def load_films(settings: Settings) -> None:
    """Wait for the service, configure and load the index, print what to try."""
    is_stopping = threading.Event()
    try:
        url, films = await asyncio.to_thread(_load, settings, is_stopping)
    finally:
        is_stopping.set()  # if we are cancelled, the thread ends, too
    print(_TEXT.format(films=films, url=url, data_dir=settings.data_dir), flush=True)


def _load(settings: Settings, is_stopping: threading.Event) -> tuple[str, str]:
    """Load the films; they have ids, so a second start changes nothing.

    An API key that was created since the first start closes the service; the films are there then.

    Returns:
        The service's address, and what it serves.

    Raises:
        ClientError: the service refuses the films, or stops.
    """
    files = resources.files(__name__)
    while read_coordinator_endpoint(settings.data_dir) is None:
        _wait(is_stopping)
    url = find_url(None, settings.data_dir, settings.host, settings.port)
    client = Client(url, os.environ.get("FACETD_KEY") or None)
    try:
        configuration = json.loads(files.joinpath("configuration.json").read_bytes())
        _configure(client, configuration, is_stopping)
        result = client.load(INDEX, files.joinpath("films.ndjson").read_bytes())
    except ClientError as error:
        if error.status not in (401, 403):
            raise
        return client.url, "its films, to requests with an API key,"
    return client.url, f"{int(result['created']) + int(result['updated'])} films"


def _configure(client: Client, configuration: dict[str, Any], is_stopping: threading.Event) -> None:
    """Configure the index, as soon as the shards serve: the service is not ready before we end."""
    give_up_at = time.monotonic() + READY_SECONDS
    while True:
        try:
            client.configure(INDEX, configuration)
        except ClientError as error:
            if error.status not in (0, 503) or time.monotonic() >= give_up_at:
                raise
            _wait(is_stopping)
        else:
            return


def _wait(is_stopping: threading.Event) -> None:
    """Wait before the next try.

    Raises:
        ClientError: the service stops.
    """
    if is_stopping.wait(TRY_SECONDS):
        raise ClientError("the service stops before its films are loaded")
