"""The whole engine as a naive model: lists, dictionaries, no index.

What it says, the service must say: which items match, totals, facet counts, buckets and their
order, and the order of hits by fields and by insertion. It does not score: of a text query it says
which items match, not which comes first.

It is written from the descriptions of the interface (`docs/`) alone. It shares with the service
only the text of a facet key (`common.values.facet_key`). Words of scripts without spaces are
modelled for Han, Hiragana and Katakana. Stemming and stop words are not modelled.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import fsum, log
from typing import Any

from common.values import facet_key

Item = dict[str, Any]
Json = dict[str, Any]

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_PIECE = re.compile(r'(-?)"([^"]*)"|([^\s"]+)')
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


# --- values ---------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "", arrays: int = 0, way: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield (path, value, shape) of all that holds no further value: 0 scalar, 1 of many, 2 nested.

    `arrays` counts those between the value and its key, `way` those before (2 means two in a row).
    """
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key, 0, max(way, min(arrays, 2)))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from leaves(inner, path, arrays + 1, way)
    else:
        yield path, value, 2 if arrays > 1 else max(way, arrays)


def values_of(item: Item, name: str) -> list[Any]:
    """Return the values that an item has for filters and facets."""
    return [value for path, value, shape in leaves(item) if path == name and shape < 2]


def keys_of(item: Item, name: str) -> set[str]:
    """Return the facet values of an item."""
    return {key for value in values_of(item, name) if (key := facet_key(value)) is not None}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- filters --------------------------------------------------------------------------------------


