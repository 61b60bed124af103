"""Words written together or apart are found, below the typed form; then on the shared sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Index, Services, filled, index_of_set, lines_about
from tests.service import Client

NAMES = [
    "Spider-Man: Homecoming",
    "X-Men",
    "New York Stories",
    "Washington, D.C. at night",
    "To Kill a Mockingbird",
    "Ocean's Eleven",
    "20,000 Leagues Under the Sea",
    "Wi-Fi router",
    "Wifi adapter",
    "HP 364 ink",
    "USB 2.0 hub",
    "The Da Vinci Code",
    "The Hitchhiker's Guide",
    "C. S. Lewis",
    "Laptop bag",
    "lamp",
    "ISBN 439023483",
]


SEARCHED = {"searchable_fields": ["name"]}
NOTATIONS = [
    *("Rocky II", "Rocky 2", "Rocky, Part II", "Rocky and a stray II", "3 Rocky roads"),
    *("Player One", "Salt & pepper", "Salt and pepper", "Pepper, salt", "St. Louis", "Mt Everest"),
]


def named(names: list[str]) -> list[dict[str, Any]]:
    return [{"id": i, "name": name} for i, name in enumerate(names)]


@pytest.fixture(scope="module")
def names(client: Client) -> Iterator[Index]:
    """Read only."""
    yield from filled(Index(client, "spaced-names"), SEARCHED, named(NAMES))


@pytest.fixture(scope="module")
def notations(client: Client) -> Iterator[Index]:
    """Read only."""
    yield from filled(Index(client, "notations"), SEARCHED, named(NOTATIONS))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("spiderman", ["Spider-Man: Homecoming"]),
        ("spider man", ["Spider-Man: Homecoming"]),
        ("xmen", ["X-Men"]),
        ("newyork", ["New York Stories"]),
        ("washington dc", ["Washington, D.C. at night"]),
        ("to kill a mocking bird", ["To Kill a Mockingbird"]),
        ("oceans eleven", ["Ocean's Eleven"]),
        ("20000 leagues", ["20,000 Leagues Under the Sea"]),
        ("wi-fi", ["Wi-Fi router", "Wifi adapter"]),
        ("wifi", ["Wifi adapter", "Wi-Fi router"]),
        ("hp364", ["HP 364 ink"]),
        ("usb2.0 hub", ["USB 2.0 hub"]),
        ("davinci code", ["The Da Vinci Code"]),
        ("hitchhikers guide", ["The Hitchhiker's Guide"]),
        ("cs lewis", ["C. S. Lewis"]),
        ("lap top", ["Laptop bag"]),
        ("439-02348-3", ["ISBN 439023483"]),
        ("439 02348 3", ["HP 364 ink"]),  # begins with 3; no other word is known
        ('"lap top"', []),
        ('"spiderman"', []),
    ],
)
def test_names_are_found_as_people_type_them(names: Index, query: str, found: list[str]) -> None:
    hits = names.search(query=query)["data"]["items"]
    assert [item["name"] for item in hits] == found


def test_known_words_are_found_together_too(names: Index) -> None:
    """The first search of a pair assumes that the index lacks "laptop", and finds out."""
    for word in ("lap", "top", "bag", "lamp"):
        names.search(query=word, prefix="none")
    for _ in range(2):  # the second time it is known
        assert names.search(query="lap top bag", prefix="none")["pagination"]["total"] == 1
        assert names.search(query="lamp bag", prefix="none")["pagination"]["total"] == 0


def test_typo_0_takes_words_as_typed(names: Index) -> None:
    assert names.search(query="spiderman", typo=0)["pagination"]["total"] == 0


def test_a_spacing_is_explained_and_marked(names: Index) -> None:
    (hit,) = names.search(query="spiderman", show=["score_details"], highlight=["name"])["data"][
        "items"
    ]
    assert hit["_highlight"] == {"name": "<em>Spider</em>-<em>Man</em>: Homecoming"}
    word = next(part for part in hit["_score_details"]["parts"] if part["kind"] == "word")
    (occurrence,) = word["occurrences"]
    assert (occurrence["match"], occurrence["term"]) == ("spacing", "spider man")
    assert hit["_score"] == hit["_score_details"]["score"]


def test_deleted_items_count_for_no_spacing(index: Index) -> None:
    index.configure(SEARCHED)
    index.put(named(NAMES))
    assert index.search(query="wi-fi lamp", match="any")["pagination"]["total"] == 3
    index.client.delete(f"{index.path}/items/8")
    assert index.search(query="wi-fi", match="any")["pagination"]["total"] == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("rocky 2", ["Rocky 2", "Rocky II", "Rocky, Part II"]),
        ("rocky two", ["Rocky II", "Rocky 2"]),
        ("salt and pepper", ["Salt and pepper", "Salt & pepper"]),
        ("salt & pepper", ["Salt & pepper", "Pepper, salt", "Salt and pepper"]),
        ("saint louis", ["St. Louis"]),
        ("st louis", ["St. Louis"]),
        ("mount everest", ["Mt Everest"]),
        ("rocky 3", ["3 Rocky roads"]),
        ("player 1", ["Player One"]),
        ("player one", ["Player One"]),
    ],
)
def test_notations_are_found_below_the_typed_form(
    notations: Index, query: str, found: list[str]
) -> None:
    hits = notations.search(query=query)["data"]["items"]
    assert [item["name"] for item in hits] == found


# --- the cases of the review ----------------------------------------------------------------------


ASKED_FOR = {
    "wikipedia-movies": [
        *("Spider", "X-Men", "New York", "Mocking", "Da Vinci", "Ocean", "Leagues", "Rocky"),
        *("Angry", "Strangelove", "Lilo", "Stitch", "Washington"),
    ],
    "goodbooks": ["Da Vinci", "Hitchhiker", "Mocking", "Lewis", "Tolkien"],
    "icecat-products": ["364", "Hub", "laptop", "Wi-Fi", "WiFi"],
}
"""What the queries below are about, by set; the rest is there by samples, with `--long` whole."""


def load(
    services: Services, name: str, fields: list[str], config: pytest.Config
) -> Iterator[Index]:
    configuration = {"searchable_fields": fields, "language": "english"}
    lines = lines_about(name, ASKED_FOR[name], config)
    return index_of_set(services, name, f"spacings-{name}", configuration, lines)


@pytest.fixture(scope="module")
def films(services: Services, pytestconfig: pytest.Config) -> Iterator[Index]:
    yield from load(services, "wikipedia-movies", ["title", "extract", "cast"], pytestconfig)


@pytest.fixture(scope="module")
def books(services: Services, pytestconfig: pytest.Config) -> Iterator[Index]:
    yield from load(services, "goodbooks", ["title", "original_title", "authors"], pytestconfig)


@pytest.fixture(scope="module")
def products(services: Services, pytestconfig: pytest.Config) -> Iterator[Index]:
    fields = ["title", "name", "description", "brand"]
    yield from load(services, "icecat-products", fields, pytestconfig)


def first(index: Index, query: str, count: int = 1) -> list[Any]:
    answer = index.search(query=query, per_page=count)
    return [item["title"] for item in answer["data"]["items"]]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("spiderman", "Spider-Man"),
        ("xmen", "X-Men"),
        ("newyork", "New York"),
        ("to kill a mocking bird", "To Kill a Mockingbird"),
        ("davinci code", "The Da Vinci Code"),
        ("oceans eleven", "Ocean's Eleven"),
        ("20000 leagues", "20,000 Leagues Under the Sea"),
        ("rocky 4", "Rocky IV"),
        ("twelve angry men", "12 Angry Men"),
        ("doctor strangelove", "Dr. Strangelove"),
        ("lilo and stitch", "Lilo & Stitch"),
    ],
)
def test_film_is_first_however_its_title_is_spaced(films: Index, query: str, title: str) -> None:
    assert first(films, query)[0].startswith(title)


def test_letters_with_dots_are_found_as_one_word(films: Index) -> None:
    assert films.search(query="washington dc")["pagination"]["total"] > 20


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("davinci code", "The Da Vinci Code"),
        ("hitchhikers guide", "The Hitchhiker's Guide"),
        ("to kill a mocking bird", "To Kill a Mockingbird"),
    ],
)
def test_book_is_first_however_its_title_is_spaced(books: Index, query: str, title: str) -> None:
    assert first(books, query)[0].startswith(title)


def test_initials_are_found_without_dots(books: Index) -> None:
    for query, author in [("cs lewis", "C.S. Lewis"), ("jrr tolkien", "J.R.R. Tolkien")]:
        hits = books.search(query=query)["data"]["items"]
        assert hits
        assert all(author in item["authors"] for item in hits[:5])


@pytest.mark.parametrize(
    ("query", "is_right"),
    [
        ("hp364", lambda title: "HP 364" in title),
        ("usb2.0 hub", lambda title: "Hub" in title),
        ("lap top", lambda title: "laptop" in title.lower()),
    ],
)
def test_product_is_first_however_its_name_is_spaced(
    products: Index, query: str, is_right: Callable[[str], bool]
) -> None:
    assert all(map(is_right, first(products, query, 3)))


def test_wifi_finds_what_wi_fi_finds(products: Index) -> None:
    totals = [
        products.search(query=query)["pagination"]["total"] for query in ("wifi", "wi-fi", "wi fi")
    ]
    assert min(totals) > 300
