"""Every call that changes files below a folder, in order and with its bytes, as strace saw it.

strace sees every system call of a process, whether Python, numpy or LMDB makes it. `Trace.wrapper`
goes in front of a command; the traced program stays a direct child of the process that starts it
(strace -D). Afterwards `Trace.changes` reads the log.

What it cannot follow it refuses (`UnknownCall`) instead of leaving it out: mappings that are
written to, copies inside the kernel, appending. LMDB's lock file is the one exception: it is such a
mapping, and nothing in it outlives the processes that use it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

CALLS: Final = (
    *("open", "openat", "creat", "close", "dup", "dup2", "dup3", "lseek"),
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
    *("fsync", "fdatasync", "sync_file_range", "msync", "sync", "syncfs"),
    *("mmap", "sendfile", "copy_file_range", "splice"),
    *("clone", "clone3", "fork", "vfork"),
)
IGNORED_NAMES: Final = ("lock.mdb",)
STRING_BYTES_MAX: Final = 1 << 28

_LINE = re.compile(rb"^(\d+) +(\d+\.\d+) (.*)$")
_CALL = re.compile(rb"^(\w+)\((.*)\) += (-?\d+|\?)(.*)$", re.DOTALL)
_UNFINISHED = b" <unfinished ...>"
_RESUMED = re.compile(rb"^<\.\.\. (\w+) resumed>(.*)$", re.DOTALL)
_DESCRIPTOR = re.compile(rb"(-?\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_STRING = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_SENDFILE = re.compile(rb", \d+<((?:\\x[0-9a-f]{2})*)>, \[(\d+)\]")
_TAIL_OF_NUMBERS = re.compile(rb", (-?\d+)$")


class UnknownCall(Exception):
    """A traced process did something to the folder that the model of the disk does not know."""


@dataclass(frozen=True, slots=True)
class Change:
    """One call that changed files below the folder, or made changes durable.

    Attributes:
        begin, end: positions in the log, of its start and of its return; comparable over all.
        started, ended: wall clock at its start, and (if others ran meanwhile) at its return.
        kind: create, truncate, write, mkdir, link, rename, exchange, unlink, sync.
        path: of the file, or folder; of a link or rename the old name.
        target: of a link or rename the new name.
        offset: of a write; of a truncate the new size.
        data: of a write.
        is_synced: a write through a descriptor that syncs each (O_DSYNC).
    """

    begin: int
    end: int
    started: float
    ended: float
    kind: str
    path: str
    target: str = ""
    offset: int = 0
    data: bytes = b""
    is_synced: bool = False


@dataclass(slots=True)
class _Call:
    """One finished call of the log."""

    begin: int
    end: int
    started: float
    ended: float
    process: int
    name: str
    arguments: bytes
    result: int | None
    """None: the process was killed in it."""
    rest: bytes


@dataclass(slots=True)
class _OpenFile:
    """A descriptor for writing."""

    is_synced: bool
    position: int = 0


@dataclass
class Trace:
    """The log of one traced command.

    Attributes:
        folder: what the changes are wanted of; a resolved path.
        log: where strace writes.
    """

    folder: Path
    log: Path

    @property
    def wrapper(self) -> tuple[str, ...]:
        """The words in front of the command."""
        return (
            *("strace", "-D", "-f", "-q", "--seccomp-bpf", "-ttt", "-y", "-xx", "-v"),
            *("-s", str(STRING_BYTES_MAX), "-e", "signal=SIGKILL"),
            *("-e", "trace=" + ",".join(f"?{call}" for call in CALLS), "-o", str(self.log)),
        )

    def changes(self, *, seconds_max: float = 30) -> list[Change]:
        """Return the changes, when all traced processes have ended.

        Raises:
            UnknownCall: a change that the model does not know.
        """
        self._wait_for_end(seconds_max)
        return list(_Reader(str(self.folder)).changes(self.log.read_bytes()))

    def _wait_for_end(self, seconds_max: float) -> None:
        """Wait until strace has seen the end of every process and thread."""
        deadline = time.monotonic() + seconds_max
        while True:
            started: set[bytes] = set()
            ended: set[bytes] = set()
            for line in self.log.read_bytes().splitlines():
                found = _LINE.match(line)
                if found is not None:
                    started.add(found[1])
                    if found[3].startswith(b"+++"):
                        ended.add(found[1])
            if started and started <= ended:
                return
            assert time.monotonic() < deadline, f"traced and not ended: {started - ended}"
            time.sleep(0.05)


def join(*runs: Sequence[Change]) -> list[Change]:
    """Return the changes of runs that followed each other."""
    joined: list[Change] = []
    for run in runs:
        base = max((change.end for change in joined), default=-1) + 1
        joined += [
            replace(change, begin=change.begin + base, end=change.end + base) for change in run
        ]
    return joined


class _Reader:
    """Turns calls into changes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[tuple[int, int], _OpenFile] = {}

    def changes(self, log: bytes) -> Iterator[Change]:
        for call in _calls(log):
            if call.result is None or call.result >= 0:
                yield from self._change(call)

    def _change(self, call: _Call) -> Iterator[Change]:
        def change(kind: str, path: str, **more: object) -> Change:
            return Change(call.begin, call.end, call.started, call.ended, kind, path, **more)  # type: ignore[arg-type]

        match call.name:
            case "open" | "openat" | "creat":
                yield from self._open(call, change)
            case "close" | "lseek":
                yield from self._use(call, change)
            case "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile":
                yield from self._use(call, change)
            case "ftruncate" | "fsync" | "fdatasync":
                path = self._descriptor(call, parent=True)
                if path is not None:
                    is_sync = call.name != "ftruncate"
                    size = 0 if is_sync else _last_number(call.arguments)
                    kind = "sync" if is_sync else "truncate"
                    if not is_sync or call.result is not None:
                        yield change(kind, path, offset=size)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                path, target = self._names(call, 2)
                if self._is_ours(path) or self._is_ours(target):
                    kind = "link" if call.name.startswith("link") else "rename"
                    if b"RENAME_EXCHANGE" in call.arguments:
                        kind = "exchange"
                    yield change(kind, path, target=target)
            case "unlink" | "unlinkat" | "rmdir":
                (path,) = self._names(call, 1)
                if self._is_ours(path):
                    yield change("unlink", path)
            case "mkdir" | "mkdirat":
                (path,) = self._names(call, 1)
                if self._is_ours(path):
                    yield change("mkdir", path)
            case "mmap":
                is_written = b"PROT_WRITE" in call.arguments and b"MAP_SHARED" in call.arguments
                if is_written and self._descriptor(call) is not None:
                    raise UnknownCall(repr(call)[:400])
            case "clone" | "clone3" | "fork" | "vfork" | "dup" | "dup2" | "dup3" | "msync":
                pass  # duplicated descriptors of files below the folder would show as unknown ones
            case _:
                if self._descriptor(call) is not None or any(
                    self._is_ours(path) for path in self._names(call, 0)
                ):
                    raise UnknownCall(repr(call)[:400])

    def _open(self, call: _Call, change: object) -> Iterator[Change]:
        (path,) = self._names(call, 1)
        arguments = call.arguments
        is_written = b"O_WRONLY" in arguments or b"O_RDWR" in arguments or call.name == "creat"
        if not self._is_ours(path) or not is_written or b"O_TMPFILE" in arguments:
            return
        if b"O_APPEND" in arguments:
            raise UnknownCall(repr(call)[:400])
        assert callable(change)
        if call.result is not None:
            self._files[call.process, call.result] = _OpenFile(b"SYNC" in arguments)
        if b"O_CREAT" in arguments:
            yield change("create", path)
        if b"O_TRUNC" in arguments:
            yield change("truncate", path)

    def _use(self, call: _Call, change: object) -> Iterator[Change]:
        path = self._descriptor(call)
        if path is None:
            return
        assert callable(change)
        descriptor = int(call.arguments.partition(b"<")[0])
        file = self._files.get((call.process, descriptor))
        if call.name == "close":
            self._files.pop((call.process, descriptor), None)
            return
        if file is None:
            if call.name == "lseek":
                return  # opened for reading
            raise UnknownCall(repr(call)[:400])
        if call.name == "lseek":
            assert call.result is not None
            file.position = call.result
            return
        if call.name == "sendfile":
            data = self._sent(call)
        else:
            data = b"".join(_bytes(text) for text in _strings(call.arguments))
        if call.result is not None:
            assert call.result <= len(data), "strace has cut a string"
            data = data[: call.result]
        if call.name in ("write", "writev", "sendfile"):
            offset = file.position
            file.position += len(data)
        else:
            offset = _last_number(call.arguments)
        yield change("write", path, offset=offset, data=data, is_synced=file.is_synced)

    def _sent(self, call: _Call) -> bytes:
        """Return what was copied from another file, which must still be as it was."""
        parsed = _SENDFILE.search(call.arguments)
        if parsed is None or call.result is None or self._is_ours(_path(parsed[1])):
            raise UnknownCall(repr(call)[:400])
        with open(_path(parsed[1]), "rb") as source:
            source.seek(int(parsed[2]))
            return source.read(call.result)

    def _descriptor(self, call: _Call, *, parent: bool = False) -> str | None:
        """Return the path of the first descriptor, if it is a file of ours that has a name.

        Args:
            parent: also if it is the folder that has ours.
        """
        found = _DESCRIPTOR.search(call.arguments)
        if found is None or found[3] or found[1] == b"AT_FDCWD":
            return None
        path = _path(found[2])
        is_wanted = self._is_ours(path) or (parent and path == os.path.dirname(self._folder))
        return path if is_wanted else None

    def _names(self, call: _Call, num: int) -> list[str]:
        """Return the absolute paths that a call names."""
        paths = []
        base = ""
        for word in re.finditer(
            rb'(?:(?:-?\d+|AT_FDCWD)<(?P<base>(?:\\x[0-9a-f]{2})*)>|"(?P<name>(?:\\x[0-9a-f]{2})*)")',
            call.arguments,
        ):
            if word["name"] is None:
                base = _path(word["base"])
                continue
            paths.append(os.path.normpath(os.path.join(base, _path(word["name"]))))
        if num and len(paths) != num:
            raise UnknownCall(repr(call)[:400])
        return paths

    def _is_ours(self, path: str) -> bool:
        is_below = path == self._folder or path.startswith(self._folder + "/")
        return is_below and os.path.basename(path) not in IGNORED_NAMES


