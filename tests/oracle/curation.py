"""Curation rules: pinned and hidden items."""

from __future__ import annotations

from common.value_kinds_and_facet_keys import facet_key
from tests.oracle.clauses import wanted_words
from tests.oracle.filters import as_list, selected_keys
from tests.oracle.items import Item, Json
from tests.oracle.words import words_in


def curation_of(parameters: Json) -> tuple[dict[object, int], set[str]]:
    """Return the positions of pinned items, by id, and the hidden items of a search's rules."""
    words = wanted_words(parameters.get("query", ""))
    chosen = {
        name: selected_keys(wanted) for name, wanted in (parameters.get("filters") or {}).items()
    }
    pins: dict[object, int] = {}
    hidden: set[str] = set()
    for rule in parameters.get("rules", ()):
        when = rule.get("when", {})
        asked = when.get("query", {"contains": ""})
        wanted = words_in(asked["contains"] if isinstance(asked, dict) else asked)
        places = range(len(words) - len(wanted) + 1)
        holds = any(words[at : at + len(wanted)] == wanted for at in places)
        if not (holds if isinstance(asked, dict) else words == wanted) or "until" in when:
            continue  # (it ended long ago)
        if any(
            facet_key(one) not in chosen.get(name, ())
            for name, needed in when.get("filters", {}).items()
            for one in as_list(needed)
        ):
            continue
        hidden |= {str(one) for one in rule.get("hide", ())}
        for place, pin in enumerate(rule.get("pin", ()), 1):
            own = pin if isinstance(pin, dict) else {"id": pin, "position": place}
            pins.setdefault(str(own["id"]), own["position"])
    return pins, hidden


def with_pinned(hits: list[Item], pins: dict[object, int]) -> list[Item]:
    """Return hits with the pinned ones at their positions, or the next free ones."""
    wanted = sorted((position, number, key) for number, (key, position) in enumerate(pins.items()))
    by_id = {str(item["id"]): item for item in hits if "id" in item}
    left = [(position, by_id[str(key)]) for position, _, key in wanted if key in by_id]
    others = [item for item in hits if "id" not in item or str(item["id"]) not in pins]
    placed: list[Item] = []
    while left or others:
        if left and (left[0][0] <= len(placed) + 1 or not others):
            placed.append(left.pop(0)[1])
        else:
            placed.append(others.pop(0))
    return placed
