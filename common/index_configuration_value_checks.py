"""The values of a configuration document, checked: each reader notes what is wrong, and where."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from common.errors import InvalidRequest
from common.nearest_name import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from common.limits import Limits

WARNINGS_MAX: Final = 100
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Problems:
    """Collects the mistakes in a document: (path, message) pairs, in document order."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Note a mistake; the message says what would be valid."""
        self.errors.append((path, message))

    def warn_of_unknown(
        self,
        keys: Iterable[str],
        known: Collection[str],
        path: str = "",
        instead: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Note keys that have no effect, each with the known key that may have been meant.

        Args:
            keys: of an object of the document.
            known: those that mean something.
            path: of the object.
            instead: what to say about keys that mean something elsewhere.
        """
        for key in keys:
            if key not in known and len(self.warnings) < WARNINGS_MAX:
                named = f"{path}.{key}" if path else key
                near = (
                    f"; here, {instead[key]}" if key in instead else did_you_mean(key[:100], known)
                )
                self.warnings.append(f"{named[:300]} is unknown and has no effect{near}")

    def raise_if_any(self, errors_max: int) -> None:
        """Raise one error that names the first mistake and lists all (up to a bound)."""
        if not self.errors:
            return
        path, message = self.errors[0]
        listed = [{"param": where, "message": what} for where, what in self.errors[:errors_max]]
        raise InvalidRequest(
            f"{path or 'configuration'} {message}",
            code="invalid_configuration",
            param=path or None,
            details={"errors": listed, "num_errors": len(self.errors)},
        )


class CheckedValues:
    """Reads values of a document.

    A shard reads a document that the coordinator accepted, possibly under wider limits than now. So
    bounds are checked only where limits are given: for new documents.

    Args:
        limits: on sizes; None: the document was accepted before.
        problems: collects the mistakes.
    """

    def __init__(self, limits: Limits | None, problems: Problems) -> None:
        self.limits = limits
        self.problems = problems

    def exceeds(self, size: int, limit_name: str) -> bool:
        """Return whether a size is above the named limit, if limits are enforced here."""
        return self.limits is not None and size > getattr(self.limits, limit_name)

    def check_size(self, path: str, size: int, limit_name: str, what: str) -> bool:
        """Note a mistake if a size is above its limit; return whether it is fine."""
        if self.limits is None or not self.exceeds(size, limit_name):
            return True
        self.problems.add(path, f"has {size} {what}, more than {self.limits.shown(limit_name)}")
        return False

    def is_field_name(self, path: str, name: object) -> bool:
        """Note a mistake unless the value can be the name or dotted path of a field."""
        if not isinstance(name, str) or not name:
            self.problems.add(path, "must be the name of a field, a text that is not empty")
            return False
        if self.exceeds(len(name.encode()), "field_name_bytes_max"):
            assert self.limits is not None
            shown = self.limits.shown("field_name_bytes_max")
            self.problems.add(path, f"is longer than a field's name may be: {shown} bytes")
            return False
        return True

    def field_names(self, path: str, value: object, limit_name: str) -> list[str]:
        """Read a list of names or dotted paths of fields."""
        names = self.texts_with_paths(path, value, limit_name, "fields")
        return [name for at, name in names if self.is_field_name(at, name)]

    def texts(self, path: str, value: object, limit_name: str, what: str) -> list[str]:
        """Read a list of texts that are not empty."""
        return [text for _, text in self.texts_with_paths(path, value, limit_name, what)]

    def texts_with_paths(
        self, path: str, value: object, limit_name: str, what: str
    ) -> list[tuple[str, str]]:
        """Read a list of texts that are not empty, each after its own path."""
        if not isinstance(value, list):
            self.problems.add(path, f"must be a list of {what}")
            return []
        if not self.check_size(path, len(value), limit_name, what):
            return []
        texts = []
        for i, one in enumerate(value):
            if isinstance(one, str) and one.strip():
                texts.append((f"{path}[{i}]", one))
            else:
                self.problems.add(f"{path}[{i}]", "must be a text that is not empty")
        return texts

    def boolean(self, path: str, value: object, default: bool) -> bool:
        """Read true or false."""
        if isinstance(value, bool):
            return value
        if value is not None:
            self.problems.add(path, "must be true or false")
        return default

    def integer(
        self, path: str, value: object, default: int, low: int, high: int, limit_name: str = ""
    ) -> int:
        """Read an integer between bounds; the upper one may be a limit."""
        if value is None:
            return default
        if type(value) is int and low <= value and (self.limits is None or value <= high):
            return value
        limit = f" (limit {limit_name})" if limit_name else ""
        self.problems.add(path, f"must be an integer from {low} to {high}{limit}")
        return default

    def number(self, path: str, value: object, default: float, high: float) -> float:
        """Read a finite number from 0 to a bound."""
        if value is None:
            return default
        if type(value) in (int, float):
            number = float(cast(float, value))
            if 0.0 <= number <= high:
                return number
        self.problems.add(path, f"must be a number from 0 to {high:g}")
        return default

    def fields(self, path: str, value: object, limit_name: str) -> tuple[str, ...]:
        """Read a list of fields, each once."""
        return tuple(dict.fromkeys(self.field_names(path, value, limit_name)))

    def object_of(
        self, path: str, value: object, what: str, limit_name: str, members: str
    ) -> dict[str, Any] | None:
        """Return an object that has not too many members; else None, with a mistake noted."""
        if not isinstance(value, dict):
            self.problems.add(path, f"must be an object of {what}")
            return None
        return value if self.check_size(path, len(value), limit_name, members) else None
