"""Every code in the source is documented, with the status that it has."""

from __future__ import annotations

import re
from pathlib import Path

from common import errors
from common.errors import ServiceError, decode_error
from coordinator.http import aiohttp_connections
from coordinator.http import request as exchange
from coordinator.http.api_description.error_codes import ERROR_CODES
from coordinator.parameters.parameter_table import FACET_PARAMETERS, SEARCH_PARAMETERS

ROOT = Path(__file__).resolve().parents[4]
CODE = re.compile(r"""(?:code=|default_code(?:: \w+\[str\])? = )"([a-z_]+)\"""")
SCANNER_CODE = re.compile(r'^    \w+(?:\.\w+)?: \(\s*"([a-z_]+)",', re.MULTILINE)


def codes_in_source() -> set[str]:
    found: set[str] = set()
    for package in ("common", "coordinator", "shard"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            found |= set(CODE.findall(text))
            if path == ROOT / "common" / "json" / "item_scanner.py":
                found |= set(SCANNER_CODE.findall(text))
    return found


def all_error_classes(kind: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in all_error_classes(child))]


def test_every_code_is_documented() -> None:
    of_parameters = {row.code for row in (*SEARCH_PARAMETERS, *FACET_PARAMETERS)}
    of_parameters |= {f"invalid_{row.name}" for row in (*SEARCH_PARAMETERS, *FACET_PARAMETERS)}

    assert codes_in_source() - set(ERROR_CODES) - of_parameters == set()


def test_documented_codes_exist() -> None:
    reserved = {"too_many_requests", "invalid_request"}

    assert set(ERROR_CODES) - codes_in_source() <= reserved


def test_statuses_are_those_of_the_classes() -> None:
    kinds = all_error_classes()

    assert {aiohttp_connections.UriTooLong, exchange.RequestTimeout} <= set(kinds)
    for kind in kinds:
        assert ERROR_CODES[kind.default_code].status == kind.http_status or kind in (
            errors.ServiceError,
            errors.UserError,
            errors.InvalidRequest,
        )


def test_code_that_crosses_the_rpc_keeps_its_status() -> None:
    of_http = {"uri_too_long", "headers_too_large", "request_timeout", "expectation_failed"}
    made_here = {
        *("host_not_allowed", "origin_not_allowed"),
        *("alias_not_found", "analytics_off", "key_not_found", "snapshot_not_found"),
        *("index_exists", "index_replaced", "shards_differ", "snapshot_in_use"),
        *(
            "index_changed_meanwhile",
            "not_with_several_hosts",
            "not_with_one_host",
            "host_not_found",
            "host_in_use",
        ),
        *("log_unavailable", "replica_lags", "replica_stopped"),
    }
    for row in ERROR_CODES.values():
        if row.code not in of_http | made_here:
            assert decode_error((row.code, "", None, {})).http_status == row.status, row.code
