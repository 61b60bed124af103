"""A process of Node that answers lines of JSON: many tests share one, and pay its start once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Ask = Callable[[Any], Any]
"""Sends a document; returns the one that the module answers it with."""
END_SECONDS = 30


@contextmanager
def node_process(module: Path) -> Iterator[Ask]:
    """Run a module that answers each line of its input with a line.

    It ends with its input: what keeps it longer, such as a timer that is left, is a mistake.
    """
    with subprocess.Popen(
        ["node", str(module)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def ask(document: Any) -> Any:
            lines.write(json.dumps(document) + "\n")
            lines.flush()
            answer = answers.readline()
            assert answer, f"{module.name} has ended"
            return json.loads(answer)

        try:
            yield ask
            lines.close()
            assert process.wait(END_SECONDS) == 0
        finally:
            process.kill()
