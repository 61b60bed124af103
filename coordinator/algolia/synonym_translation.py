"""Algolia's synonyms in terms of ours (pure).

    {"type": "synonym", "synonyms": ["tv", "television"]}            ─▶ ["tv", "television"]
    {"type": "onewaysynonym", "input": "nyc", "synonyms": ["new york"]}
                                                     ─▶ {"from": "nyc", "to": ["new york"]}

Corrections (`altCorrection1`, `altCorrection2`) and placeholders have no equivalent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from common.limits import DEFAULT_LIMITS
from coordinator.algolia.stored_rules_and_synonyms import (
    OBJECT_ID_CHARS_MAX,
    ObjectKind,
    refused,
    wrong,
)

_TWO: Final = 2
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "synonym": ("synonyms",),
    "onewaysynonym": ("input", "synonyms"),
}
_ALL_MEMBERS: Final = ("input", "synonyms", "word", "corrections", "placeholder", "replacements")
"""Of any type; records have all of them, empty where they are not of their type."""
_TYPES: Final[Mapping[str, str]] = {
    "synonym": "synonym",
    "onewaysynonym": "onewaysynonym",
    "altcorrection1": "typos are found by the letters of a word (typo, typo_lengths)",
    "altcorrection2": "typos are found by the letters of a word (typo, typo_lengths)",
    "placeholder": "texts have no placeholders",
}
"""Types in lower case, as clients write both `oneWaySynonym` and `onewaysynonym`."""

SYNONYM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "objectID": {"type": "string", "minLength": 1, "maxLength": OBJECT_ID_CHARS_MAX},
        "type": {"enum": ["synonym", "onewaysynonym"]},
        "synonyms": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "maxItems": DEFAULT_LIMITS.synonym_alternatives_max,
            "examples": [["tv", "television"]],
        },
        "input": {
            "type": ["string", "null"],
            "description": "Of onewaysynonym: the word in queries.",
        },
    },
    "required": ["type", "synonyms"],
}


def _listed(value: Any) -> list[Any]:
    """Return a configuration's synonyms as lists of equal words, and {from: a word, to: words}."""
    if isinstance(value, dict):
        value = [{"from": word, "to": others} for word, others in value.items()]
    if not isinstance(value, list):
        return []
    elements: list[Any] = []
    for one in value:
        if isinstance(one, dict):
            sources = one["from"] if isinstance(one["from"], list) else [one["from"]]
            others = one["to"] if isinstance(one["to"], list) else [one["to"]]
            elements += [{"from": word, "to": others} for word in sources]
        else:
            elements.append(one)
    return elements


def _native_of(synonym: Mapping[str, Any], param: str) -> list[Any]:
    kind = synonym.get("type")
    known = _TYPES.get(kind.lower()) if isinstance(kind, str) else None
    if known is None:
        raise wrong(f"{param}.type", "must be synonym or onewaysynonym")
    members = _MEMBERS.get(known)
    if members is None:
        raise refused(f"{param}.type", f"{kind} cannot be honoured: {known}")
    for name, value in synonym.items():
        is_nothing = name in _ALL_MEMBERS and value in (None, "", [])
        if name not in ("objectID", "type", *members) and not is_nothing:
            raise refused(f"{param}.{name}", f"is not a member of a {kind}: {', '.join(members)}")
    words = synonym.get("synonyms")
    num_min = _TWO if known == "synonym" else 1
    if (
        not isinstance(words, list)
        or len(words) < num_min
        or not all(isinstance(word, str) and word for word in words)
    ):
        raise wrong(f"{param}.synonyms", f"must be a list of at least {num_min} words or phrases")
    if known == "synonym":
        return [list(words)]
    word = synonym.get("input")
    if not isinstance(word, str) or not word:
        raise wrong(f"{param}.input", "must be a word or a phrase")
    return [{"from": word, "to": list(words)}]


def _shown(element: Any, _: int) -> dict[str, Any]:
    content = orjson.dumps(element, option=orjson.OPT_SORT_KEYS)
    id_ = f"synonym-{hashlib.sha256(content).hexdigest()[:16]}"
    if isinstance(element, dict):
        one_way = {"input": element["from"], "synonyms": element["to"]}
        return {"objectID": id_, "type": "onewaysynonym", **one_way}
    return {"objectID": id_, "type": "synonym", "synonyms": element}


SYNONYMS: Final = ObjectKind("synonyms", _listed, _native_of, _shown)
