"""The same search several times: what shards keep of it gives the answers that its lists gave.

    items ──▶ search: nothing kept ─┬─ = again, and deeper, and narrowed: kept since before
      ▲                             └─ = naive model, on 1, 2, 3, 5 shards
      └── write, merge, configure, rename, replace, evict

Words are half typed and mistyped, and several begin alike. Everything runs in this process, where
a dozen items are many (`tests.small_thresholds`): so it can be told which ways answers took.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from common.shard_settings import ShardSettings
from shard.caches.lru_cache import WORDS_CACHE
from shard.query.pruning import kept_words
from shard.query.terms import kept_terms_of_docs
from shard.query.terms.kept_terms_of_docs import NO_KEPT_TERMS
from shard.query.text import clause_combination, text_search
from shard.query.text.clause_evaluation import Evaluation
from shard.read import search_cost
from shard.segment.segment import Segment
from tests import small_thresholds
from tests.cluster.conftest import Index
from tests.cluster.test_against_oracle import Write, apply, asked, check, send, stable
from tests.http.local_service import LocalService, local_service
from tests.oracle.engine import Oracle
from tests.oracle.items import Item

SHARD_COUNTS: Final = (1, 2, 3, 5)
_SETTINGS: Final = ShardSettings(map_bytes_max=1 << 28, flush_docs=12, idle_ms=20)
"""So that segments are merged while searches are repeated."""
_BYTES: Final = WORDS_CACHE.bytes_max
_numbers = itertools.count()

WORDS: Final = (
    *("sea", "seal", "seals", "search", "searching", "season", "seem", "green", "greens", "grene"),
    *("mile", "miles", "smile", "film", "films", "filmed", "i", "iphone8", "2", "café", "cafes"),
)
BEGINNINGS: Final = ("se", "sear", "gr", "gree", "mil", "fil", "caf", "smilr", "filmz", "seel")
KEYS: Final = ("drama", "crime", "é", 1, 2, True)
NUM_IDS: Final = 50


# --- what is drawn


def text(chance: random.Random, longest: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, longest)))


def item(chance: random.Random, number: int) -> Item:
    """Return an item; few have a field `u`, so some segments lack a field that is searched."""
    made: Item = {"id": number, "t": text(chance, 6), "f": chance.choice(KEYS)}
    if chance.random() < 0.2:
        made["u"] = text(chance, 12)
    if chance.random() < 0.7:
        made["g"] = chance.choice((0, 1, 2, -3, 0.5, 10))
    return made


def word(chance: random.Random) -> str:
    """Return a word: as it is, half typed, mistyped, quoted or excluded."""
    typed = chance.choice(WORDS)
    kind = chance.random()
    if kind < 0.4:
        return typed[: chance.randint(1, len(typed))]
    if kind < 0.65:
        at = chance.randrange(len(typed))
        return typed[:at] + chance.choice("aeist") + typed[at + chance.randrange(2) :]
    if kind < 0.7:
        return f"-{typed}" if typed.isalnum() else typed
    return f'"{typed} {chance.choice(WORDS)}"' if kind < 0.75 else typed


def plain_search(chance: random.Random) -> dict[str, Any]:
    """Return a search for one word: half typed, so that no word is that; or as it is."""
    if chance.random() < 0.6:
        return {"query": chance.choice(BEGINNINGS), "show": ["score"]}
    return {"query": chance.choice(WORDS), "typo": 0, "prefix": "none", "show": ["score"]}


def search(chance: random.Random) -> dict[str, Any]:
    """Return a search without page and filters."""
    if chance.random() < 0.3:
        return plain_search(chance)
    query = " ".join(word(chance) for _ in range(chance.choice((1, 1, 2, 2, 3))))
    parameters: dict[str, Any] = {"query": query, "show": ["score"]}
    weights = (["t^2", "u"], ["t^2.1", "u"], ["t"], ["u^300", "t"], ["u", "t", "f"], ["*"])
    choices: tuple[tuple[float, dict[str, Any]], ...] = (
        (0.4, {"prefix": chance.choice(("all", "all", "none"))}),
        (0.3, {"typo": chance.choice((0, 1, 2))}),
        (0.3, {"match": chance.choice(("any", "last", "auto", "50%"))}),
        (0.2, {"typo_lengths": chance.choice(([3, 5], [4, 8]))}),
        (0.1, {"infix": True}),
        (0.15, {"sort": chance.choice((["g:desc"], ["f", "g"], ["g", "t:desc"]))}),
        (0.1, {"distinct": {"field": chance.choice("fg"), "facets_by": "groups"}}),
        (0.1, {"distinct": {"field": "f", "limit": 2}}),
        (0.1, {"boost": {"g": {"log": 0.5}}}),
    )
    for probability, more in choices:
        if chance.random() < probability:
            parameters |= more
    if chance.random() < 0.2:  # which the naive model does not know
        parameters |= chance.choice(
            (
                {"search_fields": chance.choice(weights)},
                {"highlight": True, "snippet": {"fields": ["t:3"]}},
                {"show": ["score", "score_details"]},
                {"sort": ["_score:buckets=3:desc", "g"]},
                {"min_score": 0.7, "boost": {"g": {"log": 0.1}}},
            )
        )
    return parameters


def page(chance: random.Random) -> dict[str, Any]:
    """Return which hits are wanted, and among which items."""
    per_page = chance.choice((0, 1, 1, 2, 2, 3, 3, 10, 200))
    chosen: dict[str, Any] = {"per_page": per_page, "page": chance.choice((1, 1, 2, 5))}
    if chance.random() < 0.4:
        chosen["filters"] = chance.choice(
            ({"f": ["drama"]}, {"f": ["crime", 1]}, {"g": {"gte": 1}}, {"f": ["nobody's"]})
        )
    return chosen


KNOWN_CONFIGURATIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"searchable_fields": ["t^3", "u"]},
    {"searchable_fields": ["t"]},
    {"typo_lengths": [3, 5]},
    {"field_typo_lengths": {"t": "none"}},
    {"infix": ["u"]},
    {"synonyms": [["sea", "film"], ["green mile", "iphone8"]]},
    {"synonyms": {"seal": ["mile"], "sea": ["smile"]}},
)
"""What the naive model knows of."""
OTHER_CONFIGURATIONS: Final[tuple[dict[str, Any], ...]] = (
    {"language": "en"},
    {"field_languages": {"u": "en"}},
    {"stop_words": ["sea", "i"]},
    {"ranking": {"k1": 2.0}},
    {"ranking": {"b": 0.1}},
    {"ranking": {"proximity": 0.0}},
    {"searchable_fields": ["u^2", "t"]},
)


# --- what is kept, and how often it is used


class Uses:
    """Counts how often answers came from what is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self._patch = monkeypatch
        self._count(text_search, "best_of_kept", "best of a word")
        self._count(kept_words, "best_champions", "champions of a word", lambda one: len(one[0]))
        self._count(kept_words, "_best_of_kept", "best of a word without its champions")
        self._count(text_search, "best_of_words", "best of several words")
        self._count(text_search, "best_champions", "deep champions", lambda one: len(one[0]))
        self._count(clause_combination, "add_bitset", "marked word")
        self._count(Evaluation, "_score_kept", "scored word")
        self._count(Evaluation, "_kept_terms", "terms by document", lambda one: one[1] >= 0)

    def _count(
        self, owner: Any, name: str, use: str, is_used: Callable[[Any], Any] = lambda _: True
    ) -> None:
        function = getattr(owner, name)

        def counting(*arguments: Any) -> Any:
            found = function(*arguments)
            if is_used(found):
                self.counts[use] += 1
            return found

        self.counts[use] = 0
        self._patch.setattr(owner, name, counting)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Let searches neither use nor keep anything of words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluation, "kept_word", lambda *_: None)
        patch.setattr(Evaluation, "deep_champions", lambda *_: None)
        patch.setattr(Evaluation, "_kept_terms", lambda *_: (NO_KEPT_TERMS, -1))
        yield


