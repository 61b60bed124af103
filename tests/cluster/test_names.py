"""A query that is a name finds what has that name first, then what the name begins."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from heapq import nlargest
from typing import Any

import msgspec
import pytest

from tests.cluster.conftest import (
    Index,
    Services,
    around,
    filled,
    index_of_set,
    lines_about,
    lines_of_set,
)
from tests.service import Client

LARGEST_MAX = 300
"""Cities that are asked for by name."""
PACKAGES = [
    {"id": 1, "name": "git-annex", "text": "git for files: git, git and again git"},
    {"id": 2, "name": "git", "text": "version control"},
    {"id": 3, "name": "gitk", "text": "graphical history"},
    {"id": 4, "name": "subversion", "text": "a control of versions that is not git"},
    {"id": 5, "name": "annex", "text": "an annex"},
    {"id": 6, "name": "Git Annex", "text": "nothing else"},
]


@pytest.fixture(scope="module")
def packages(client: Client) -> Iterator[Index]:
    """Read only."""
    searched = {"searchable_fields": ["name", "text"]}
    yield from filled(Index(client, "packages"), searched, PACKAGES)


def test_a_word_that_is_typed_counts_although_its_other_forms_are_everywhere(index: Index) -> None:
    index.configure({"searchable_fields": ["title", "text"], "language": "english"})
    titles = ["Star Wars", "War", "War Pigs", "War Nurse", "Prisoner of War", *["Peace"] * 15]
    texts = ["a star", *["a war, starring many"] * 4, *["starring few"] * 15]
    index.put(
        [
            {"id": i, "title": title, "text": text}
            for i, (title, text) in enumerate(zip(titles, texts, strict=True))
        ]
    )
    assert index.ids(query="star war")[0] == 0


def test_a_field_that_is_the_query_comes_first(packages: Index) -> None:
    assert packages.ids(query="git")[0] == 2
    assert packages.ids(query='"git"')[0] == 2
    assert packages.ids(query="git annex")[0] in (1, 6)
    assert packages.ids(query="annex")[0] == 5


def test_an_article_in_front_does_not_count(index: Index) -> None:
    index.configure({"searchable_fields": ["title", "text"]})
    texts = ["godfather", "godfather, the godfather and a godfather"]
    titles = ["The Godfather", "Disco Godfather", "An Ox", "Ox Tale"]
    index.put([{"id": i, "title": one, "text": texts[i % 2]} for i, one in enumerate(titles)])
    assert index.ids(query="godfather")[0] == 0
    assert index.ids(query="ox")[0] == 2
    assert index.ids(query="godfather disco") == [1]


def test_a_whole_field_is_explained(packages: Index) -> None:
    best, *others = packages.search(query="git", show=["score_details"])["data"]["items"]
    parts = [part["kind"] for part in best["_score_details"]["parts"]]
    assert parts == ["word", "whole field"]
    assert others
    assert all(
        part["kind"] != "whole field" for one in others for part in one["_score_details"]["parts"]
    )
    for hit in (best, *others):
        assert hit["_score"] == hit["_score_details"]["score"]


def test_only_searched_fields_count_as_whole(packages: Index) -> None:
    answer = packages.search(query="git", search_fields=["text"], show=["score_details"])
    hits = answer["data"]["items"]
    assert hits
    for hit in hits:
        assert all(part["kind"] != "whole field" for part in hit["_score_details"]["parts"])


def test_what_a_whole_word_begins_is_ranked_near_it(packages: Index) -> None:
    # As much as its name says it, although "git" itself is a word of the others.
    assert packages.ids(query="git").index(3) < packages.ids(query="git").index(4)
    hit = packages.search(
        query="git", filters={"id": [3]}, show=["score_details"], highlight="name"
    )
    (item,) = hit["data"]["items"]
    (word,) = (part for part in item["_score_details"]["parts"] if part["kind"] == "word")
    assert word["match"] == "typed"
    assert [one["match"] for one in word["occurrences"]] == ["completion"]
    assert item["_highlight"] == {"name": "<em>gitk</em>"}


def test_a_word_that_is_none_yet_keeps_its_tier(packages: Index) -> None:
    (hit, *_) = packages.search(query="subv", show=["score_details"])["data"]["items"]
    (word,) = (part for part in hit["_score_details"]["parts"] if part["kind"] == "word")
    assert (hit["id"], word["match"]) == (4, "prefix")


def test_other_forms_do_not_hide_what_a_half_typed_word_begins(index: Index) -> None:
    index.configure({"searchable_fields": ["name"], "language": "english"})
    names = ["Hard Case", *["A Case that is Hard"] * 15, "Hardshell Case"]
    index.put([{"id": i, "name": name} for i, name in enumerate(names)])
    for typed in ("case hard", "case hards", "case hardsh"):
        assert len(names) - 1 in index.ids(query=typed, per_page=3)


def test_pages_continue_each_other(packages: Index) -> None:
    whole = packages.ids(query="git", per_page=10)
    pages = [packages.ids(query="git", per_page=2, page=page) for page in (1, 2, 3)]
    assert [one for page in pages for one in page] == whole
    assert packages.ids(query="git", per_page=10, sort=["_score:asc"]) == whole[::-1]


# --- on the shared sets ---------------------------------------------------------------------------


def load(
    services: Services, name: str, configuration: dict[str, Any], lines: list[bytes] | None = None
) -> Iterator[Index]:
    return index_of_set(services, name, f"names-{name}", configuration, lines)


@pytest.fixture(scope="module")
def package_lines() -> list[bytes]:
    return lines_of_set("debian-packages")


@pytest.fixture(scope="module")
def debian(services: Services, package_lines: list[bytes]) -> Iterator[Index]:
    fields = ["name", "summary", "description"]
    configuration = {"searchable_fields": fields, "language": "english"}
    yield from load(services, "debian-packages", configuration, package_lines)


class City(msgspec.Struct):
    """What is asked for of a city."""

    id: str
    name: str
    alternate_names: list[str] = []
    population: int = 0


city_of = msgspec.json.Decoder(City).decode


@pytest.fixture(scope="module")
def city_lines() -> list[bytes]:
    return lines_of_set("geonames-cities")


@pytest.fixture(scope="module")
def largest_cities(city_lines: list[bytes]) -> list[City]:
    return nlargest(LARGEST_MAX, map(city_of, city_lines), key=lambda city: city.population)


@pytest.fixture(scope="module")
def cities(
    services: Services,
    city_lines: list[bytes],
    largest_cities: list[City],
    request: pytest.FixtureRequest,
) -> Iterator[Index]:
    """With `--long` all; else those that share a name with one that is asked for, and some."""
    configuration = {
        "searchable_fields": ["name", "alternate_names"],
        "boost": {"population": {"log": 0.3}},
    }
    asked = {"Paris", "Saint Paris", *(city.name for city in largest_cities)}

    def is_rival(line: bytes) -> bool:
        city = city_of(line)
        return city.name in asked or not asked.isdisjoint(city.alternate_names)

    is_whole = request.config.getoption("--long")
    lines = city_lines if is_whole else around(city_lines, is_rival)
    yield from load(services, "geonames-cities", configuration, lines)


FILMS_ASKED_FOR = ("Star Wars", "Wars", "Godfather", "Matrix", "Lion King", "Shining", "Tom Han")


@pytest.fixture(scope="module")
def film_lines(pytestconfig: pytest.Config) -> list[bytes]:
    return lines_about("wikipedia-movies", FILMS_ASKED_FOR, pytestconfig)


@pytest.fixture(scope="module")
def films(services: Services, film_lines: list[bytes]) -> Iterator[Index]:
    searched = {"searchable_fields": ["title", "extract", "cast"]}
    yield from load(services, "wikipedia-movies", searched, film_lines)


@pytest.mark.parametrize("count", [80, pytest.param(200, marks=pytest.mark.long)])
def test_exact_package_names_are_first(
    debian: Index, package_lines: list[bytes], count: int
) -> None:
    asked = [json.loads(line)["name"] for line in random.Random(11).sample(package_lines, count)]
    firsts = [
        debian.search(query=name, per_page=1, fields=["name"])["data"]["items"] for name in asked
    ]
    assert (
        sum(items == [{"name": name}] for items, name in zip(firsts, asked, strict=True))
        >= 0.95 * count
    )


@pytest.mark.parametrize("name", ["git", "redis", "vim"])
def test_well_known_packages_come_first_by_name(debian: Index, name: str) -> None:
    assert debian.search(query=name)["data"]["items"][0]["name"] == name


def test_the_name_that_a_word_begins_is_found(debian: Index) -> None:
    items = debian.search(query="apache", per_page=5)["data"]["items"]
    assert "apache2" in [item["name"] for item in items]


def test_another_first_letter_is_no_near_word(debian: Index) -> None:
    items = debian.search(query="router", per_page=200, typo="auto")["data"]["items"]
    assert items
    for item in items:
        words = " ".join([item["name"], item["summary"], item["description"]]).lower()
        assert "router" in words or "outer" not in words.split()


def test_symbols_are_no_open_prefix(debian: Index) -> None:
    letter = debian.search(query="c", prefix="none")["pagination"]["total"]
    for query in ("c++", "c#"):
        assert 0 < debian.search(query=query)["pagination"]["total"] < letter


@pytest.mark.parametrize("query", ["star war", "star wars"])
def test_a_half_typed_name_that_is_a_word_finds_the_name(films: Index, query: str) -> None:
    items = films.search(query=query, per_page=5)["data"]["items"]
    assert [item["title"] for item in items if "Star Wars" not in item["title"]] == []
    assert items


def test_it_is_found_with_stems_too(services: Services, film_lines: list[bytes]) -> None:
    """Most extracts say `starring`, which has the stem of `star`."""
    searched = {"searchable_fields": ["title", "extract", "cast"], "language": "english"}
    name = "names-stemmed-movies"
    for films in index_of_set(services, "wikipedia-movies", name, searched, film_lines):
        for query in ("star war", "star wars"):
            items = films.search(query=query, per_page=1)["data"]["items"]
            assert "Star Wars" in items[0]["title"]


@pytest.mark.parametrize("name", ["Godfather", "Matrix", "Lion King", "Shining"])
def test_a_title_without_its_article_is_found(films: Index, name: str) -> None:
    items = films.search(query=name.lower(), per_page=3)["data"]["items"]
    assert items[0]["title"] in (name, f"The {name}")


@pytest.mark.parametrize("query", ["tom hank", "tom hanks"])
def test_a_half_typed_actor_is_found(films: Index, query: str) -> None:
    items = films.search(query=query, per_page=5)["data"]["items"]
    assert [item["title"] for item in items if "Tom Hanks" not in item["cast"]] == []
    assert items


@pytest.mark.parametrize("count", [100, pytest.param(LARGEST_MAX, marks=pytest.mark.long)])
def test_the_largest_cities_are_first(
    cities: Index, largest_cities: list[City], count: int
) -> None:
    num_first = sum(
        cities.search(query=city.name, per_page=1)["data"]["items"][0]["id"] == city.id
        for city in largest_cities[:count]
    )
    assert num_first >= 0.95 * count


def test_a_city_comes_before_those_whose_name_contains_it(cities: Index) -> None:
    items = cities.search(query="paris", per_page=50)["data"]["items"]
    assert int(items[0]["population"]) > 2_000_000
    assert items[0]["name"] == "Paris"
    assert all(item["name"] != "Saint Paris" for item in items[:10])


# --- arrays, symbols, first letters ---------------------------------------------------------------


def test_many_alternative_names_do_not_bury_a_name(index: Index) -> None:
    index.configure({"searchable_fields": ["name", "alternate_names"]})
    others = [f"Sao Paulo {i} Piratininga" for i in range(12)]
    index.put(
        [
            {"id": "small", "name": "Frei Paulo", "alternate_names": ["Sao Paulo Velho"]},
            {"id": "large", "name": "São Paulo", "alternate_names": others},
        ]
    )
    assert index.ids(query="sao paulo") == ["large", "small"]


LANGUAGES = ["C", "C++ in depth", "C# 7", "The .NET framework", "asp.net", "net (fishing)", "F#"]


@pytest.fixture(scope="module")
def languages(client: Client) -> Iterator[Index]:
    """Read only."""
    items = [{"id": i, "name": name} for i, name in enumerate(LANGUAGES)]
    yield from filled(Index(client, "languages"), {"searchable_fields": ["name"]}, items)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("c++", ["C++ in depth"]),
        ("c#", ["C# 7"]),
        ("C#", ["C# 7"]),
        (".net", ["The .NET framework"]),
        ("f#", ["F#"]),
        ("c", ["C", "C# 7", "C++ in depth"]),
        ("net", ["The .NET framework", "asp.net", "net (fishing)"]),
        ("c++ depth", ["C++ in depth"]),
        ('"c# 7"', ["C# 7"]),
        ("j++", []),
        ("asp++", ["asp.net"]),
    ],
)
def test_symbols_make_words_of_their_own(languages: Index, query: str, found: list[str]) -> None:
    hits = [item["name"] for item in languages.search(query=query)["data"]["items"]]
    assert sorted(hits) == sorted(found)


def test_text_after_the_last_word_completes_it(packages: Index) -> None:
    assert 3 in packages.ids(query="git")
    assert 3 in packages.ids(query="git ")
    assert 3 in packages.ids(query="git-")
    for query in ("git!", "(git)", "git?"):
        assert 3 not in packages.ids(query=query)


def test_half_words_of_persian_are_words(index: Index) -> None:
    index.configure({"searchable_fields": ["t"]})
    index.put([{"id": 1, "t": "کتاب\u200cها"}, {"id": 2, "t": "co\u200cop"}])
    assert index.ids(query="کتاب", prefix="none") == [1]
    assert index.ids(query="کتاب ها") == [1]
    assert index.ids(query="coop") == [2]


def test_a_typo_in_the_first_letter_counts_as_two(index: Index) -> None:
    index.configure({"searchable_fields": ["t"]})
    texts = ["router", "outer", "rooter", "fishermen", "gishremen"]  # two edits, one the first
    index.put([{"id": text, "t": text} for text in texts])
    assert index.ids(query="router") == ["router", "rooter"]
    assert set(index.ids(query="eouter")) == {"router", "outer"}
    assert index.ids(query="fishermen") == ["fishermen"]
