"""The engine: writes, and what a search must answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracle.boosts import factor_of
from tests.oracle.clauses import Clause, Text, function_words, num_required, parse, wants_words
from tests.oracle.curation import curation_of, with_pinned
from tests.oracle.distinct import distinct_of
from tests.oracle.facets import (
    FIELD_SETTINGS,
    bucket_order,
    groups_of,
    keyed_groups,
    numbers_of,
    percentiles_of,
    stats_of,
)
from tests.oracle.filters import as_list, is_conjunctive, passes, selected_keys
from tests.oracle.items import Item, Json, keys_of, leaves
from tests.oracle.orders import sort_keys_of, sorted_by, text_order
from tests.oracle.spacings import spacings
from tests.oracle.words import is_like, typo_budget, words_in


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
    summaries: dict[str, Json] = field(default_factory=dict)
    """Number of values, percentiles and items without a value, by facet, as far as asked for."""


class Oracle:
    """One index of the naive model."""

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
        names = {"*"} if fields is None else {name.partition("^")[0] for name in fields}
        return [
            Text(path, words_in(value))
            for path, value, _ in leaves(item)
            if isinstance(value, str)
            and ("*" in names or any(f"{path}.".startswith(f"{name}.") for name in names))
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

    def text_matches(self, parameters: Json, *, drops_function_words: bool = False) -> list[Item]:
        """Return the items that the query text leaves, in insertion order."""
        options = self._text_options(parameters)
        match = options["match"]
        if match == "auto":
            return self._least_strict(parameters)
        query = parameters.get("query", "")
        dropped = function_words(query) if drops_function_words else frozenset()
        wanted, excluded = self._clauses(parameters, options, dropped)
        items = list(self.items.values())
        texts = {id(item): self.texts(item) for item in items} if wanted or excluded else {}
        items = [item for item in items if not any(one.is_in(texts[id(item)]) for one in excluded)]
        if not wanted:
            return items
        spaced: dict[str, set[Clause]] = {}
        if str(options["typo"]) != "0":
            spaced = spacings(query, wanted, list(texts.values()), dropped)

        def has(clause: Clause, text: list[Text]) -> bool:
            others = spaced.get(clause.words[0], ()) if len(clause.words) == 1 else ()
            return clause.is_in(text) or any(other.is_in(text) for other in others)

        # A word that no item has, wherever, is not required of any, unless it is quoted.
        quoted = {clause.words for clause in wanted if clause.is_quoted}
        known = [
            clause
            for clause in wanted
            if clause.is_phrase
            or clause.words in quoted
            or any(has(clause.anywhere(), text) for text in texts.values())
        ]
        if match == "last":
            known = known[:1]
        required = num_required(match, len(known))
        return [
            item
            for item in items
            if known and sum(has(clause, texts[id(item)]) for clause in known) >= required
        ]

    def _text_options(self, parameters: Json) -> Json:
        """Return how the query text matches: as the request says, or else the configuration."""
        options = {"match": "all", "prefix": "last", "typo": "auto"}
        for given in (self.configuration, parameters):
            options |= {name: given[name] for name in options if name in given}
        return options

    def _least_strict(self, parameters: Json) -> list[Item]:
        """Return what the strictest `match` leaves of which a hit is left, or else "any"."""
        _, hidden = curation_of(parameters)
        found: list[Item] = []
        for match, is_dropping in self._relaxations(parameters):
            found = self.text_matches(
                {**parameters, "match": match}, drops_function_words=is_dropping
            )
            visible = [item for item in found if str(item.get("id")) not in hidden]
            if self.narrowed(visible, parameters):
                break
        return found

    def _relaxations(self, parameters: Json) -> list[tuple[str, bool]]:
        """Return the ways that `match: auto` tries, and whether each drops function words."""
        has_dropped = bool(function_words(parameters.get("query", "")))
        ways = [("all", False), ("all", has_dropped)]
        if len(words_in(parameters.get("query", ""))) <= 5:
            ways.append(("last", has_dropped))
        return [*ways, ("any", False)]

    def _clauses(
        self, parameters: Json, options: Json, dropped: frozenset[str]
    ) -> tuple[list[Clause], list[Clause]]:
        """Return the clauses that a search wants, and those that it excludes."""
        typo_lengths = self.configuration.get("typo_lengths", (5, 9))
        lengths = {"": parameters.get("typo_lengths", typo_lengths)}
        lengths |= self.configuration.get("field_typo_lengths", {})
        wanted, excluded = parse(
            parameters.get("query", ""),
            **options,
            lengths=lengths,
            synonyms=self.configuration.get("synonyms", ()),
            dropped=dropped,
        )
        if not wanted:
            return [], excluded
        infix = parameters.get("infix", self.configuration.get("infix", False))
        infix_in = None if infix is True else tuple(infix or ())
        known_words = {
            word for item in self.items.values() for text in self.texts(item) for word in text
        }
        wanted = [
            replace(
                one,
                keeps_first_letter=one.typos == 1 and one.words[0] in known_words,
                infix_in=infix_in,
            )
            for one in wanted
        ]
        return wanted, excluded

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
        self, name: str, counted: list[Item], parameters: Json, hides_zero: bool | None = None
    ) -> list[tuple[str, int, bool]]:
        """Return all buckets of a facet, in their order; of another field those with hits."""
        settings = self.facet_settings.get(name, FIELD_SETTINGS)
        if hides_zero is None:
            hides_zero = settings.get("hide_zero_doc_count", False)
        chosen = selected_keys((parameters.get("filters") or {}).get(name))
        counts = {key: 0 for item in self.items.values() for key in keys_of(item, name)}
        for key, _ in keyed_groups(counted, name, parameters):
            counts[key] += 1
        buckets = [
            (key, count, key in chosen)
            for key, count in counts.items()
            if count or (name in self.facet_settings and key in chosen) or not hides_zero
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
        keys = sort_keys_of(parameters)
        if keys:
            for key in reversed(keys):
                hits = sorted_by(hits, key, self.collation_of(key.name))
        elif parameters.get("order") == "desc" and not parameters.get("query"):
            hits = hits[::-1]
        elif parameters.get("boost") and not wants_words(parameters.get("query", "")):
            boosts = parameters["boost"]
            hits = sorted(hits, key=lambda item: -factor_of(item, boosts))
        pins, _ = curation_of(parameters)
        if pins and not keys:
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
        summaries: dict[str, Json] = {
            name: self._summary(name, options, all_hits, matching, parameters)
            for name, options in asked.items()
            if name in facets
        }
        start = (page - 1) * per_page
        page_items = hits[start : start + per_page]
        return Found(len(hits), page_items, facets, stats, all_hits, hits, by_value, summaries)

    def _summary(
        self,
        name: str,
        options: Json,
        hits: list[Item],
        matching: list[Item],
        parameters: Json,
    ) -> Json:
        """Return what the options of a facet say about its values within the hits."""
        keys = [key for key, _ in keyed_groups(hits, name, parameters)]
        summary: Json = {}
        if options.get("cardinality"):
            summary["cardinality"] = len(set(keys))
        if "percentiles" in options:
            summary["percentiles"] = percentiles_of(keys, options["percentiles"])
        if options.get("missing"):
            counted = self.counted_for(name, matching, parameters)
            summary["missing"] = len(
                {
                    group
                    for group, item in zip(groups_of(counted, parameters), counted, strict=True)
                    if not keys_of(item, name)
                }
            )
        return summary

    def facet(self, name: str, **parameters: Any) -> tuple[int, list[tuple[str, int, bool]]]:
        """Answer one page of `/{index}/facet`: number of buckets, buckets."""
        search = parameters | {"query": parameters.get("search_query", "")}
        buckets = self.buckets(name, self.counted_for(name, self.matches(search), search), search)
        pattern = parameters.get("query")
        if pattern:
            buckets = [one for one in buckets if is_like(one[0], pattern)]
        for word in words_in(parameters.get("facet_query", "")):
            clause = Clause((word,), True, typo_budget(word, "auto"))
            buckets = [one for one in buckets if clause.is_in([Text("", words_in(one[0]))])]
        start = (parameters.get("page", 1) - 1) * parameters.get("per_page", 10)
        return len(buckets), buckets[start : start + parameters.get("per_page", 10)]