def forget() -> None:
    """Drop all that is kept."""
    for key in list(WORDS_CACHE._entries):
        with WORDS_CACHE._lock:
            WORDS_CACHE._drop(key)


# --- the machine


class Repetitions(RuleBasedStateMachine):
    """Repeats searches of one index between changes of it, on several services."""

    services: tuple[LocalService, ...]
    late: ClassVar[list[Callable[[], None]] | None] = None
    """What the background will do, if it is behind; None: it does everything at once."""

    @classmethod
    def schedule(cls, key: Hashable, owner: Segment, make: Callable[[Segment], None]) -> None:
        """Do what is scheduled, or put it off."""
        if cls.late is None:
            make(owner)
            return
        known = weakref.ref(owner)

        def make_late() -> None:
            segment = known()
            if segment is not None:
                make(segment)

        cls.late.append(make_late)

    @initialize(seed=st.integers(1, 1 << 32), configuration=st.sampled_from(KNOWN_CONFIGURATIONS))
    def start(self, seed: int, configuration: dict[str, Any]) -> None:
        # Draws of Hypothesis' own would seldom be in the middle: a search would have all its parts.
        self.chance = random.Random(seed)
        forget()
        self.asked: list[dict[str, Any]] = []
        self.oracle = Oracle()
        self.name = f"repeated-{next(_numbers)}"
        self.indexes = [Index(one.client(), self.name) for one in self.services]
        self._configure(configuration, is_known=True)
        self._write(Write("load", tuple(item(self.chance, number) for number in range(30))))
        for draw in (plain_search, plain_search, *[search] * 8):
            self._repeat(draw(self.chance))

    def _configure(self, configuration: dict[str, Any], *, is_known: bool) -> None:
        whole = {"aggregations": {"f": {"conjunction": False}, "g": {}}, **configuration}
        self.is_known = is_known
        self.oracle.configure(whole)
        for index in self.indexes:
            assert index.configure(whole).status == 200

    def _write(self, write: Write) -> None:
        status = apply(self.oracle, write)
        assert [send(index, write) for index in self.indexes] == [status] * len(self.indexes)

    @rule(size=st.integers(1, 12))
    def put(self, size: int) -> None:
        numbers = self.chance.sample(range(NUM_IDS), size)
        kind = self.chance.choice(("put", "load"))
        self._write(Write(kind, tuple(item(self.chance, number) for number in numbers)))

    @rule()
    def delete(self) -> None:
        for number in self.chance.sample(range(NUM_IDS), 4):
            self._write(Write("delete", (), number))

    @rule()
    def merge_fields(self) -> None:
        """An update of a field that no search looks at moves an item to another segment."""
        fields = ({"g": self.chance.randrange(5)},)
        self._write(Write("merge", fields, self.chance.randrange(NUM_IDS)))

    @rule(configuration=st.sampled_from(KNOWN_CONFIGURATIONS))
    def configure(self, configuration: dict[str, Any]) -> None:
        self._configure(configuration, is_known=True)

    @rule(configuration=st.sampled_from(OTHER_CONFIGURATIONS))
    def configure_otherwise(self, configuration: dict[str, Any]) -> None:
        self._configure(configuration, is_known=False)

    @rule(replaces=st.booleans())
    def rename(self, replaces: bool) -> None:
        """Give the index another name, or its name to an index of other items."""
        self.name = f"repeated-{next(_numbers)}"
        before = [index.path for index in self.indexes]
        oracle = Oracle(self.oracle.configuration)
        items = [item(self.chance, number) for number in range(NUM_IDS - 10, NUM_IDS)]
        oracle.put(items)
        for index in self.indexes:
            if replaces:  # it is searched before it takes the name
                other = Index(index.client, self.name)
                assert other.configure(self.oracle.configuration).status == 200
                assert other.put(items).status == 200
                for parameters in self.asked[-2:] * 3:
                    asked(other, parameters)
                reply = other.post("rename", {"to": index.name, "replace": True})
            else:
                reply = index.post("rename", {"to": self.name})
                index.name, index.path = self.name, f"/{self.name}"
            assert reply.status == 200, reply.body
        if replaces:
            self.oracle = oracle
            self.name = self.indexes[0].name
            assert before == [index.path for index in self.indexes]

    @rule()
    def fall_behind(self) -> None:
        """From now on the background does nothing."""
        if self.late is None:
            Repetitions.late = []

    @rule()
    def catch_up(self) -> None:
        """What has been put off is done: there have been writes since then."""
        waiting, Repetitions.late = self.late or (), None
        for make in waiting:
            make()

    @rule()
    def forget(self) -> None:
        forget()

    @precondition(lambda self: self.asked)
    @rule(num_bytes=st.sampled_from((0, 5_500, 20_000, 100_000)))
    def search_with_little_room(self, num_bytes: int) -> None:
        """The cache takes no value, or none that is large, or drops one for the next."""
        WORDS_CACHE.bytes_max = num_bytes
        for _ in range(2):
            self._repeat(self.chance.choice(self.asked))
        WORDS_CACHE.bytes_max = _BYTES

    @rule()
    def search(self) -> None:
        for _ in range(3):
            self._repeat(search(self.chance))

    @invariant()
    def searches_find_what_they_found_before(self) -> None:
        """After each change, some that were searched before are searched again."""
        asked_before = getattr(self, "asked", ())
        if asked_before:
            for _ in range(2):
                self._repeat(self.chance.choice(asked_before))

    @precondition(lambda self: self.asked)
    @rule()
    def search_at_once(self) -> None:
        """Several clients ask at a time, on threads."""
        parameters = {**self.chance.choice(self.asked), **page(self.chance)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search_cost, "is_slow", lambda *_: True)
            for index, service in zip(self.indexes, self.services, strict=True):
                with nothing_kept():
                    expected = stable(asked(index, parameters))
                clients = [Index(service.client(), index.name) for _ in range(3)]
                with ThreadPoolExecutor(len(clients)) as threads:
                    bodies = list(threads.map(lambda one: asked(one, parameters), clients * 2))
                for one in clients:
                    one.client.close()
                assert {stable(body) for body in bodies} == {expected}

    def _repeat(self, parameters: dict[str, Any]) -> None:
        note(f"search {parameters}")
        self.asked = [*self.asked[-20:], parameters]
        for _ in range(self.chance.choice((2, 3))):
            one = {**parameters, **page(self.chance)}
            with nothing_kept():
                bodies = [stable(asked(index, one)) for index in self.indexes]
            assert len(set(bodies)) == 1, bodies
            self._check(one)
            for _ in range(self.chance.choice((1, 3, 4))):
                for index in self.indexes:
                    assert stable(asked(index, one)) == bodies[0], (one, index.client.port)

    def _check(self, parameters: dict[str, Any]) -> None:
        """Compare an answer with the naive model's, if that knows all that is asked."""
        known = {"search_fields", "highlight", "snippet", "min_score"}.isdisjoint(parameters)
        is_by_score = any("_score" in key for key in parameters.get("sort", ()))
        if not self.is_known or not known or is_by_score:
            return
        answer = self.indexes[-1].post("search", parameters).json
        if "error" not in answer and "score_details" not in parameters["show"]:
            check(answer, self.oracle.search(**parameters), parameters)

    def teardown(self) -> None:
        WORDS_CACHE.bytes_max = _BYTES
        Repetitions.late = None
        for index in getattr(self, "indexes", ()):
            index.client.delete(index.path)
            index.client.close()


