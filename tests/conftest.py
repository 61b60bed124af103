"""Options and Hypothesis profiles of all tests.

    pytest                                      what CI runs: minutes
    pytest --long                               whole data sets, long searches for counterexamples
    pytest --hypothesis-profile=nightly         more examples of everything

Profiles: dev (default) finds quickly, ci is the same every time, quick is for what another run has
tried already, nightly looks far.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci",
    deadline=None,
    suppress_health_check=_SLOW_IS_FINE,
    derandomize=True,
    database=None,
    max_examples=60,
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


_LONGEST = ("tests/simulation/",)
"""A file of these takes minutes, so it begins first."""
_ALL_HOSTS = ("tests/replication/",)
"""A file of these keeps both cores busy, and some of its tests look at the clock."""
_LONG = (
    "tests/algolia/",
    "tests/benchmarks/",
    "tests/cluster/",
    "tests/common/kernels/",
    "tests/coordinator/cli/",
    "tests/coordinator/process/",
    "tests/faults/",
    "tests/http/test_mixed_load.py",
    "tests/shard/process/",
    "tests/test_",
)
"""A file of these takes up to a minute: at the end, the other workers would wait for it."""


def long_files_first(files: Iterable[str]) -> list[str]:
    """Order files so that parallel workers end together, and seldom run several hosts at once."""
    files = list(files)
    longest = [file for file in files if file.startswith(_LONGEST)]
    hosts = [file for file in files if file.startswith(_ALL_HOSTS)]
    first = [file for file in files if file.startswith(_LONG)]
    last = [file for file in files if file not in {*longest, *hosts, *first}]
    step = max(1, len(first) // max(1, len(hosts)))
    for number, file in enumerate(hosts):
        first.insert(number * (step + 1), file)
    return longest + first + last


def pytest_configure() -> None:
    """Collect garbage less often: among the objects of ten thousand tests, a collection is slow.

    Hypothesis' tests take a sixteenth less time. Services that tests start have their own rules.
    """
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections, which were a quarter of the time of each worker.

    Modules and tests live as long as the process. They are not frozen: Hypothesis asks the garbage
    collector for their references.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """Undo what code under test does to the environment, such as a command that runs in place.

    Services of later tests would inherit it, and could not be forked (`tests.forking`).
    """
    before = dict(os.environ)
    yield
    now = dict(os.environ)
    for name in (before.keys() | now.keys()) - {"PYTEST_CURRENT_TEST"}:
        if name not in before:
            del os.environ[name]
        elif now.get(name) != before[name]:
            os.environ[name] = before[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        file_of = {item: item.nodeid.partition("::")[0] for item in items}
        rank = {name: i for i, name in enumerate(long_files_first(dict.fromkeys(file_of.values())))}
        items.sort(key=lambda item: rank[file_of[item]])
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        _skip(items, "alone", "measures time or memory: run by itself, with -m alone")
    if not config.getoption("--long"):
        _skip(items, "long", "takes minutes: run with --long")


def _skip(items: Iterable[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if marker in item.keywords:
            item.add_marker(pytest.mark.skip(reason=reason))
