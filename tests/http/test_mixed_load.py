"""Nothing grows under a mixed load: memory, descriptors, threads, LMDB readers, states, files.

What is compared is the slope of a line through many samples, not the first and the last one. The
slope is Theil and Sen's (the median of the slopes of all pairs), which no single sample can bend.
What is resident moves by megabytes also at rest; what is in use (`glibc_malloc.allocated`)
by a tenth of that, so it shows a leak first: a state kept of each group is 70 MB of it in the short
form, a request kept 4 MB. A text kept of each request is seen in the long form only.

A sample is taken at rest: merges are done, what is dead is purged, and the allocator has given back
what it had for them (`shard/partition/merge_flush_and_purge_scheduler.py`, step 3). Under load a
shard takes up to half as much again, by chance. What grows at first, also at rest, is bounded: logs
of groups that are folded when there are enough of them, threads of pools and what each of them
counts in, and the arenas of the allocator, until they have seen the worst that comes at once. After
two dozen rounds they have.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.http.mixed_load import MixedLoad, Sample, take_sample
from tests.service import Service

WARM_ROUNDS = 24
MEASURED_ROUNDS = 24
ROUNDS_PER_SAMPLE = 2
"""Of the short form."""
WARM_SHARE = 0.4
"""Of the long form's samples."""

NUM_SHARDS = 2
CPU_SHARE = 0.15
"""Of one core, that service and clients together take in the long form."""

PATIENT = {
    "FACETD_LOG_LEVEL": "warning",
    "FACETD_LIMIT_REQUEST_TIMEOUT_MS": "60000",
    "FACETD_SHARD_TIMEOUT_MS": "60000",
    "FACETD_SILENT_SHARD_SECONDS": "60",
    "FACETD_SHARD_RECENT_ITEMS_BYTES_MAX": "262144",
}
"""What counts is what is left, not how soon: the machine may be busy with other things. What is
kept up to a bound is at its bound soon."""

REST_TICKS_MAX = 1
"""Of processor time in the time of rest: looks at the clock, and nothing else."""
REST_SECONDS = 0.3
LONG_REST_SECONDS = 2.5
"""A shard with default settings merges and tidies when nothing was written for a second, and looks
at its memory every two."""
REST_SECONDS_MAX = 10.0


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


class Noise(NamedTuple):
    """How much of a fitted growth is noise: so much, or a share of the mean, whichever is more."""

    least: float
    share: float


SHORT_NOISE = {
    "memory KB": Noise(6_144, 0.2),  # moves by megabytes: what the allocator has free
    "allocated_bytes": Noise(2 << 20, 0.0),
    "python_blocks": Noise(12_000, 0.0),  # caches of the coordinator, which are emptied when full
    "used_bytes": Noise(512 << 10, 0.1),
    "disk KB": Noise(2_048, 0.1),
}
LONG_NOISE = {
    "memory KB": Noise(3_072, 0.0),
    # Pools start their threads one by one, for hours; each keeps some ten KB of freed pieces.
    "allocated_bytes": Noise(2 << 20, 0.0),
    "python_blocks": Noise(12_000, 0.0),
    "used_bytes": Noise(512 << 10, 0.1),
    "disk KB": Noise(1_024, 0.1),
}
COUNT_NOISE = Noise(3.0, 0.02)


def tolerance(name: str, mean: float, noise: dict[str, Noise]) -> float:
    """Return how much of a fitted growth is noise."""
    least, share = next((noise[end] for end in noise if name.endswith(end)), COUNT_NOISE)
    return max(least, share * mean)


def show(samples: list[Sample]) -> None:
    """Print, by name, what a value grows by, its mean, and all values."""
    for name, (grown, mean) in growth(samples).items():
        values = " ".join(f"{one.values.get(name, 0.0):.0f}" for one in samples)
        print(f"{name}: grows by {grown:.1f}, mean {mean:.1f}: {values}")


def cpu_ticks(service: Service) -> int:
    """Return the processor time that the service has taken, in the system's ticks."""
    total = 0
    for pid in service.pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


