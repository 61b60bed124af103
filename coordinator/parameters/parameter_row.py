"""The type of a row in the table of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from coordinator.parameters.search_draft import SearchDraft

Schema: TypeAlias = dict[str, Any]


class Parameter(NamedTuple):
    """One parameter: its name, reader and documentation."""

    name: str
    read: Callable[[SearchDraft, Any], None]
    schema: Schema
    """JSON Schema of the value in a body."""
    description: str
    example: Any
    """A value, as in a body, that a search of the demo's films accepts."""
    code: str | None = None
    """Error code for an invalid value; None: `invalid_<name>`."""
    aliases: tuple[str, ...] = ()
    is_list: bool = False
    """Whether a query string may repeat it."""
    is_json: bool = False
    """Whether its text in a query string is always JSON."""
    stage: int = 0
    """Order of reading: some parameters depend on others."""
    is_required: bool = False

    @property
    def error_code(self) -> str:
        """Error code for an invalid value."""
        return self.code or f"invalid_{self.name}"
