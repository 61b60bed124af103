"""The field classes of a snapshot: how the words of each of its fields match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.analysis.field_classes import FieldClasses
from shard.caches.derived_values import derived

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot


@derived
def field_classes_of(snapshot: Snapshot) -> FieldClasses:
    """Return the classes of the fields, by the configuration."""
    configuration = snapshot.configuration
    return FieldClasses(
        configuration.language,
        configuration.field_languages,
        configuration.field_typo_lengths,
        configuration.infix_fields,
    )