def _calls(log: bytes) -> Iterator[_Call]:
    """Yield the calls in the order in which they take effect."""
    lines = log.splitlines()
    owners = _processes(lines)
    waiting: dict[int, tuple[int, float, bytes]] = {}
    calls: list[_Call] = []
    for position, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            continue
        thread, moment, text = int(found[1]), float(found[2]), found[3]
        if text.endswith(_UNFINISHED):
            waiting[thread] = (position, moment, text.removesuffix(_UNFINISHED))
            continue
        begin, started = position, moment
        resumed = _RESUMED.match(text)
        if resumed is not None:
            begin, started, head = waiting.pop(thread)
            text = head + resumed[2]
        parsed = _CALL.match(text)
        if parsed is None:
            continue
        result = None if parsed[3] == b"?" else int(parsed[3])
        name = parsed[1].decode()
        process = owners.get(thread, thread)
        calls.append(
            _Call(begin, position, started, moment, process, name, parsed[2], result, parsed[4])
        )
    for thread, (begin, started, text) in waiting.items():  # killed in the middle
        name, _, arguments = text.partition(b"(")
        process = owners.get(thread, thread)
        end = len(lines)
        calls.append(
            _Call(begin, end, started, started, process, name.decode(), arguments, None, b"")
        )
    # A descriptor is there when `open` returns: another thread may close one of that number before.
    return iter(sorted(calls, key=lambda one: one.end if "open" in one.name else one.begin))


def _processes(lines: list[bytes]) -> dict[int, int]:
    """Return the process of each thread."""
    makers: dict[int, int] = {}
    is_thread: dict[int, bool] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None or b"clone" not in found[3]:
            continue
        thread, text = int(found[1]), found[3]
        if text.startswith(b"clone"):
            is_thread[thread] = b"CLONE_THREAD" in text
        result = re.search(rb"\) += (\d+)$", text)
        if result is not None and is_thread.get(thread):
            makers[int(result[1])] = thread

    def owner(thread: int) -> int:
        while thread in makers:
            thread = makers[thread]
        return thread

    return {thread: owner(thread) for thread in makers}


def _path(text: bytes) -> str:
    return os.fsdecode(_bytes(text))


def _bytes(text: bytes) -> bytes:
    return bytes.fromhex(text.replace(b"\\x", b"").decode())


def _strings(arguments: bytes) -> list[bytes]:
    found = list(_STRING.finditer(arguments))
    assert not any(one[2] for one in found), "strace has cut a string"
    return [one[1] for one in found]


def _last_number(arguments: bytes) -> int:
    found = _TAIL_OF_NUMBERS.search(arguments)
    assert found is not None, arguments[:200]
    return int(found[1])
