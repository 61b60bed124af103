"""Nothing grows under a mixed load: memory, descriptors, threads, LMDB readers, states, files.

What is compared is the slope of a line through many samples, not the first and the last one: a
sample is taken at any phase of merges and of the allocator's habits. The slope is Theil and Sen's
(the median of the slopes of all pairs), which no single sample can bend.

Both forms are behind `--long`: what the short one tolerates has yet to be measured in quiet.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.mixed_load import MixedLoad, Sample, take_sample
from tests.service import Service

SETTLE_SECONDS = 0.3
WARM_SHARE = 0.4
"""Of the load, at its beginning, during which caches may still fill."""


def slope(points: list[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points."""
    return statistics.median(
        (b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2)
    )


def growth(samples: list[Sample]) -> dict[str, tuple[float, float]]:
    """Return by name how much a value grows over all samples, and its mean."""
    span = samples[-1].at - samples[0].at
    found = {}
    for name in samples[-1].values:
        points = [(one.at, one.values.get(name, 0.0)) for one in samples]
        mean = statistics.fmean(value for _, value in points)
        found[name] = (slope(points) * span, mean)
    return found


def tolerance(name: str, mean: float, share: float, floor_kb: float) -> float:
    """Return how much of a fitted growth is noise."""
    if name.endswith(" KB"):
        return max(floor_kb, share * mean)
    if name.endswith("_bytes"):
        return max(floor_kb * 1024, share * mean)
    return 3.0 + 0.02 * mean


def cpu_seconds(service: Service) -> float:
    """Return the processor time of this process and of the service."""
    own = os.times()
    total = own.user + own.system
    for pid in service.pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def run(
    tmp_path: Path, seconds: float, num_samples: int, cpu_share: float | None
) -> Iterator[Sample]:
    """Load a service for some time; yield a sample at regular moments, a round at least between.

    Args:
        tmp_path: for the data.
        seconds: of load.
        num_samples: that are taken.
        cpu_share: of one core that service and clients together may take; None: all there is.
    """
    environment = {"FACETD_LOG_LEVEL": "warning"}
    if cpu_share is None:  # else it would take a minute until as many leases end as begin
        environment["FACETD_LIMIT_CURSOR_LEASE_MS"] = "1000"
    with Service(tmp_path / "data", 2, environment=environment) as service:
        load = MixedLoad(service)
        load.begin()
        started, cpu_started = time.monotonic(), cpu_seconds(service)
        for number in range(num_samples):
            while load.num_rounds <= number or (
                time.monotonic() - started < seconds * (number + 1) / num_samples
            ):
                load.round()
                if cpu_share is not None:
                    due = started + (cpu_seconds(service) - cpu_started) / cpu_share
                    time.sleep(max(0.0, due - time.monotonic()))
            time.sleep(SETTLE_SECONDS if cpu_share is None else 3.0)
            yield take_sample(service, load.num_requests)
        assert "traceback" not in service.log(), service.log()[-5000:]
        assert service.terminate() == 0


def assert_flat(samples: list[Sample], share: float, floor_kb: float) -> None:
    warm = samples[int(len(samples) * WARM_SHARE) :]
    grown = {
        name: f"grows by {grown:.1f}, mean {mean:.1f}"
        for name, (grown, mean) in growth(warm).items()
        if grown > tolerance(name, mean, share, floor_kb)
    }
    assert not grown, json.dumps(grown, indent=1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_half_a_minute_of_mixed_load_leaves_all_flat(tmp_path: Path) -> None:
    samples = list(run(tmp_path, 20, 14, None))
    print(json.dumps(growth(samples[int(len(samples) * WARM_SHARE) :]), indent=1))
    assert_flat(samples, share=0.1, floor_kb=6_144)


@pytest.mark.long
@pytest.mark.timeout(5_000)
def test_an_hour_of_mixed_load_leaves_all_flat(tmp_path: Path) -> None:
    samples = []
    seconds = float(os.environ.get("FACETD_TEST_LOAD_SECONDS", "3600"))
    for sample in run(tmp_path, seconds, 60, 0.15):
        samples.append(sample)
        print(json.dumps(sample))
    assert_flat(samples, share=0.03, floor_kb=1_024)


def test_growth_is_seen_through_noise() -> None:
    noise = [0.0, 900.0, -700.0, 300.0, -100.0] * 5
    flat = [Sample(i, {"memory KB": 50_000 + noise[i]}) for i in range(25)]
    leak = [Sample(i, {"memory KB": 50_000 + noise[i] + 400 * i}) for i in range(25)]

    assert_flat(flat, 0.08, 1_024)
    with pytest.raises(AssertionError, match="memory KB"):
        assert_flat(leak, 0.08, 1_024)
