"""Drill sideways: a facet's counts may leave out its own clauses, so which matches count?

    scope       matches                                  what counts them
    None        documents that pass everything           facets, ranges, sums
    "country"   documents that pass all but the          disjunctive counts of `country`
                clauses marked with `country`

Collectors ask for the scope of a count, then for its matches. What they compute from the matches
of a scope, they keep by scope: several facets usually share one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from common.protocol.messages import elements_of

if TYPE_CHECKING:
    from common.protocol.messages import FacetRequest
    from shard.query.matches import Matches

Scope: TypeAlias = str | None


class CountedMatches:
    """The matches of a search, by scope.

    Args:
        facets: those whose own clauses can be left out.
        found: the matches that are known, by segment of the snapshot.
        find: returns those of another scope; called once for each.
    """

    __slots__ = ("_facets", "_find", "_found")

    def __init__(
        self,
        facets: Collection[str],
        found: dict[Scope, Sequence[Matches]],
        find: Callable[[Scope], Sequence[Matches]],
    ) -> None:
        self._facets = facets
        self._found = found
        self._find = find

    @classmethod
    def of(
        cls, hits: Sequence[Matches], without: Mapping[str, Sequence[Matches]] | None = None
    ) -> CountedMatches:
        """Return matches that are known: the hits, and those without a facet's own clauses."""
        found: dict[Scope, Sequence[Matches]] = {None: hits}
        if without:
            found.update(without)
        return cls(without or (), found, found.__getitem__)

    def scope(self, field: str, *, leaves_out_own: bool) -> Scope:
        """Return the scope of counts of a field, with or without the clauses marked with it."""
        return field if leaves_out_own and field in self._facets else None

    def scope_of_facet(self, request: FacetRequest) -> Scope:
        """Return the scope of a facet's counts; of elements, without the clauses on these."""
        if not self._facets:
            return None
        if request.within is not None:
            return self.scope(elements_of(request.within.field), leaves_out_own=True)
        return self.scope(request.field, leaves_out_own=request.leaves_out_own)

    def of_facet(self, request: FacetRequest) -> Sequence[Matches]:
        """Return the matches that a facet counts; the same object for facets of one scope."""
        return self.within(self.scope_of_facet(request) if self._facets else None)

    def within(self, scope: Scope) -> Sequence[Matches]:
        """Return the matches of a scope, by segment of the snapshot."""
        found = self._found.get(scope)
        if found is None:
            found = self._found[scope] = self._find(scope)
        return found

    def restricted(self, find: Callable[[Scope], Sequence[Matches]]) -> CountedMatches:
        """Return other matches with the same scopes."""
        return CountedMatches(self._facets, {}, find)
