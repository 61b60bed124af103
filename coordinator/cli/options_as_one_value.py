"""Options that belong together, which a command takes as one value."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def with_options(
    argument: str, kind: type, *options: Callable[[F], F]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command options that belong together, passed to it as one value.

    Args:
        argument: the command's parameter.
        kind: a dataclass whose fields are the options' names.
        options: as `click.option` returns them, in the order of the help.
    """
    names = [field.name for field in dataclasses.fields(kind)]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*arguments: Any, **values: Any) -> Any:
            value = kind(**{name: values.pop(name) for name in names})
            return command(*arguments, **{argument: value}, **values)

        with_all: Callable[..., Any] = run
        for option in reversed(options):
            with_all = option(with_all)
        return with_all

    return add
