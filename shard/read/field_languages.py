"""The languages in which the fields of a snapshot are searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.analysis.language_and_typos_by_field import Languages
from shard.caches.derived_values import derived

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot


@derived
def languages_of(snapshot: Snapshot) -> Languages:
    """Return the languages of the fields."""
    configuration = snapshot.configuration
    return Languages(
        configuration.language,
        configuration.field_languages,
        configuration.field_typo_lengths,
        configuration.infix_fields,
    )
