"""The result of a write: counts of stored items, and the items that were not stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from common.errors import InvalidRequest
from common.json.item_scanner import ItemError
from common.protocol.write_operations_and_outcomes import Outcome
from coordinator.write.write_batch import AppliedBatch

_ITEMS_FORM: Final = (
    '; the body must be items as JSON objects, one a line or in one array, such as {"id": 1, '
    '"name": "sea"}; facetd load also reads CSV, TSV and Parquet'
)


@dataclass(slots=True)
class WriteResult:
    """The outcome of a write.

    Attributes:
        created: number of new items.
        updated: number of items that replaced an older one.
        deleted: number of items deleted.
        rejected: number of items rejected.
        errors: the reasons, one object per rejected item, up to the limit `errors_reported_max`.
        seq: sequence number of the write; a search whose `meta.seq` is at least this sees it.
        refused: of single operations: positions and outcomes of those that could not be applied.
        has_text_id: whether the single deleted item had a text of digits as its id.
        num_without_id: items of the request that have no id.
    """

    created: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    seq: int = 0
    refused: list[tuple[int, Outcome]] = field(default_factory=list)
    has_text_id: bool = False
    num_without_id: int = 0

    @property
    def warnings(self) -> list[str]:
        """What the sender may not have meant."""
        number = self.num_without_id
        if not number:
            return []
        items, are, them = f"{number:,} items have", "they are", "them"
        if number == 1:
            items, are, them = "1 item has", "it is", "it"
        return [f"{items} no id: {are} stored again when sent again, and only filters reach {them}"]

    def add(self, applied: AppliedBatch) -> None:
        """Count the outcomes of a batch."""
        counts = np.bincount(applied.outcomes, minlength=len(Outcome))
        self.created += int(counts[Outcome.CREATED])
        self.updated += int(counts[Outcome.UPDATED])
        self.deleted += int(counts[Outcome.DELETED])
        self.seq = max(self.seq, applied.seq)

    def reject(self, id: int | str | None, code: str, message: str, errors_max: int) -> None:
        """Count an item that was not changed; list the first ones."""
        self.rejected += 1
        if len(self.errors) < errors_max:
            self.errors.append({"id": id, "code": code, "message": message})


class RejectedItems:
    """The invalid items of a body: all are counted, the first ones listed.

    Args:
        num_max: how many are listed.
        unit: what positions count: "line" or "index".
        is_array: returns whether the body turned out to be an array, whose positions are indexes.
    """

    def __init__(self, num_max: int, unit: str, is_array: Callable[[], bool] | None = None) -> None:
        self.num = 0
        self.listed: list[dict[str, Any]] = []
        self._num_max = num_max
        self._unit = unit
        self._is_array = is_array
        self._may_have_another_form = False

    def add(self, errors: Sequence[ItemError]) -> None:
        """Add the errors of a chunk."""
        self.num += len(errors)
        unit = "index" if self._is_array is not None and self._is_array() else self._unit
        if not self.listed and unit == "line" and errors[:1] and errors[0].position == 1:
            self._may_have_another_form = errors[0].is_of_form
        for error in errors[: self._num_max - len(self.listed)]:
            listed = {unit: error.position, "code": error.code, "message": error.message}
            if error.id is not None:
                listed["id"] = error.id
            self.listed.append(listed)

    def raise_if_any(self) -> None:
        """Reject the body if it has invalid items."""
        if not self.listed:
            return
        first = self.listed[0]
        more = f" (and {self.num - 1} more)" if self.num > 1 else ""
        if self._may_have_another_form:
            more += _ITEMS_FORM
        raise InvalidRequest(
            f"{first['message']}{more}; nothing was stored",
            code=first["code"],
            details={"rejected": self.num, "errors": self.listed},
        )
