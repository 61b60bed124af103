"""Rules and synonyms of Algolia's protocol as parts of an index's configuration (pure).

Searches use the configuration's own lists, `rules` and `synonyms`, whichever API wrote them. The
configuration also keeps, under `algolia.objects`, the objects that this protocol has stored: their
ids, and properties for which the lists have no room (descriptions, objects that are switched off).

    rules  [r1, r2, r3]   objects  {"a": A, "b": B, "c": C}
            a   │   b     A means r1, B means r3, C is off
                └─ written by the native API: shown in this protocol's form, named by its content

An object whose meaning the list no longer has was changed or removed by the native API: it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from common.curation_rules import NAME_CHARS_MAX
from common.errors import InvalidRequest
from coordinator.algolia.parameter_errors import UNHONOURED, WRONG
from coordinator.algolia.settings_translation import KEY, OBJECTS

OBJECT_ID_CHARS_MAX: Final = NAME_CHARS_MAX
"""An object's id is the name of a rule."""


class StoredObject(NamedTuple):
    """One object."""

    document: dict[str, Any]
    """Its form in this protocol, with its `objectID`."""
    native: tuple[Any, ...]
    """Its elements in the configuration's list; empty if it is switched off."""
    is_kept: bool
    """Whether the document was stored by this protocol, else it is made from the native form."""


class ObjectKind(NamedTuple):
    """Rules, or synonyms."""

    name: str
    """Of the list in the configuration, and of the objects stored with it."""
    listed: Callable[[Any], list[Any]]
    """Returns the configuration's value as a list of elements that stand for themselves."""
    native_of: Callable[[Mapping[str, Any], str], list[Any]]
    """Returns the elements that an object means; raises if it has no equivalent. The second
    argument names it in errors."""
    shown: Callable[[Any, int], dict[str, Any]]
    """Returns an element (and its position) in the form of this protocol, with an `objectID`."""


def read(document: Mapping[str, Any], kind: ObjectKind) -> dict[str, StoredObject]:
    """Return the objects of a configuration by id, in the order of its list."""
    elements = kind.listed(document.get(kind.name))
    places: dict[bytes, list[int]] = {}
    for i, element in reversed(list(enumerate(elements))):
        places.setdefault(_canonical(element), []).append(i)
    found: list[tuple[int, str, StoredObject]] = []
    taken: set[int] = set()
    for id_, kept in _objects(document).get(kind.name, {}).items():
        meaning = _meaning(kept, kind)
        at = [places[key].pop() for key in map(_canonical, meaning) if places.get(key)]
        if len(at) == len(meaning):
            taken.update(at)
            native = tuple(elements[i] for i in at)
            found.append((min(at, default=len(elements)), id_, StoredObject(kept, native, True)))
        else:
            for i in at:
                places[_canonical(elements[i])].append(i)
    ids = {id_ for _, id_, _ in found}
    for i, element in enumerate(elements):
        if i not in taken:
            shown = kind.shown(element, i)
            id_ = _unused(shown["objectID"], ids)
            ids.add(id_)
            found.append((i, id_, StoredObject({**shown, "objectID": id_}, (element,), False)))
    found.sort(key=lambda one: one[0])
    return {id_: entry for _, id_, entry in found}


def written(
    document: Mapping[str, Any], kind: ObjectKind, entries: Iterable[StoredObject]
) -> dict[str, Any]:
    """Return a configuration that has these objects of a kind, and no others."""
    result = dict(document)
    listed = list(entries)
    elements = [element for entry in listed for element in entry.native]
    result.pop(kind.name, None)
    if elements:
        result[kind.name] = elements
    kept = {entry.document["objectID"]: entry.document for entry in listed if entry.is_kept}
    return _with_objects(result, kind.name, kept)


