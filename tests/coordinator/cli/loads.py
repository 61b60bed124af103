"""`facetd load` in the test's own process, and what it loads."""

from __future__ import annotations

from click.testing import CliRunner, Result

from coordinator.cli.commands import main
from coordinator.command_line_client import Client
from tests.service import Service

BOOKS = "id,title,genre\n" + "".join(f"{i},Book {i},{'ab'[i % 2]}\n" for i in range(1, 21))
CITIES = "id,name,lat,lon\n1,Vienna,48.21,16.37\n2,Nowhere,,\n3,Paris,48.85,2.35\n"


def run(service: Service, *arguments: str, text: str | bytes | None = None) -> Result:
    url = f"http://127.0.0.1:{service.port}"
    return CliRunner().invoke(main, [*arguments, "--url", url], input=text)


def index_names(client: Client) -> list[str]:
    return [index["name"] for index in client.request("GET", "/_indexes")["indexes"]]
