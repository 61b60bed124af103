"""Replaces the service's clock, threads, randomness, processes and disk by the world's.

The service has no seams for this, and needs none: every module of the packages names what it uses
of the standard library (`time`, `threading`, ...), and these names, and `ThreadPool`, are bound to
stand-ins for as long as a world is there. What a stand-in does not replace is the real thing.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import lmdb

from common.process import fault_injection, mapped_pages, thread_priority
from common.process.thread_pool import ThreadPool
from coordinator.http import listening
from coordinator.read import cursor
from shard.caches import background_derivation, lru_cache
from tests.simulation.network import BoundSocket
from tests.simulation.primitives import Condition, Executor, Lock, Thread
from tests.simulation.world import Killed, World

PACKAGES = ("common", "coordinator", "shard")
EPOCH = 1_800_000_000.0


class StandIn:
    """A module of which some names are replaced."""

    def __init__(self, real: Any, **replaced: Any) -> None:
        self._real = real
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def standing_in(world: World, kill: Callable[[int, int], None]) -> Iterator[None]:
    """Bind the names in all modules of the service to the world's for the body of a `with`.

    Args:
        world: whose.
        kill: stands for `os.kill`.
    """
    stand_ins = _stand_ins(world, kill)
    bound: list[tuple[Any, str, Any]] = []
    try:
        for module in [one for name, one in sys.modules.items() if name.split(".")[0] in PACKAGES]:
            for name, value in list(vars(module).items()):
                stand_in = stand_ins.get(id(value))
                if stand_in is not None and module is not fault_injection:
                    bound.append((module, name, value))
                    setattr(module, name, stand_in)
        yield
    finally:
        for module, name, value in bound:
            setattr(module, name, value)


def _stand_ins(world: World, kill: Callable[[int, int], None]) -> dict[int, Any]:
    """Return what stands for what, by the identity of the real thing."""

    def pausing(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            world.maybe_pause()
            return function(*args, **options)

        return run

    def exit_process(status: int) -> None:
        process = world.current.process
        process.status = status
        world.kill(process, f"exit status {status}")
        raise Killed

    def open_environment(*args: Any, **options: Any) -> Any:
        environment = lmdb.open(*args, **options)
        world.current.process.environments.append(environment)
        return environment

    def monotonic() -> float:
        return world.now

    modules = {
        time: StandIn(
            time,
            monotonic=monotonic,
            perf_counter=monotonic,
            perf_counter_ns=lambda: int(world.now * 1e9),
            time=lambda: EPOCH + world.now,
            sleep=lambda seconds: world.pause(at=world.now + seconds),
        ),
        threading: StandIn(
            threading,
            Lock=partial(Lock, world),
            RLock=partial(Lock, world, is_reentrant=True),
            Condition=partial(Condition, world),
            Thread=partial(Thread, world),
        ),
        os: StandIn(
            os,
            getpid=lambda: world.current.process.pid,
            kill=kill,
            _exit=exit_process,
            getpriority=lambda which, who: 0,
            setpriority=lambda which, who, priority: None,
            **{name: pausing(getattr(os, name)) for name in ("fsync", "replace", "rename")},
        ),
        secrets: StandIn(
            secrets,
            token_bytes=world.random.randbytes,
            token_hex=lambda size: world.random.randbytes(size).hex(),
            randbits=world.random.getrandbits,
            randbelow=world.random.randrange,
        ),
        gc: StandIn(gc, collect=lambda: 0, freeze=lambda: None),
        sys: StandIn(sys, setswitchinterval=lambda seconds: None),
        lmdb: StandIn(lmdb, open=open_environment),
    }
    stand_ins: dict[int, Any] = {id(real): stand_in for real, stand_in in modules.items()}
    stand_ins[id(threading.Lock)] = partial(Lock, world)
    stand_ins[id(listening.listen)] = lambda host, port: [BoundSocket(port)]
    # The real memory would decide when a shard looks at it again.
    stand_ins[id(mapped_pages.shared_bytes)] = lambda: 0
    stand_ins[id(time.monotonic)] = monotonic
    # Drawn once by each process; responses, and with them the trace, contain its seals.
    stand_ins[id(cursor._key)] = lambda: bytes(32)
    # What it sets would hold for this process, and tests that come later.
    stand_ins[id(thread_priority.keep_up)] = lambda: None
    # What another world has derived, and still has to do, is not this one's.
    stand_ins[id(background_derivation.BACKGROUND_TASKS)] = background_derivation.BackgroundTasks()
    for cache in [one for one in vars(lru_cache).values() if isinstance(one, lru_cache.LruCache)]:
        stand_ins[id(cache)] = lru_cache.LruCache(cache.bytes_max)

    def make_executor(*arguments: Any, **options: Any) -> Executor:
        return Executor(world, world.current.process, *arguments, **options)

    stand_ins[id(ThreadPool)] = make_executor

    def fault(name: str) -> None:
        world.maybe_pause()

    stand_ins[id(fault_injection.fault)] = fault
    return stand_ins