async def play(folder: Path, num_examples: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Run the machine against services of 1, 2, 3 and 5 shards; return what was used how often."""
    small_thresholds.lower(monkeypatch.setattr)
    for module in (kept_words, kept_terms_of_docs):
        monkeypatch.setattr(module, "schedule", Repetitions.schedule)
    uses = Uses(monkeypatch)
    async with AsyncExitStack() as stack:
        Repetitions.services = tuple(
            [
                await stack.enter_async_context(
                    local_service(folder / f"{count}", num_shards=count, of_shards=_SETTINGS)
                )
                for count in SHARD_COUNTS
            ]
        )
        await asyncio.to_thread(
            run_state_machine_as_test,
            Repetitions,
            settings=settings(
                max_examples=num_examples,
                stateful_step_count=30,
                phases=(Phase.explicit, Phase.reuse, Phase.generate),
                deadline=None,
            ),
        )
    return uses.counts


@pytest.mark.timeout(900)
async def test_a_repeated_search_finds_what_it_found_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = await play(tmp_path, 2, monkeypatch)
    assert min(uses.values()) > 0, uses


@pytest.mark.long
@pytest.mark.timeout(7_200)
async def test_thousands_of_repeated_searches_find_what_they_found_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = await play(tmp_path, 300, monkeypatch)
    assert min(uses.values()) > 100, uses