def as_list(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def passes(item: Item, name: str, wanted: Any, *, any_will_do: bool) -> bool:
    """Return whether an item passes one field of `filters`."""
    if not isinstance(wanted, dict):
        wanted = {"any" if any_will_do else "all": as_list(wanted)}
    keys = keys_of(item, name)
    chosen = {how: {facet_key(one) or "" for one in as_list(wanted.get(how) or [])} for how in
              ("any", "all", "none")}  # fmt: skip
    bounds = {name: bound for name, bound in wanted.items() if name in ("gt", "gte", "lt", "lte")}
    return (
        (not chosen["any"] or bool(chosen["any"] & keys))
        and chosen["all"] <= keys
        and not chosen["none"] & keys
        and (not bounds or any(in_range(value, bounds) for value in values_of(item, name)))
        and wanted.get("exists", exists(item, name)) == exists(item, name)
    )


def in_range(value: Any, bounds: Json) -> bool:
    """Return whether a value lies within bounds of its own type; an empty text lies in none."""
    like = next(iter(bounds.values()))
    if not (is_number(value) if is_number(like) else isinstance(value, str) and value):
        return False
    tests = {
        "gt": lambda bound: value > bound,
        "gte": lambda bound: value >= bound,
        "lt": lambda bound: value < bound,
        "lte": lambda bound: value <= bound,
    }
    return all(tests[name](bound) for name, bound in bounds.items())


def exists(item: Item, name: str) -> bool:
    """Return whether the field, or anything inside it, is there and not null.

    An object is there by its members, so one of fields that are null is, and an array of nulls not.
    """
    found = [(path, value) for path, value, _ in leaves(item)]
    return any(path == name and value is not None for path, value in found) or any(
        path.startswith(f"{name}.") for path, _ in found
    )


# --- full text ------------------------------------------------------------------------------------


def words_in(text: str) -> list[str]:
    """Cut a text into folded words; a run of Han or Kana stays one word."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return _WORD.findall(kept)


def is_run(word: str) -> bool:
    return "\u3040" <= word[0] <= "\u9fff"


def distances(word: str, term: str) -> list[int]:
    """Return the edit distance (neighbours swapped: one) of a word to each beginning of a term."""
    rows = [list(range(len(word) + 1))]
    for i, letter in enumerate(term, 1):
        row = [i]
        for j, wanted in enumerate(word, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == word[j - 2] and term[i - 2] == wanted:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return [row[-1] for row in rows]


class Text(list[str]):
    """The words of a text of a field."""

    def __init__(self, path: str, words: Iterable[str]) -> None:
        super().__init__(words)
        self.path = path


@dataclass(frozen=True)
class Clause:
    """A word (or run), or a phrase."""

    words: tuple[str, ...]
    is_prefix: bool = False
    typos: int = 0
    is_quoted: bool = False
    keeps_first_letter: bool = False
    """Whether a typo may not change the first letter: in a word that some item has."""
    typos_in: tuple[tuple[str, int], ...] = ()
    """By field, "" for the others, where they differ; `typos` is the greatest."""
    infix_in: tuple[str, ...] | None = ()
    """Fields in which it is found inside words; None: in all."""
    synonyms: tuple[tuple[str, ...], ...] = ()
    """What it may be said as instead."""

    @property
    def is_phrase(self) -> bool:
        """Whether it is a phrase, as a run of three characters (two words of two) is."""
        return len(self.words) > 1 or (is_run(self.words[0]) and len(self.words[0]) > 2)

    def is_in(self, texts: list[Text]) -> bool:
        """Return whether one of the texts has it."""
        if any(Clause(words).is_in(texts) for words in self.synonyms):
            return True
        width = len(self.words)
        if width == 1:
            first = self.words[0][0] if self.keeps_first_letter else ""
            allowed = dict(self.typos_in)
            return any(
                (
                    term.startswith(first)
                    and word_matches(self.words[0], self.is_prefix, typos, term)
                )
                or (is_infix and self.words[0] in term)
                for text in texts
                for typos in (allowed.get(text.path, allowed.get("", self.typos)),)
                for is_infix in (self.is_infix_in(text.path),)
                for term in text
            )
        return any(
            tuple(text[at : at + width]) == self.words
            for text in texts
            for at in range(len(text) - width + 1)
        )

    def is_infix_in(self, path: str) -> bool:
        """Return whether the word is found inside those of a field."""
        word = self.words[0]
        is_listed = self.infix_in is None or path in self.infix_in
        return is_listed and not self.is_quoted and len(word) >= 3 and not is_run(word)

    def anywhere(self) -> Clause:
        """Return the same with what some field allows, in all fields."""
        return replace(self, typos_in=(), infix_in=None if self.infix_in else self.infix_in)


@lru_cache(maxsize=1_000_000)
def word_matches(word: str, is_prefix: bool, typos: int, term: str) -> bool:
    if is_run(word) or is_run(term):
        return is_run(word) and word in term
    if typos:
        # Typos never fall on digits, of which the word has none.
        digit = next((i for i, c in enumerate(term) if c.isdigit()), None)
        if digit is not None:
            return is_prefix and is_near(word, term, min(distances(word, term[:digit])), typos)
    found = distances(word, term)
    return is_near(word, term, min(found) if is_prefix else found[-1], typos)


def is_near(word: str, term: str, distance: int, typos: int) -> bool:
    """Return whether a distance is allowed; another first letter makes it one more, up to two."""
    return distance <= typos and distance + (word[0] != term[0]) <= 2


def typo_budget(word: str, mode: Any, lengths: Any = (5, 9)) -> int:
    """Return the edits that are forgiven in a word."""
    if lengths == "none" or is_run(word) or any(c.isdigit() for c in word):
        return 0
    if mode == "auto":
        return sum(len(word) >= length for length in lengths)
    return min(int(mode), (len(word) - 1) // 2)


def parse(
    query: str, *, match: str, prefix: str, typo: Any, lengths: dict[str, Any], synonyms: Any = ()
) -> tuple[list[Clause], list[Clause]]:
    """Return the clauses that must and must not match.

    A run is one clause where all must match, otherwise each two characters of it are one.
    """
    wanted: list[Clause] = []
    excluded: list[Clause] = []
    others = said_otherwise(synonyms)
    row_start = 0

    def close_row() -> None:
        """Give each of the unquoted words since the last other piece its synonyms."""
        at = row_start
        while at < len(wanted):
            ends = range(len(wanted), at, -1)
            rows = ((end, tuple(one.words[0] for one in wanted[at:end])) for end in ends)
            end, row = next((one for one in rows if one[1] in others), (at + 1, ()))
            for i in range(at, end):
                wanted[i] = replace(wanted[i], synonyms=tuple(others.get(row, ())))
            at = end

    pieces = [piece for piece in _PIECE.finditer(query) if words_in(piece[0])]
    for i, piece in enumerate(pieces):
        is_phrase = piece[3] is None
        if is_phrase or (piece[3].startswith("-") and len(piece[3]) > 1):
            is_excluded = not is_phrase or bool(piece[1])
            words = tuple(words_in(piece[2] if is_phrase else piece[3]))
            close_row()
            (excluded if is_excluded else wanted).append(Clause(words, is_quoted=is_phrase))
            row_start = len(wanted)
            continue
        words = tuple(words_in(piece[3]))
        if match not in ("all", "last"):
            words = tuple(part for word in words for part in pieces_of(word))
        for j, word in enumerate(words):
            is_last = i == len(pieces) - 1 and j == len(words) - 1
            is_prefix = prefix == "all" or (prefix == "last" and is_last)
            typos = {path: typo_budget(word, typo, one) for path, one in lengths.items()}
            differ = tuple(typos.items()) if len(set(typos.values())) > 1 else ()
            wanted.append(Clause((word,), is_prefix, max(typos.values()), typos_in=differ))
    close_row()
    return list(dict.fromkeys(wanted)), excluded


def said_otherwise(synonyms: Any) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return what each word or row of words may be said as: of groups, or by word."""
    if isinstance(synonyms, dict):
        pairs = [(one, other) for one, others in synonyms.items() for other in others]
    else:
        pairs = [(one, other) for group in synonyms for one in group for other in group]
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for one, other in pairs:
        if one != other:
            found.setdefault(tuple(words_in(one)), []).append(tuple(words_in(other)))
    return found


def rows_of(query: str) -> list[list[tuple[str, int]]]:
    """Return the unquoted words that stand in a row, each with the number of its piece."""
    rows: list[list[tuple[str, int]]] = [[]]
    for number, piece in enumerate(_PIECE.finditer(query)):
        if not words_in(piece[0]):
            continue
        if piece[3] is None or (piece[3].startswith("-") and len(piece[3]) > 1):
            rows.append([])
        else:
            rows[-1] += [(word, number) for word in words_in(piece[3])]
    return rows


def in_parts(word: str) -> set[tuple[str, ...]]:
    """Return the ways to write a word in several words."""
    if is_run(word) or len(word) > 24:
        return set()
    if re.fullmatch("[0-9]+", word):
        return {tuple(f"{int(word):,}".split(","))} if len(word) > 3 and word[0] != "0" else set()
    found: set[tuple[str, ...]] = {
        (word[:at], word[at:])
        for at in range(1, len(word))
        if not (word[at - 1].isdigit() and word[at].isdigit())
    }
    if 3 <= len(word) <= 4 and not re.search("[0-9]", word):
        found.add(tuple(word))
    by_digits = tuple(re.findall("[0-9]+|[^0-9]+", word))
    return found | ({by_digits} if 3 <= len(by_digits) <= 4 else set())


def is_joined(row: list[tuple[str, int]]) -> tuple[bool, bool]:
    """Return whether words in a row may be one, and whether they are as good as that already."""
    words = [word for word, _ in row]
    if len(words) > 4 or any(map(is_run, words)) or sum(map(len, words)) > 24:
        return False, False
    is_close = True
    for (left, piece), (right, next_piece) in pairwise(row):
        digits = left[-1].isdigit(), right[0].isdigit()
        if all(digits) and not re.fullmatch("[0-9]{1,3} [0-9]{3}", f"{left} {right}"):
            return False, False
        is_close &= piece == next_piece or digits[0] != digits[1]
    return len(words) == 2 or is_close or all(len(word) == 1 for word in words), is_close


def pieces_of(word: str) -> list[str]:
    """Cut a run into overlapping pairs."""
    if not is_run(word) or len(word) < 3:
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


# --- the engine -----------------------------------------------------------------------------------


@dataclass
class Found:
    """What a search must answer."""

    total: int
    items: list[Item]
    """Those of the page; of a text query without sort field, in no order of meaning."""
    facets: dict[str, list[tuple[str, int, bool]]]
    """Buckets by field: key, count, whether selected."""
    stats: dict[str, Json | None] = field(default_factory=dict)
    matching: list[Item] = field(default_factory=list)
    """All that match, in order."""
    left: list[Item] = field(default_factory=list)
    """Those of them that `distinct` leaves."""
    by_value: dict[str, dict[str, Json]] = field(default_factory=dict)
    """Statistics of numbers: by facet, by key, by field."""


class Oracle:
    """One index."""

    def __init__(self, configuration: Json | None = None) -> None:
        self.configuration = configuration or {}
        self.items: dict[object, Item] = {}
        """In insertion order; by canonical id, or by a key of their own."""
        self._texts: dict[int, tuple[Item, list[Text]]] = {}

    # --- writes

    def configure(self, configuration: Json) -> None:
        self.configuration = configuration
        self._texts.clear()

    def put(self, items: Iterable[Item]) -> None:
        """Add, or replace where the id exists; an update keeps its place."""
        for item in items:
            key: object = str(item["id"]) if "id" in item else object()
            self.items[key] = item

    def replace(self, item_id: object, item: Item) -> bool:
        stored = self.items.get(str(item_id))
        if stored is None:
            return False
        # A path has no types: the id keeps the one that it was stored with.
        self.items[str(item_id)] = {"id": stored["id"]} | item
        return True

    def merge(self, item_id: object, fields: Json) -> bool:
        if str(item_id) not in self.items:
            return False
        self.items[str(item_id)] = self.items[str(item_id)] | fields
        return True

    def delete(self, item_id: object) -> bool:
        return self.items.pop(str(item_id), None) is not None

    # --- reads

    @property
    def facet_settings(self) -> dict[str, Json]:
        return dict(sorted(self.configuration.get("aggregations", {}).items()))

    def texts(self, item: Item) -> list[Text]:
        """Return the words of every searchable text; kept, since items are never changed."""
        kept, texts = self._texts.get(id(item), (None, []))
        if kept is not item:
            texts = self._cut_texts(item)
            self._texts[id(item)] = (item, texts)
        return texts

    def _cut_texts(self, item: Item) -> list[Text]:
        fields = self.configuration.get("searchable_fields")
        names = None if fields is None else {name.partition("^")[0] for name in fields}
        return [
            Text(path, words_in(value))
            for path, value, _ in leaves(item)
            if isinstance(value, str) and (names is None or path in names)
        ]

    def matches(self, parameters: Json) -> list[Item]:
        """Return the items that the query text and rules leave, in insertion order."""
        pins, hidden = curation_of(parameters)
        found = self.text_matches(parameters)
        if "min_score" in parameters:
            boosts, least = parameters["boost"], parameters["min_score"]
            found = [item for item in found if factor_of(item, boosts) >= least]
        kept = {id(item) for item in found}
        return [
            item
            for key, item in self.items.items()
            if key not in hidden and (id(item) in kept or key in pins)
        ]

    def text_matches(self, parameters: Json) -> list[Item]:
        """Return the items that the query text leaves, in insertion order."""
        items = list(self.items.values())
        options = {"match": "all", "prefix": "last", "typo": "auto"}
        options |= {
            name: self.configuration[name] for name in options if name in self.configuration
        }
        options |= {name: parameters[name] for name in options if name in parameters}
        if options["match"] == "auto":
            _, hidden = curation_of(parameters)
            for match in ("all", "last", "any"):
                found = self.text_matches({**parameters, "match": match})
                visible = [item for item in found if str(item.get("id")) not in hidden]
                if self.narrowed(visible, parameters):
                    break
            return found
        lengths = {"": self.configuration.get("typo_lengths", (5, 9))}
        lengths[""] = parameters.get("typo_lengths", lengths[""])
        lengths |= self.configuration.get("field_typo_lengths", {})
        synonyms = self.configuration.get("synonyms", ())
        wanted, excluded = parse(
            parameters.get("query", ""), **options, lengths=lengths, synonyms=synonyms
        )
        texts = {id(item): self.texts(item) for item in items} if wanted or excluded else {}
        known_words = {word for one in texts.values() for text in one for word in text}
        wanted = [
            replace(one, keeps_first_letter=one.typos == 1 and one.words[0] in known_words)
            for one in wanted
        ]
        infix = parameters.get("infix", self.configuration.get("infix", False))
        infix_in = None if infix is True else tuple(infix or ())
        wanted = [replace(one, infix_in=infix_in) for one in wanted]
        items = [item for item in items if not any(one.is_in(texts[id(item)]) for one in excluded)]
        if not wanted:
            return items
        spaced: dict[str, set[Clause]] = {}
        if str(options["typo"]) != "0" and wanted:
            spaced = self.spacings(parameters.get("query", ""), wanted)

        def has(clause: Clause, text: list[Text]) -> bool:
            others = spaced.get(clause.words[0], ()) if len(clause.words) == 1 else ()
            return clause.is_in(text) or any(other.is_in(text) for other in others)

        known = [
            clause
            for clause in wanted
            if clause.is_phrase or any(has(clause.anywhere(), text) for text in texts.values())
        ]
        match = options["match"]
        if match == "last":
            known = known[:1]
        required = len(known)
        if match == "any":
            required = 1
        elif match.endswith("%"):
            required = max(1, len(known) * int(match[:-1]) // 100)
        return [
            item
            for item in items
            if known and sum(has(clause, texts[id(item)]) for clause in known) >= required
        ]

    def spacings(self, query: str, wanted: list[Clause]) -> dict[str, set[Clause]]:
        """Return what words of a query may also be written as, where enough items have it."""
        quoted = {one.words[0] for one in wanted if one.is_quoted and len(one.words) == 1}

        texts = [self.texts(item) for item in self.items.values()]
        vocabularies = [{word for text in one for word in text} for one in texts]

        def count(*words: str) -> int:
            needed = set(words)
            return sum(
                Clause(words).is_in(text)
                for text, vocabulary in zip(texts, vocabularies, strict=True)
                if needed <= vocabulary
            )

        num_items = len(self.items)
        found: dict[str, set[Clause]] = {}
        for row in rows_of(query):
            for word in {word for word, _ in row} - quoted:
                for parts in in_parts(word):
                    number = count(*parts)
                    if number and 10 * number >= count(word):
                        found.setdefault(word, set()).add(Clause(parts))
            for size in (2, 3, 4):
                for start in range(len(row) - size + 1):
                    words = row[start : start + size]
                    may_join, is_close = is_joined(words)
                    joined = "".join(word for word, _ in words)
                    if may_join and quoted.isdisjoint(dict(words)) and count(joined):
                        is_rare = max(count(word) for word, _ in words) <= num_items // 8
                        if is_close or is_rare or num_items < 1_000:
                            for word, _ in words:
                                found.setdefault(word, set()).add(Clause((joined,)))
        return found

    def narrowed(
        self, items: list[Item], parameters: Json, without: str | None = None
    ) -> list[Item]:
        """Return the items that pass all filters, but for that of one facet."""
        facets = self.facet_settings
        filters = {name: one for name, one in (parameters.get("filters") or {}).items()
                   if name != without}  # fmt: skip
        return [
            item
            for item in items
            if all(
                passes(item, name, wanted, any_will_do=not is_conjunctive(facets.get(name)))
                for name, wanted in filters.items()
            )
            and not any(
                as_list(unwanted) and passes(item, name, unwanted, any_will_do=True)
                for name, unwanted in (parameters.get("not_filters") or {}).items()
            )
        ]

    def collation_of(self, name: str) -> str:
        collations: dict[str, str] = self.configuration.get("field_collations", {})
        return collations.get(name) or str(self.configuration.get("collation", "none"))

    def buckets(
        self, name: str, counted: list[Item], parameters: Json
    ) -> list[tuple[str, int, bool]]:
        """Return all buckets of a facet, in their order; of another field those with hits."""
        settings = self.facet_settings.get(name, FIELD_SETTINGS)
        chosen = selected_keys((parameters.get("filters") or {}).get(name))
        counts = {key: 0 for item in self.items.values() for key in keys_of(item, name)}
        for key, _ in keyed_groups(counted, name, parameters):
            counts[key] += 1
        buckets = [
            (key, count, key in chosen)
            for key, count in counts.items()
            if count
            or (name in self.facet_settings and key in chosen)
            or not settings.get("hide_zero_doc_count")
        ]
        collation = (parameters.get("facets") or {}).get(name, {}).get("collation")
        by_text = text_order(collation or self.collation_of(name))
        buckets.sort(key=lambda bucket: by_text(bucket[0]))
        for key, is_descending in reversed(bucket_order(settings)):
            columns = {"key": lambda one: by_text(one[0]), "count": lambda one: one[1],
                       "selected": lambda one: one[2]}  # fmt: skip
            # A stable sort in reverse keeps equal ones in place.
            buckets.sort(key=columns[key], reverse=is_descending)
        return buckets

    def counted_for(self, name: str, matching: list[Item], parameters: Json) -> list[Item]:
        """Return the items whose values a facet counts."""
        is_disjunctive = not is_conjunctive(self.facet_settings.get(name, FIELD_SETTINGS))
        return self.narrowed(matching, parameters, name if is_disjunctive else None)

    def search(self, **parameters: Any) -> Found:
        """Answer one search; parameters as in the API."""
        matching = self.matches(parameters)
        hits = self.narrowed(matching, parameters)
        sort_field = parameters.get("sort_field")
        is_descending = parameters.get("order") == "desc"
        if sort_field:
            hits = sorted_by(hits, sort_field, is_descending, self.collation_of(sort_field))
        elif is_descending and not parameters.get("query"):
            hits = hits[::-1]
        elif parameters.get("boost") and not wants_words(parameters.get("query", "")):
            boosts = parameters["boost"]
            hits = sorted(hits, key=lambda item: -factor_of(item, boosts))
        pins, _ = curation_of(parameters)
        if pins and not sort_field:
            hits = with_pinned(hits, pins)
        all_hits = hits
        if "distinct" in parameters:
            hits = distinct_of(hits, **parameters["distinct"])
        page, per_page = parameters.get("page", 1), parameters.get("per_page", 10)
        shown = parameters.get("facet_fields", self.facet_settings)
        facets = {
            name: self.buckets(name, self.counted_for(name, matching, parameters), parameters)[
                : settings.get("size", 10)
            ]
            for name, settings in self.facet_settings.items()
            if name in shown
        }
        stats = {
            name: stats_of([key for key, _ in keyed_groups(all_hits, name, parameters)])
            for name, settings in self.facet_settings.items()
            if name in shown and settings.get("show_facet_stats")
        }
        asked = parameters.get("facets") or {}
        for name in asked.keys() - self.facet_settings.keys():
            if name in parameters.get("facet_fields", asked):
                counted = self.counted_for(name, matching, parameters)
                facets[name] = self.buckets(name, counted, parameters)[:10]
        by_value = {
            name: {
                key: {
                    other: numbers_of(
                        [
                            item
                            for item in self.counted_for(name, matching, parameters)
                            if key in keys_of(item, name)
                        ],
                        other,
                    )
                    for other in options["stats"]
                }
                for key, _, _ in facets[name]
            }
            for name, options in asked.items()
            if name in facets and options.get("stats")
        }
        start = (page - 1) * per_page
        page_items = hits[start : start + per_page]
        return Found(len(hits), page_items, facets, stats, all_hits, hits, by_value)

    def facet(self, name: str, **parameters: Any) -> tuple[int, list[tuple[str, int, bool]]]:
        """Answer one page of `/{index}/facet`: number of buckets, buckets."""
        search = parameters | {"query": parameters.get("search_query", "")}
        buckets = self.buckets(name, self.counted_for(name, self.matches(search), search), search)
        pattern = parameters.get("query")
        if pattern:
            parts = [" ".join(words_in(part)) for part in pattern.split("*")]
            form = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
            buckets = [one for one in buckets if form.fullmatch(" ".join(words_in(one[0])))]
        for word in words_in(parameters.get("facet_query", "")):
            clause = Clause((word,), True, typo_budget(word, "auto"))
            buckets = [one for one in buckets if clause.is_in([Text("", words_in(one[0]))])]
        start = (parameters.get("page", 1) - 1) * parameters.get("per_page", 10)
        return len(buckets), buckets[start : start + parameters.get("per_page", 10)]


def curation_of(parameters: Json) -> tuple[dict[object, int], set[str]]:
    """Return the positions of pinned items, by id, and the hidden items of a search's rules."""
    words = words_in(parameters.get("query", ""))
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


FIELD_SETTINGS: Json = {"conjunction": False, "hide_zero_doc_count": True}
"""Of a field that is counted without being a facet."""


def numbers_of(items: list[Item], name: str) -> Json | None:
    """Return the statistics of the numbers of some items, each number of an item once."""
    numbers = [one for item in items for one in {*filter(is_number, values_of(item, name))}]
    if not numbers:
        return None
    total = sum(map(Fraction, numbers), Fraction())
    return {
        "min": min(numbers),
        "max": max(numbers),
        "avg": as_double(total / len(numbers)),
        "sum": as_double(total),
        "count": len(numbers),
    }


def as_double(number: Fraction) -> float:
    """Return the nearest double that JSON can hold."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def is_conjunctive(settings: Json | None) -> bool:
    """Return whether hits must have every selected value; fields that are no facet: any."""
    return settings is not None and settings.get("conjunction", True)


def selected_keys(wanted: Any) -> set[str]:
    """Return the keys that a filter asks for."""
    if isinstance(wanted, dict):
        wanted = as_list(wanted.get("any") or []) + as_list(wanted.get("all") or [])
    return {facet_key(one) or "" for one in as_list(wanted) if one is not None}


def bucket_order(settings: Json) -> list[tuple[str, bool]]:
    """Return (selected | count | key, is_descending), most significant first."""
    sort, order = settings.get("sort", "count"), settings.get("order")
    keys = []
    for i, name in enumerate(as_list(sort)):
        base, _, direction = name.partition(":")
        base = "key" if base == "term" else base
        orders = as_list(order) if order else []
        direction = direction or (orders[i] if i < len(orders) else "")
        keys.append((base, direction == "desc" if direction else base != "key"))
    if not isinstance(sort, list) and settings.get("chosen_filters_on_top", True):
        keys.insert(0, ("selected", True))
    return keys


_KINDS = (" -,.'+", "0123456789", "abcdefghijklmnopqrstuvwxyz")
"""Those characters of the made-up texts that are not Kana or Han, in their order."""


def text_order(collation: str) -> Callable[[str], Any]:
    """Return what texts are compared by: Unicode's order, for the letters that are made up."""
    language, _, numeric = collation.partition("+")

    def key(text: str) -> Any:
        if language == "none":
            return text
        primaries: list[Any] = []
        accents: list[Any] = []
        cases: list[Any] = []
        for one in unicodedata.normalize("NFC", text).replace("ß", "ss").replace("ﬁ", "f\x01i\x01"):
            base, *marks = list(unicodedata.normalize("NFD", one))
            if base == "\x01":
                cases[-1] = 1
                continue
            low = base.lower()
            kind = next((i for i, known in enumerate(_KINDS) if low in known), 3)
            primaries.append((kind, _KINDS[kind].index(low) if kind < 3 else ord(low)))
            accents.append(tuple(marks))
            cases.append(2 if base != low else 0)
        if numeric:
            primaries, accents, cases = numbers_joined(primaries, accents, cases)
        return primaries, accents, cases, text

    return key


def numbers_joined(*levels: list[Any]) -> tuple[list[Any], ...]:
    """Return the levels of a text with each run of digits as one number."""
    joined: tuple[list[Any], ...] = ([], [], [])
    was_digit = False
    for primary, accent, case in zip(*levels, strict=True):
        is_digit = primary[0] == 1
        if is_digit and was_digit:
            joined[0][-1] = (1, joined[0][-1][1] * 10 + primary[1])
        else:
            for level, one in zip(joined, (primary, accent, case), strict=True):
                level.append(one)
        was_digit = is_digit
    return joined


def sorted_by(
    items: list[Item], name: str, is_descending: bool, collation: str = "none"
) -> list[Item]:
    """Order by a scalar field: numbers, texts, booleans; without value last in both directions."""

    def sort_key(item: Item) -> tuple[int, Any] | None:
        found = [value for path, value, shape in leaves(item) if path == name and shape == 0]
        match found[-1:]:
            case [bool(value)]:
                return (2, value)
            case [int(value) | float(value)]:
                return (0, value)
            case [str(value)]:
                return (1, by_text(value))
        return None

    by_text = text_order(collation)
    keyed = [(key, item) for item in items if (key := sort_key(item)) is not None]
    # Ties keep their order in both directions: sorted() is stable, in reverse too.
    keyed.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [item for _, item in keyed] + [item for item in items if sort_key(item) is None]


def group_of(hits: list[Item], item: Item, field: str) -> list[Item]:
    """Return the hits of the same value as one of them, in order; without a value itself."""
    value = distinct_value(item, field)
    return [one for one in hits if distinct_value(one, field) == value] if value else [item]


def distinct_of(found: list[Item], field: str, limit: int = 1, **_: Any) -> list[Item]:
    """Return the hits that are among the best `limit` of their value; all without a value."""
    num_better: dict[frozenset[tuple[str, Any]], int] = {}
    left = []
    for item in found:
        key = distinct_value(item, field)
        if not key or num_better.get(key, 0) < limit:
            left.append(item)
        num_better[key] = num_better.get(key, 0) + 1
    return left


def distinct_value(item: Item, name: str) -> frozenset[tuple[str, Any]]:
    """Return what tells items apart: the set of the field's values, each with its type."""
    found = [(value, shape) for path, value, shape in leaves(item) if path == name]
    if any(shape > 0 for _, shape in found):
        values = [value for value, shape in found if shape == 1 and value != ""]
    else:
        values = [value for value, _ in found[-1:]]
    return frozenset(
        ("number" if is_number(value) else type(value).__name__, value)
        for value in values
        if value is not None and not isinstance(value, dict | list)
    )


def wants_words(query: str) -> bool:
    """Return whether a query text restricts anything."""
    return bool(words_in(query))


def factor_of(item: Item, boosts: Json) -> float:
    """Return what boosts multiply the score of an item by, each rounded to 2^-20."""
    product = 1.0
    for name, options in boosts.items():
        found = [value for path, value, shape in leaves(item) if path == name and shape == 0]
        if found and isinstance(found[-1], bool | int | float):
            gain = options.get("weight", 1) * gain_of(float(found[-1]), options)
            factor = round((1 + min(gain, 1e6)) * 2**20) / 2**20
            product = round(product * 2**32 * factor) / 2**32
    return product


def gain_of(value: float, options: Json) -> float:
    """Return the gain of one boost, for a weight of 1."""
    if "decay" in options:
        distance = abs(value - options["origin"]) / options["decay"]
        return float(0.5 ** min(distance, 64))
    value = max(value, 0.0)
    if "log" in options:
        return float(options["log"] * log(1 + value))
    if "linear" in options:
        return float(options["linear"] * value)
    return float(value / (value + options["saturation"]))


def keyed_groups(items: list[Item], name: str, parameters: Json) -> set[tuple[str, Any]]:
    """Return what a facet counts: each value with each item, or group of items, that has it."""
    distinct = parameters.get("distinct") or {}
    by_groups = distinct.get("facets_by") == "groups"
    return {
        (key, ((by_groups and distinct_value(item, distinct["field"])) or at))
        for at, item in enumerate(items)
        for key in keys_of(item, name)
    }


def stats_of(keys: list[str]) -> Json | None:
    """Return the statistics of the numeric values within the hits."""
    numbers = [float(key) for key in keys if _NUMBER.fullmatch(key)]
    if not numbers:
        return None
    total = fsum(numbers)
    return {
        "min": min(numbers),
        "max": max(numbers),
        "avg": total / len(numbers),
        "sum": total,
        "count": len(numbers),
    }


def compact(item: Item) -> str:
    """Return an item as a text that equal items share."""
    return json.dumps(item, sort_keys=True, ensure_ascii=False)