def stored_entry(
    given: Any, kind: ObjectKind, param: str, object_id: str | None = None
) -> tuple[str, StoredObject]:
    """Read an object to store; return it with its id.

    Args:
        given: the object.
        kind: what it must be.
        param: names it in errors.
        object_id: from the path, if it is there.

    Raises:
        InvalidRequest: it is malformed, or has no equivalent; `param` names the member.
    """
    if not isinstance(given, dict):
        raise InvalidRequest(f"{param} must be an object", code="invalid_body", param=param)
    id_ = given.get("objectID", object_id)
    if not isinstance(id_, str) or not 1 <= len(id_) <= OBJECT_ID_CHARS_MAX:
        raise InvalidRequest(
            f"{param}.objectID must be a text of 1 to {OBJECT_ID_CHARS_MAX} characters",
            code="invalid_id",
            param=f"{param}.objectID",
        )
    if object_id is not None and id_ != object_id:
        raise InvalidRequest(
            f"{param}.objectID is {id_[:60]!r}, in the path it is {object_id[:60]!r}",
            code="id_mismatch",
            param=f"{param}.objectID",
        )
    document = {"objectID": id_, **given}
    for name in ("_highlightResult", "_metadata"):  # of the answers to searches for objects
        document.pop(name, None)
    return id_, StoredObject(document, tuple(kind.native_of(document, param)), True)


def copied(
    source: Mapping[str, Any],
    destination: Mapping[str, Any],
    scope: Iterable[str],
    kinds: Iterable[str],
) -> dict[str, Any]:
    """Return a configuration with some parts of another one.

    Args:
        source: where the parts come from.
        destination: keeps all its other parts.
        scope: the parts: "settings", and names of kinds.
        kinds: all names of kinds.
    """
    wanted = set(scope)
    result = dict(source if "settings" in wanted else destination)
    kinds = list(kinds)
    for name in kinds:
        origin = source if name in wanted else destination
        result.pop(name, None)
        if name in origin:
            result[name] = origin[name]
    for name in kinds:
        origin = source if name in wanted else destination
        result = _with_objects(result, name, _objects(origin).get(name, {}))
    return result


def matching(entries: Mapping[str, StoredObject], query: str) -> list[dict[str, Any]]:
    """Return the documents that contain a text anywhere in their texts, ignoring case."""
    folded = query.casefold().strip()
    return [
        entry.document
        for entry in entries.values()
        if not folded or any(folded in text.casefold() for text in _texts(entry.document))
    ]


def refused(param: str, message: str) -> InvalidRequest:
    """Return the error for an object without an equivalent."""
    return InvalidRequest(f"{param} {message}", code=UNHONOURED, param=param)


def wrong(param: str, message: str) -> InvalidRequest:
    """Return the error for a malformed member."""
    return InvalidRequest(f"{param} {message}", code=WRONG, param=param)


def _objects(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the objects kept in a configuration; a client may have posted anything there.

    So each has its id, whatever it says of itself.
    """
    kept = document.get(KEY)
    objects = kept.get(OBJECTS) if isinstance(kept, dict) else None
    if not isinstance(objects, dict):
        return {}
    return {
        name: {id_: {**one, "objectID": id_} for id_, one in by_id.items() if isinstance(one, dict)}
        for name, by_id in objects.items()
        if isinstance(by_id, dict)
    }


def _with_objects(document: dict[str, Any], name: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with other objects of one kind."""
    objects = {**_objects(document), name: dict(kept)}
    objects = {kind: by_id for kind, by_id in objects.items() if by_id}
    settings = document.get(KEY)
    settings = dict(settings) if isinstance(settings, dict) else {}
    settings.pop(OBJECTS, None)
    if objects:
        settings[OBJECTS] = objects
    result = {**document, KEY: settings}
    if not settings:
        del result[KEY]
    return result


def _meaning(kept: Mapping[str, Any], kind: ObjectKind) -> list[Any]:
    """Return the elements that a kept object means; none that the list can have if it is broken."""
    try:
        return kind.native_of(kept, kind.name)
    except InvalidRequest:
        return [{"objectID": "is not what this protocol has stored"}]


def _canonical(element: Any) -> bytes:
    return orjson.dumps(element, option=orjson.OPT_SORT_KEYS)


def _unused(id_: str, ids: set[str]) -> str:
    """Return an id that no other object has."""
    wanted, number = id_, 2
    while id_ in ids:
        id_ = f"{wanted} ({number})"
        number += 1
    return id_


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
