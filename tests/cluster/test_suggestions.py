"""Suggestions and "did you mean" over HTTP, against a naive count of words, on 1 to 5 shards.

The model knows nothing of vocabularies: it looks at every word of every item.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from tests.cluster.conftest import Index, Services, error_of

SHARD_COUNTS = (1, 2, 3, 5)
FEW_AND_MANY = (1, 5)
"""Numbers of shards on which all is tried without `--long`, too."""
STEMS = (
    "tom",
    "han",
    "ham",
    "hanover",
    "laser",
    "layer",
    "print",
    "sea",
    "seal",
    "gold",
    "goldfish",
)
ENDINGS = ("", "s", "er", "ers", "ing")
FORMS = [stem + ending for stem in STEMS for ending in ENDINGS]
BRANDS = ("Hanson", "Laser Works", "Golden Sea", "Östlund")


def made_items() -> list[dict[str, Any]]:
    """Items whose words are Zipf-distributed, so that counts differ and tie."""
    rng = random.Random(22)
    weights = [1 / (i + 1) for i in range(len(FORMS))]
    return [
        {
            "id": number,
            "title": " ".join(rng.choices(FORMS, weights, k=rng.randint(1, 4))).title(),
            "text": " ".join(rng.choices(FORMS, weights, k=6)),
            "brand": rng.choices(BRANDS, (8, 4, 2, 1))[0],
            "sold": rng.randint(0, 40),
            "secret": number % 7 == 0,
        }
        for number in range(400)
    ]


ITEMS = made_items()
CONFIGURATION = {
    "aggregations": {"brand": {}, "secret": {}},
    "searchable_fields": ["title", "text", "brand"],
    "suggestions": {"fields": ["title"], "facets": ["brand"], "popularity": "sold"},
}
_analyzer = Analyzer()


def folded(text: str) -> list[str]:
    return [token.text for token in _analyzer.tokenize(text)]


WORDS = {
    item["id"]: {word for name in ("title", "text", "brand") for word in folded(item[name])}
    for item in ITEMS
}


def words_of(item: dict[str, Any]) -> set[str]:
    return WORDS[item["id"]]


def having(words: Iterable[str], items: list[dict[str, Any]] = ITEMS) -> list[dict[str, Any]]:
    """The items that have all of some words."""
    return [item for item in items if set(words) <= words_of(item)]


def completions(text: str, size: int, items: list[dict[str, Any]] = ITEMS) -> list[tuple[str, int]]:
    """What the last word may become, most items first."""
    *before, last = folded(text)
    counts = Counter(
        word for item in having(before, items) for word in words_of(item) if word.startswith(last)
    )
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(" ".join([*before, word]), count) for word, count in ordered[:size]]


def of_source(answer: Any, source: str) -> list[tuple[str, int]]:
    return [
        (one["text"], one["count"])
        for one in answer["data"]["suggestions"]
        if one["source"] == source
    ]


def suggested(index: Index, **parameters: Any) -> Any:
    reply = index.post("suggest", parameters)
    assert reply.status == 200, reply.body
    return reply.json


def _shard_counts(usual: tuple[int, ...]) -> list[Any]:
    """Return all numbers of shards; without `--long` the usual ones are tried."""
    return [
        pytest.param(count, marks=() if count in usual else pytest.mark.long)
        for count in SHARD_COUNTS
    ]


@pytest.fixture(
    scope="module", params=_shard_counts(FEW_AND_MANY), ids=lambda count: f"{count}-shards"
)
def index(request: pytest.FixtureRequest, services: Services) -> Iterator[Index]:
    index = Index(services(request.param).client(), "suggesting")
    index.configure(CONFIGURATION)
    # Several segments, deletions and replacements.
    for start in range(0, len(ITEMS), 100):
        index.put(ITEMS[start : start + 100])
    index.put([{"id": 1_000, "title": "hanoverish handsome"}, {"id": 1_001, "title": "handle"}])
    index.client.delete(f"{index.path}/items/1000")
    index.put([{**ITEMS[7], "title": "Handy"}, {"id": 1_001, "title": "tom"}])
    index.put([ITEMS[7]])
    index.client.delete(f"{index.path}/items/1001")
    yield index
    index.client.close()  # the service does not keep idle connections for as long as tests take
    index.client.delete(index.path)
    index.client.close()


@pytest.fixture(scope="module")
def words_only(index: Index) -> Index:
    """The same, suggesting words only."""
    words = Index(index.client, "suggesting-words")
    words.configure({**CONFIGURATION, "suggestions": {"facets": []}})
    words.put(ITEMS)
    return words


@pytest.mark.parametrize(
    "text", ["h", "ha", "han", "hans", "Tom ha", "tom tom s", "sea las", "gold fish", "s", "layer"]
)
@pytest.mark.parametrize("size", [1, 5, 40])
def test_words_are_completed_with_exact_counts(words_only: Index, text: str, size: int) -> None:
    answer = suggested(words_only, query=text, size=size)

    assert [(one.lower(), count) for one, count in of_source(answer, "word")] == completions(
        text, size
    )


def test_only_items_that_pass_the_filters_count(words_only: Index) -> None:
    passing = [item for item in ITEMS if item["brand"] == "Golden Sea" and item["sold"] < 20]

    answer = suggested(
        words_only, query="tom h", filters={"brand": ["Golden Sea"]}, filter="sold < 20", size=50
    )

    assert of_source(answer, "word") == completions("tom h", 50, passing)


def test_typos_are_forgiven_where_nothing_is_as_typed(index: Index) -> None:
    assert ("goldfish", len(having(["goldfish"]))) in of_source(
        suggested(index, query="goldfihs", size=50), "word"
    )
    (best, *_) = of_source(suggested(index, query="lasr golf", size=50), "word")
    assert best[0].startswith("laser gol")
    assert best[1] == len(having(best[0].split())) > 0
    assert ("Golden Sea", 0) not in of_source(suggested(index, query="zzzz"), "facet")
    assert suggested(index, query="zzzzzzzz")["data"]["suggestions"] == []


def test_texts_come_by_popularity_and_values_by_count(index: Index) -> None:
    answer = suggested(index, query="goldf", size=30)

    texts = [one for one in answer["data"]["suggestions"] if one["source"] == "field"]
    assert {one["field"] for one in texts} == {"title"}
    sold: dict[str, int] = {}
    for item in ITEMS:
        sold[item["title"]] = max(sold.get(item["title"], 0), item["sold"])
    popularity = [sold[one["text"]] for one in texts]
    assert popularity == sorted(popularity, reverse=True)
    assert all(one["count"] == len(having(folded(one["text"]))) for one in texts)
    values = of_source(suggested(index, query="la", size=30), "facet")
    assert values == [("Laser Works", sum(item["brand"] == "Laser Works" for item in ITEMS))]
    assert of_source(suggested(index, query="ostl"), "facet")[0][0] == "Östlund"


def test_nothing_typed_suggests_what_is_popular(index: Index) -> None:
    answer = suggested(index)

    counts = Counter(item["brand"] for item in ITEMS)
    assert of_source(answer, "facet") == counts.most_common()
    assert of_source(answer, "field")
    assert not of_source(answer, "word")


def test_a_text_is_suggested_once_and_sources_take_turns(index: Index) -> None:
    suggestions = suggested(index, query="han", size=12)["data"]["suggestions"]

    texts = [" ".join(folded(one["text"])) for one in suggestions]
    assert len(set(texts)) == len(texts) == 12
    assert {one["source"] for one in suggestions[:5]} == {"field", "facet", "word"}


def test_a_text_that_cannot_be_counted_makes_room_for_the_next(services: Services) -> None:
    index = Index(services(2).client(), "making-room")
    index.configure({"suggestions": {"fields": ["title"], "facets": [], "popularity": "sold"}})
    long = [" ".join(["lamp", *(f"w{i}{j}" for j in range(16))]) for i in range(3)]
    titles = [*long, "lamp two", "lamp one", "!", "lamp zero"]
    index.put([{"id": i, "title": one, "sold": -i} for i, one in enumerate(titles)])

    suggestions = suggested(index, query="lamp", size=4)["data"]["suggestions"]

    assert [(one["text"], one["source"], one["count"]) for one in suggestions] == [
        ("lamp two", "field", 1),
        ("lamp", "word", 6),
        ("lamp one", "field", 1),
        ("lamp zero", "field", 1),
    ]
    index.client.delete(index.path)
    index.client.close()


def test_items_with_the_same_text_make_room_for_others(services: Services) -> None:
    index = Index(services(2).client(), "same-texts")
    index.configure({"suggestions": {"fields": ["title"], "facets": [], "popularity": "sold"}})
    titles = ["lamp"] * 3 + ["Lamp"] * 2 + ["lamp one", "lamp two", "lamp three"]
    index.put([{"id": i, "title": one, "sold": -i} for i, one in enumerate(titles)])

    suggestions = suggested(index, query="lamp", size=4)["data"]["suggestions"]

    assert [(one["text"], one["count"]) for one in suggestions] == [
        ("lamp", 8),
        ("lamp one", 1),
        ("lamp two", 1),
        ("lamp three", 1),
    ]
    index.client.delete(index.path)
    index.client.close()


def test_counts_follow_every_write_and_filter(services: Services) -> None:
    index = Index(services(2).client(), "counted-again")
    index.configure({"suggestions": {"fields": ["title"], "facets": [], "popularity": "sold"}})
    index.put([{"id": i, "title": "red lamp", "sold": i} for i in range(5)])

    def counts(**parameters: Any) -> list[tuple[str, int]]:
        return of_source(suggested(index, query="red l", **parameters), "field")

    assert counts() == counts() == [("red lamp", 5)]
    assert counts(filter="sold >= 3") == [("red lamp", 2)]
    index.put([{"id": 9, "text": "a lamp, not red"}])
    index.client.delete(f"{index.path}/items/0")
    index.client.delete(f"{index.path}/items/1")
    assert counts() == counts() == [("red lamp", 4)]
    index.client.delete(index.path)
    index.client.close()


TYPED = (
    "goldfishers",
    "tom hams",
    "printing sea",
    "Tom  goldx",
    "xyz",
    "sealing ham",
    "sealing tomx",
)
"""Few titles have the first word of the last two: all of them are known."""
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unpopular": {"suggestions": {"fields": ["title"], "facets": []}},
    "english": {"language": "english"},
    "by-field": {"field_languages": {"title": "english"}},
    "synonyms": {"synonyms": {"ham": ["seal"]}},
    "stop-words": {"stop_words": ["gold", "tom"]},
    "infix": {"infix": True},
    "prefix": {"prefix": "none"},
}


def _on_shards(name: str, num_values: int, usual: tuple[int, ...]) -> list[Any]:
    """Return a configuration on all numbers of shards; without `--long` on the usual ones."""
    return [
        pytest.param(
            num_shards,
            num_values,
            name,
            id=f"{num_shards}-{name}-{num_values}-values",
            marks=() if num_shards in usual else pytest.mark.long,
        )
        for num_shards in SHARD_COUNTS
    ]


TYPED_ON = [
    *_on_shards("plain", 10_000, FEW_AND_MANY),
    *_on_shards("plain", 6, (2,)),
    *_on_shards("unpopular", 10_000, (2,)),
    *_on_shards("english", 10_000, (3,)),
    *_on_shards("by-field", 10_000, (1,)),
    *_on_shards("synonyms", 10_000, (1,)),
    *_on_shards("stop-words", 10_000, (2,)),
    *_on_shards("infix", 10_000, (3,)),
    *_on_shards("prefix", 10_000, (2,)),
]


@pytest.mark.parametrize(("num_shards", "num_values", "name"), TYPED_ON)
def test_a_letter_more_gives_what_it_gives_alone(
    services: Services, num_shards: int, num_values: int, name: str
) -> None:
    """Most longer beginnings are answered by what is known of shorter ones, until a write."""
    index = Index(services(num_shards).client(), f"typed-on-{name}-{num_values}")
    index.configure({**CONFIGURATION, **CONFIGURATIONS[name]})
    rng = random.Random(num_values)
    items = [{**item, "sold": rng.randrange(num_values)} for item in ITEMS]
    index.put(items)
    beginnings = [text[:end] for text in TYPED for end in range(1, len(text) + 1)]

    def answer(text: str) -> Any:
        number = sum(map(ord, text.partition(" ")[0][:3]))
        filters = {"filter": "secret = false"} if number % 3 == 0 else {}
        return suggested(index, query=text, size=(4, 9)[number % 2], **filters)["data"]

    alone = {}
    for text in dict.fromkeys(beginnings):
        index.put(items[:1])
        alone[text] = answer(text)
    for order in (beginnings, rng.sample(beginnings, len(beginnings))):
        index.put(items[:1])
        for text in order:
            assert answer(text) == alone[text], text
    index.client.delete(index.path)
    index.client.close()


def test_values_have_typos_only_if_nothing_is_as_typed(services: Services) -> None:
    index = Index(services(2).client(), "typed-values")
    index.configure({"aggregations": {"brand": {}}, "suggestions": {"fields": ["title"]}})
    index.put([{"id": 1, "title": "laser", "brand": "Lasser"}])

    answer = suggested(index, query="laser")
    assert of_source(answer, "field") == [("laser", 1)]
    assert of_source(answer, "facet") == []
    assert of_source(suggested(index, query="lassre"), "facet") == [("Lasser", 1)]
    index.client.delete(index.path)
    index.client.close()


def test_values_of_elements_count_items_that_pass(services: Services) -> None:
    index = Index(services(2).client(), "suggested-elements")
    disjunctive = {"conjunction": False}
    index.configure({"nested": ["v"], "aggregations": {"v.s": disjunctive, "v.c": {}}})
    index.put(
        [
            {"id": 1, "v": [{"s": "M", "c": "red"}, {"s": "L", "c": "blue"}]},
            {"id": 2, "v": [{"s": "S", "c": "red"}]},
            {"id": 3, "v": [{"s": "S", "c": "blue"}, {"s": "M", "c": "red"}]},
        ]
    )
    filters = {"v": {"same": {"s": ["M"], "c": ["red"]}}}

    found = suggested(index, query="", filters=filters)
    assert {(one["field"], one["text"], one["count"]) for one in found["data"]["suggestions"]} == {
        *(("v.s", "M", 2), ("v.s", "S", 1), ("v.s", "L", 1)),
        *(("v.c", "red", 2), ("v.c", "blue", 2)),
    }
    index.client.delete(index.path)
    index.client.close()


def test_quoted_and_excluded_words_are_not_guessed_at(index: Index) -> None:
    assert suggested(index, query='"tom ha')["data"]["suggestions"] == []
    assert suggested(index, query="tom -ha")["data"]["suggestions"] == []


def test_mistakes_are_named(index: Index) -> None:
    error = error_of(index.get("suggest", query="a", size=101))
    assert (error["code"], error["param"]) == ("invalid_size", "size")
    error = error_of(index.get("suggest", q="a"))
    assert (error["code"], error["param"]) == ("unknown_parameter", "q")
    reply = index.post("configuration?preview=true", {"suggestions": {"facets": ["nope"]}})
    assert error_of(reply)["param"] == "suggestions.facets[0]"


# --- did you mean ---------------------------------------------------------------------------------


def meant(index: Index, **parameters: Any) -> str | None:
    meta = index.search(**parameters)["meta"]
    result: str | None = meta.get("did_you_mean")
    if result is not None:
        narrowing = {key: parameters[key] for key in parameters.keys() & {"filters", "match"}}
        assert index.search(query=result, **narrowing)["pagination"]["total"] > 0
    return result


def test_another_spelling_has_hits_under_the_same_filters(index: Index) -> None:
    assert meant(index, query="Lasre gold", typo=0) == "laser gold"
    assert meant(index, query="lasr  GOLD!") == "laser  GOLD!"
    assert meant(index, query="laser gold") is None
    assert meant(index, query="lasr", did_you_mean=False) is None
    assert meant(index, query="zzzzzz gold") is None
    assert meant(index, query='"lasr gold"') is None
    assert meant(index, query="lasre", typo=0, filters={"brand": ["nobody"]}) is None


def test_a_half_typed_word_is_no_mistake(index: Index) -> None:
    assert meant(index, query="goldfi") is None
    assert meant(index, query="lasre goldfi", typo=0) == "laser goldfi"
    assert meant(index, query="goldfihs", prefix="none", typo=0) == "goldfishs"


def test_the_likeliest_of_the_nearest_words_is_meant(index: Index) -> None:
    index = Index(index.client, "slips")
    index.configure({"searchable_fields": ["name"]})
    names = ["htpc", "htpc", "htop", "htpasswd", "htpdate", "htpdate", *["wide"] * 30, "wired"]
    index.put([{"id": i, "name": name} for i, name in enumerate(names)])

    assert meant(index, query="htpo") == meant(index, query="htpo", prefix="none") == "htop"
    assert meant(index, query="htpx!") == "htpc!"
    assert meant(index, query="wied!") == "wide!"  # as likely a slip for wired, in fewer items
    index.client.delete(index.path)


def test_a_digit_between_letters_may_stand_for_one(index: Index) -> None:
    index = Index(index.client, "digit")
    index.configure({"searchable_fields": ["name"]})
    names = ["Seven", "Seven Samurai", "semen", "seen", "seen", "seen", "b2c", "bob"]
    index.put([{"id": i, "name": name} for i, name in enumerate(names)])

    assert meant(index, query="Se7en") == "seven"
    assert meant(index, query="se7en!") == "seven!"
    assert meant(index, query="se7en samurai") == "seven samurai"
    assert meant(index, query="se7") is None
    assert meant(index, query="b2b") is None  # too short
    assert meant(index, query="s3v3n") is None
    index.client.delete(index.path)


def test_a_name_of_another_script_may_be_written_as_in_another_language(index: Index) -> None:
    index = Index(index.client, "names")
    index.configure({"searchable_fields": ["name"]})
    names = ["Fyodor Dostoyevsky", "Dmitri Shostakovich", "Anton Tschechow"]
    index.put([{"id": i, "name": name} for i, name in enumerate(names)])

    assert meant(index, query="dostojewski") == "dostoyevsky"
    assert meant(index, query="dostojewsk") is None  # two edits: found as it is
    assert meant(index, query="Schostakowitsch") == "shostakovich"
    assert meant(index, query="fyodor dostojewski!") == "fyodor dostoyevsky!"
    assert meant(index, query="chechov") == "tschechow"
    assert meant(index, query="dmitri dostojewski") is None  # no item has both
    index.client.delete(index.path)


def test_many_hits_are_questioned_only_if_asked_for(services: Services) -> None:
    index = Index(services(2).client(), "meaning")
    index.configure({})
    index.put([{"id": i, "t": "laser printer"} for i in range(60)])
    index.put([{"id": 100 + i, "t": "lasar printer"} for i in range(5)])

    assert meant(index, query="lasar printer", typo=0) is None
    assert meant(index, query="lasar printer", typo=0, did_you_mean=True) == "laser printer"
    assert meant(index, query="laser printer", typo=0, did_you_mean=True) is None
    error = error_of(index.get("search", query="a", did_you_mean="perhaps"))
    assert (error["code"], error["param"]) == ("invalid_did_you_mean", "did_you_mean")
    index.client.delete(index.path)
    index.client.close()


def test_frequent_searches_are_suggested(services: Services) -> None:
    index = Index(services(2).client(), "searched")
    index.configure({"suggestions": {"searches": True}})
    index.put([{"id": 1, "t": "red lamp"}, {"id": 2, "t": "red chair"}])
    for number in range(3):
        for query in ("red lamp", "red chair", "red lamp", "red nothing"):
            body = json.dumps({"query": query}).encode()
            headers = {"X-Forwarded-For": f"10.0.0.{number}", "content-type": "application/json"}
            index.client.request("POST", f"{index.path}/search", body, headers)

    suggestions = suggested(index, query="Re")["data"]["suggestions"]

    assert [one for one in suggestions if one["source"] == "search"] == [
        {"text": "red lamp", "source": "search", "count": 1},
        {"text": "red chair", "source": "search", "count": 1},
    ]
    index.client.delete(index.path)
    index.client.close()


def test_a_suggestion_as_a_query_excludes_nothing(services: Services) -> None:
    index = Index(services(2).client(), "signs")
    index.configure(
        {
            "aggregations": {"degrees": {}},
            "suggestions": {"fields": ["title"], "facets": ["degrees"], "searches": True},
        }
    )
    index.put([{"id": 1, "title": "5 Lamps -blue", "degrees": [-5, 5]}])
    for number in range(6):
        body = json.dumps({"query": "5 lamps -red"}).encode()
        headers = {"X-Forwarded-For": f"10.0.0.{number}", "content-type": "application/json"}
        index.client.request("POST", f"{index.path}/search", body, headers)

    listed = suggested(index, query="5")["data"]["suggestions"]

    assert {(one["source"], one["text"]) for one in listed} == {
        ("field", "5 Lamps blue"),
        ("facet", "5"),
    }
    assert all(index.ids(query=one["text"]) == [1] for one in listed)
    index.client.delete(index.path)
    index.client.close()


def test_letters_before_digits_are_corrected_and_digits_stay(index: Index) -> None:
    index = Index(index.client, "digits")
    index.configure({"searchable_fields": ["name"]})
    names = ["python 3", "python3", "python3", "pythons2", "python3doc", "iphone7", "phone"]
    index.put([{"id": i, "name": name} for i, name in enumerate(names)])

    assert meant(index, query="pyton3") == "python3"
    assert meant(index, query="PYTON3!") == "python3!"
    assert meant(index, query="pyton3doc") == "python3doc"
    assert meant(index, query="pyton4") is None
    assert meant(index, query="iphnoe7") is None  # no item has iphone alone
    assert meant(index, query="python3", did_you_mean=True) is None
    assert meant(index, query="pyton3", filters={"name": ["phone"]}) is None
    index.client.delete(index.path)


def test_words_cut_from_a_run_are_put_together_again(index: Index) -> None:
    index.configure({"searchable_fields": ["title"]})
    index.put([{"id": 1, "title": "三次方程"}, {"id": 2, "title": "三次方 lamp"}])

    def texts(query: str) -> list[str]:
        reply = index.post("suggest", {"query": query})
        return [one["text"] for one in reply.json["data"]["suggestions"]]

    assert texts("三次方") == ["三次方"]
    assert texts("三次方程") == ["三次方程"]
    assert texts("三次方 la") == ["三次方 lamp"]
    meta = index.search(query="三次方 lanp", typo=0, did_you_mean=True)["meta"]
    assert meta["did_you_mean"] == "三次方 lamp"


BEGINNINGS = [
    *("g", "go", "gol", "gold", "golde", "goldf", "p", "pr", "print", "printe", "sea", "sea l"),
    *("tom h", "tom ha", "tom han", "han tom", "gold pr", "seal", "seals g", "laser s", "xyz ha"),
    *(
        "hano",
        "hanover",
        "ham",
        "hams",
        "hammer",
        "lay",
        "layer",
        "layers s",
        "gold fish",
        "seal s",
    ),
]
"""Of one word and several, whole ones and words of no item, words that are two words elsewhere."""


@pytest.mark.parametrize("num_values", [1, 5, 10_000], ids=lambda count: f"{count}-values")
@pytest.mark.parametrize("num_shards", _shard_counts(FEW_AND_MANY))
def test_texts_are_in_the_order_of_a_search_by_popularity(
    services: Services, num_shards: int, num_values: int
) -> None:
    """Texts of equal or missing popularity are in the order of their scores, as in a search."""
    index = Index(services(num_shards).client(), f"in-order-{num_values}")
    index.configure(
        {"suggestions": {"fields": ["title"], "facets": [], "popularity": "sold"}, "stop_words": []}
    )
    rng = random.Random(num_values)
    items = [{**item, "sold": rng.randrange(num_values)} for item in ITEMS]
    for item in items[::9]:
        del item["sold"]
    index.put(items)
    index.put([{"id": 2_000, "title": "goldfish", "sold": 0}, {"id": 2_001, "title": "gold fish"}])

    for text in BEGINNINGS:
        suggestions = suggested(index, query=text, size=9)["data"]["suggestions"]
        found = index.post(
            "search",
            {
                "query": text,
                "search_fields": ["title"],
                "sort_field": "sold",
                "order": "desc",
                "typo": 0,
                "prefix": "last",
                "per_page": 100,
            },
        ).json["data"]["items"]
        if not found:
            continue  # typos are forgiven
        # A text is listed once: some of them as completed words.
        shown = {" ".join(folded(one["text"])): one["source"] for one in suggestions}
        titles = dict.fromkeys(" ".join(folded(item["title"])) for item in found)
        expected = [title for title in titles if shown.get(title) != "word"]
        listed = [title for title, source in shown.items() if source == "field"]
        assert listed == expected[: len(listed)], text
        assert listed or not expected, text
    index.client.delete(index.path)
    index.client.close()


def test_what_rules_leave_out_for_any_query_is_not_suggested(services: Services) -> None:
    index = Index(services(3).client(), "suggested-by-rules")
    gone = [item["id"] for item in ITEMS if item["sold"] > 36]
    rules = [
        {"hide": gone, "pin": [gone[0], 1]},
        {"filter": "secret = false", "bury": ["sold > 3"]},
        {"filter": "brand = nobody", "when": {"query": {"contains": "laser"}}},
        {"hide": [5], "when": {"until": "2020-01-01"}},
        {"filter": "sold > 20", "when": {"filters": {"brand": ["Golden Sea"]}}},
    ]
    index.configure(CONFIGURATION)
    index.put(ITEMS)
    typed = ["", "ha", "hans", "laser", "tom s", "gold", "xyzzy", "goldfihs"]

    def answers(text: str, chosen: str) -> list[Any]:
        filters = {"filters": {"brand": [chosen]}} if chosen else {}
        by_rules = suggested(index, query=text, **filters)["data"]
        expected = [f"NOT ({' OR '.join(f'id = {one}' for one in gone)})", "secret = false"]
        if chosen == "Golden Sea":
            expected.append("sold > 20")
        by_filters = suggested(index, query=text, **filters, filter=" AND ".join(expected))["data"]
        return [by_rules, by_filters]

    brands = ("", "Hanson", "Golden Sea")
    wanted = {(text, chosen): answers(text, chosen) for text in typed for chosen in brands}
    assert any(plain != narrowed for plain, narrowed in wanted.values())
    index.configure({**CONFIGURATION, "rules": rules})
    for (text, chosen), (_, narrowed) in wanted.items():
        for found in answers(text, chosen):
            assert found == narrowed, (text, chosen)
    index.client.delete(index.path)
    index.client.close()


@pytest.mark.parametrize("num_shards", [1, 3])
def test_values_that_no_item_of_the_search_has_do_not_forbid_typos(
    services: Services, num_shards: int
) -> None:
    index = Index(services(num_shards).client(), "hidden-values")
    index.configure({"aggregations": {"brand": {}}, "searchable_fields": ["title"]})
    index.put([{"id": 1, "brand": "Sonia"}, {"id": 2, "brand": "Sonya"}])

    def values(**filters: Any) -> list[str]:
        found = suggested(index, query="sonya", **filters)["data"]["suggestions"]
        return [one["text"] for one in found]

    assert values() == ["Sonya"]
    assert values(filter="id = 1") == ["Sonia"]
    assert index.client.delete(f"{index.path}/items/2").status == 200
    assert values() == ["Sonia"]
    index.client.delete(index.path)
    index.client.close()