def cpu_seconds(service: Service) -> float:
    """Return the processor time of this process and of the service."""
    own = os.times()
    return own.user + own.system + cpu_ticks(service) / os.sysconf("SC_CLK_TCK")


def come_to_rest(service: Service, seconds: float = REST_SECONDS) -> None:
    """Return when the service does nothing any more: what the load has left to do is done."""
    give_up_at = time.monotonic() + REST_SECONDS_MAX
    ticks = cpu_ticks(service)
    while time.monotonic() < give_up_at:
        time.sleep(seconds)
        former, ticks = ticks, cpu_ticks(service)
        if ticks - former <= REST_TICKS_MAX:
            return


def served(tmp_path: Path) -> Service:
    """Return a service that comes to rest at once, and whose cursors end before that."""
    return Service(
        tmp_path / "data",
        NUM_SHARDS,
        environment={
            **PATIENT,
            "FACETD_SHARD_IDLE_MS": "100",
            "FACETD_LIMIT_CURSOR_LEASE_MS": "200",
        },
    )


def assert_ends_well(service: Service) -> None:
    assert "traceback" not in service.log().lower(), service.log()[-5000:]
    assert service.terminate() == 0


def assert_flat(samples: list[Sample], noise: dict[str, Noise]) -> None:
    grown = {
        name: f"grows by {grown:.1f}, mean {mean:.1f}"
        for name, (grown, mean) in growth(samples).items()
        if grown > tolerance(name, mean, noise)
    }
    assert not grown, json.dumps(grown, indent=1)


@pytest.mark.timeout(600)
def test_some_rounds_of_mixed_load_leave_all_flat(tmp_path: Path) -> None:
    samples = []
    with served(tmp_path) as service:
        load = MixedLoad(service)
        load.begin()
        for _ in range(WARM_ROUNDS):
            load.round()
        for number in range(MEASURED_ROUNDS):
            if number % ROUNDS_PER_SAMPLE == 0:
                come_to_rest(service)
                samples.append(take_sample(service, number))
            load.round()
        come_to_rest(service)
        samples.append(take_sample(service, MEASURED_ROUNDS))
        assert_ends_well(service)
    show(samples)
    assert_flat(samples, SHORT_NOISE)


@pytest.mark.alone  # its load is a share of a core
@pytest.mark.long
@pytest.mark.timeout(5_000)
def test_an_hour_of_mixed_load_leaves_all_flat(tmp_path: Path) -> None:
    samples = []
    seconds = float(os.environ.get("FACETD_TEST_LOAD_SECONDS", "3600"))
    num_samples = 60
    # Cursors end before the rest does: those of a minute are as many as the load is fast.
    environment = {**PATIENT, "FACETD_LIMIT_CURSOR_LEASE_MS": "2000"}
    with Service(tmp_path / "data", NUM_SHARDS, environment=environment) as service:
        load = MixedLoad(service)
        load.begin()
        started, cpu_started = time.monotonic(), cpu_seconds(service)
        for number in range(num_samples):
            while load.num_rounds <= number or (
                time.monotonic() - started < seconds * (number + 1) / num_samples
            ):
                load.round()
                due = started + (cpu_seconds(service) - cpu_started) / CPU_SHARE
                time.sleep(max(0.0, due - time.monotonic()))
            come_to_rest(service, LONG_REST_SECONDS)
            samples.append(take_sample(service, load.num_requests))
            print(json.dumps(samples[-1]), flush=True)
        assert_ends_well(service)
    assert_flat(samples[int(len(samples) * WARM_SHARE) :], LONG_NOISE)


def test_growth_is_seen_through_noise() -> None:
    noise = [0.0, 900.0, -700.0, 300.0, -100.0] * 5
    flat = [Sample(i, {"memory KB": 50_000 + noise[i]}) for i in range(25)]
    leak = [Sample(i, {"memory KB": 50_000 + noise[i] + 400 * i}) for i in range(25)]

    assert_flat(flat, LONG_NOISE)
    with pytest.raises(AssertionError, match="memory KB"):
        assert_flat(leak, LONG_NOISE)
