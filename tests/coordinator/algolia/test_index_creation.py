"""A write through Algolia's protocol creates its index, and never changes one that is there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from coordinator.catalog.catalog_state import CatalogState
from coordinator.http.security.access_control import Guard
from coordinator.http.security.api_keys import ANYBODY
from coordinator.routes.algolia_index_creation import index_to_write
from coordinator.settings import Settings
from coordinator.write.write_ordering import DocumentOf
from tests.coordinator.conftest import MakeService, Service

SETTINGS = {"language": "english"}
CREATED = {"geo_fields": ["_geoloc", "_geo"]}


def _request_of(service: Service) -> tuple[Any, Any]:
    services = SimpleNamespace(
        catalog=service.catalog,
        administration=service.administration,
        guard=Guard(Settings(), service.catalog),
        settings=Settings(),
    )
    return services, SimpleNamespace(caller=ANYBODY)


async def test_an_index_that_is_being_created_keeps_its_configuration(
    make_service: MakeService,
) -> None:
    service = await make_service(1)
    services, request = _request_of(service)
    _, written = await asyncio.gather(
        service.administration.configure("films", SETTINGS),
        index_to_write(services, request, "films"),
    )
    assert written.document == service.catalog.index("films").document == SETTINGS
    assert (await index_to_write(services, request, "books")).document == CREATED


async def test_an_index_that_another_host_has_created_keeps_its_configuration(
    make_service: MakeService,
) -> None:
    service = await make_service(1)
    services, request = _request_of(service)
    catalog = service.catalog

    async def put_index(name: str, document_of: DocumentOf) -> None:
        """Do as a log of several hosts: change again what another host has changed before."""
        document_of({})

        def other(state: CatalogState) -> CatalogState:
            return state.with_index(state.new_entry(name, SETTINGS))

        await catalog.change_here(other, is_active=False)
        entry = catalog.state.new_entry(name, document_of(SETTINGS))
        await catalog.change_here(lambda state: state.with_index(entry), is_active=False)
        catalog.activate()

    cast(Any, service.administration._log).put_index = put_index
    assert (await index_to_write(services, request, "films")).document == SETTINGS
