"""The fork server with a small program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from common.process.fork_server import ProcessRequest, Program, renumber
from tests.service import ROOT

WRITER = Program("writer", "tests.common.process.test_fork_server:write")


def write(arguments: list[str]) -> None:
    """Write the arguments to the descriptor that the first one names, and exit with status 7."""
    with open(int(arguments[0]), "w") as output:
        blocked = list(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        json.dump([sys.argv, blocked], output)
    sys.exit(7)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    server = subprocess.Popen(
        [sys.executable, "-m", "common.process.fork_server", str(number), "-" * 400],
        cwd=ROOT,
        pass_fds=(number,),
    )
    theirs.close()
    ours.settimeout(30)
    with ours:
        yield ours
    assert server.wait(10) == 0


def test_a_process_has_its_arguments_and_descriptors_under_their_numbers(
    connection: socket.socket,
) -> None:
    outputs = [os.pipe() for _ in range(2)]
    descriptors = [end for _, end in outputs]
    for (output, end), ordinal in zip(outputs, range(2), strict=True):
        ProcessRequest(ordinal, WRITER, [str(end), "é"], descriptors).send(connection)
        created = json.loads(connection.recv(4096))
        assert created["ordinal"] == ordinal
        assert json.loads(connection.recv(4096)) == {"pid": created["pid"], "status": 7}
        os.close(end)
        with open(output) as lines:  # ends: the fork server has kept no copy
            assert json.load(lines) == [["writer", str(end), "é"], []]
        descriptors = [one for one in descriptors if one != end]


def test_descriptors_swap_numbers() -> None:
    pipes = [os.pipe() for _ in range(2)]
    for (_, end), text in zip(pipes, (b"a", b"b"), strict=True):
        os.write(end, text)
    (first, _), (second, _) = pipes
    renumber((first, second), (second, first))
    assert (os.read(first, 9), os.read(second, 9)) == (b"b", b"a")
    for one in (end for ends in pipes for end in ends):
        os.close(one)
