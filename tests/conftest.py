"""Options and Hypothesis profiles of all tests.

    pytest                                      what CI runs: minutes
    pytest --long                               whole data sets, long searches for counterexamples
    pytest --hypothesis-profile=nightly         more examples of everything

Profiles: dev (default) finds quickly, ci is the same every time, quick is for what another run has
tried already, nightly looks far.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci", deadline=None, suppress_health_check=_SLOW_IS_FINE, derandomize=True, database=None
)
settings.register_profile(
    "quick",
    deadline=None,
    suppress_health_check=_SLOW_IS_FINE,
    derandomize=True,
    database=None,
    max_examples=15,
)
settings.register_profile(
    "nightly", deadline=None, suppress_health_check=_SLOW_IS_FINE, max_examples=3_000
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what takes minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes minutes: run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)
