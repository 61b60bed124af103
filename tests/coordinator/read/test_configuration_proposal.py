"""The configuration that is proposed for items, from their values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.configuration_proposal import propose, spread_pages

GENRES = ["Drama", "Comedy", "Crime"]


def films(number: int = 60) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "title": f"Film number {i}",
            "genre": GENRES[i % 3],
            "tags": [f"tag{i % 5}", f"tag{i % 7}"],
            "year": 1960 + i,
            "rating": 5 + i / 20,
            "stars": i % 5,
            "is_new": i % 2 == 0,
            "released": f"{1960 + i}-05-01",
            "poster": f"https://example.org/{i}.jpg",
            "plot": f"A long text about film {i}, with many words that are never chosen.",
            "studio": {"country": ["FR", "US"][i % 2]},
            "same": "everywhere",
        }
        for i in range(number)
    ]


def test_roles_follow_from_the_values() -> None:
    found = propose(films(), 60, {})
    assert {one["name"]: one["role"] for one in found["fields"]} == {
        "id": "key",
        "title": "title",
        "genre": "facet",
        "tags": "facet",
        "year": "range",
        "rating": "range",
        "stars": "facet",
        "is_new": "facet",
        "released": "range",
        "poster": "link",
        "plot": "text",
        "studio.country": "facet",
        "same": "key",
    }
    kinds = {one["name"]: one["kind"] for one in found["fields"]}
    assert kinds["released"] == "date"
    assert kinds["is_new"] == "boolean"
    assert found["ranges"] == {
        "year": {"interval": 10},
        "rating": {"interval": 0.5},
        "released": {"calendar": "year"},
    }


@pytest.mark.parametrize("value", [True, 7, 2.5, "EUR", ["new"], ["new", "new"], "Shop > Sale"])
def test_one_value_is_no_choice(value: Any) -> None:
    items = [{"id": i, "title": f"Lamp {i}", "one": value} for i in range(20)]
    assert "aggregations" not in propose(items, 20, {})["configuration"]
    assert "aggregations" not in propose(items[:1], 1, {})["configuration"]


@pytest.mark.parametrize("first", [100_000, "A"])
def test_the_column_that_the_ids_were_read_from_is_no_choice(first: Any) -> None:
    ids = [first + (i if isinstance(first, int) else str(i)) for i in range(40)]
    items = [
        {"id": one, "Artikel": one, "stock": i, "kind": "ab"[i % 2]} for i, one in enumerate(ids)
    ]
    found = propose(items, 40, {})
    assert {one["name"]: one["role"] for one in found["fields"]}["Artikel"] == "key"
    assert list(found["configuration"]["aggregations"]) == ["kind", "stock"]
    assert "Artikel" not in found["ranges"]


@pytest.mark.parametrize(("value", "is_facet"), [(True, True), (["new"], True), (7, False)])
def test_a_flag_that_some_items_have_is_a_choice(value: Any, is_facet: bool) -> None:
    items = [{"id": i, "title": f"Lamp {i}"} | ({"one": value} if i % 2 else {}) for i in range(20)]
    assert ("one" in propose(items, 20, {})["configuration"].get("aggregations", {})) is is_facet


def test_dates_are_a_facet_with_their_first_and_last_day() -> None:
    items = [{"id": i, "day": f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}"} for i in range(300)]
    found = propose(items, 300, {})
    assert list(found["configuration"]["aggregations"]) == ["day"]
    (day,) = (one for one in found["fields"] if one["name"] == "day")
    assert (day["values"], day["role"]) == (84, "range")
    assert (day["min"], day["max"]) == ("2024-01-01", "2024-12-28")


def test_paths_of_categories_are_a_tree() -> None:
    paths = ["Phones", "Phones > Cases", "Phones > Cases > " + "Leather, with a belt clip " * 4]
    items = [{"id": i, "category": paths[i % 3]} for i in range(30)]
    found = propose(items, 30, {})
    settings = found["configuration"]
    assert settings["hierarchies"] == {"category": {"path": "category", "separator": " > "}}
    assert not settings["aggregations"]["category"]["conjunction"]
    configuration, warnings = parse_configuration(settings, DEFAULT_LIMITS)
    assert warnings == []
    assert set(configuration.hierarchies) == {"category"}
    assert propose(items, 30, settings)["configuration"] == {}


def test_authors_are_a_facet_though_most_have_one_book() -> None:
    authors = [*(f"Author {i}" for i in range(120)), *["Prolific", "Busy"] * 50]
    items = [{"id": i, "title": f"Book {i}", "author": one} for i, one in enumerate(authors)]
    assert list(propose(items, 10_000, {})["configuration"]["aggregations"]) == ["author"]


@pytest.mark.parametrize("name", ["Bezeichnung", "titre", "Nombre", "Tytuł"])
def test_a_title_may_be_called_so_in_another_language(name: str) -> None:
    items = [
        {"id": i, "economy": f"About {i} things", name: "Lampe" if i % 2 else f"Lampe {i}"}
        for i in range(100)
    ]
    found = propose(items, 100, {})
    assert found["configuration"]["searchable_fields"][0] == f"{name}^3"
    (title,) = (one for one in found["fields"] if one["role"] == "title")
    assert title["name"] == name


def test_a_title_stays_one_though_some_works_are_untitled() -> None:
    items = [{"id": i, "title": "Untitled" if i % 2 else f"Work {i}"} for i in range(100)]
    found = propose(items, 100, {})
    (title,) = (one for one in found["fields"] if one["name"] == "title")
    assert title["role"] == "title"


def test_one_long_value_takes_no_facet_away() -> None:
    licences = ["MIT", "BSD"] * 100 + ["The licence of this software, in many words " * 9]
    items = [{"id": i, "licence": one} for i, one in enumerate(licences)]
    assert list(propose(items, 201, {})["configuration"]["aggregations"]) == ["licence"]


def test_two_numbers_are_not_a_range() -> None:
    items: list[dict[str, Any]] = [{"id": i, "name": f"Item {i}"} for i in range(20)]
    items[3]["position"], items[7]["position"] = 1, 2
    assert "aggregations" not in propose(items, 20, {})["configuration"]


def test_places_are_neither_searched_nor_counted() -> None:
    items = [{"id": i, "latitude": i / 7, "_geo": {"lat": i / 7, "lng": i / 9}} for i in range(90)]
    found = propose(items, 90, {})
    assert {one["name"]: one["role"] for one in found["fields"]} == {
        "id": "key",
        "latitude": "place",
        "_geo.lat": "place",
        "_geo.lng": "place",
    }
    assert not found["configuration"].get("aggregations")
    assert found["ranges"] == {}


COUNTRIES = {"AT": "Austria", "DE": "Germany", "FR": "France", "IT": "Italy"}


def places(number: int) -> list[dict[str, Any]]:
    codes = list(COUNTRIES)
    return [
        {
            "id": i,
            "country_code": codes[i % 4],
            "country": COUNTRIES[codes[i % 4]],
            "country_id": 40 + i % 4,
            "kind": ["city", "town", "village"][i % 3],
            "is_old": i % 2 == 0,
            "side": "north" if i % 2 == 0 else "south",
        }
        for i in range(number)
    ]


def test_of_a_name_and_its_codes_the_name_is_proposed() -> None:
    found = propose(places(60), 60, {})
    assert list(found["configuration"]["aggregations"]) == ["country", "kind", "is_old", "side"]
    codes = {one["name"] for one in found["fields"] if one["role"] == "code"}
    assert codes == {"country_code", "country_id"}


def test_a_name_is_not_proposed_beside_its_configured_code() -> None:
    document: dict[str, Any] = {"aggregations": {"country_code": {}}}
    found = propose(places(60), 60, document)
    assert list(found["configuration"]["aggregations"]) == ["kind", "is_old", "side"]


def test_one_item_that_differs_makes_two_facets() -> None:
    items = places(60)
    items[59]["country"] = "Austria"  # whose code is IT
    found = propose(items, 60, {})["configuration"]["aggregations"]
    assert {"country", "country_code"} <= set(found)
    assert "country_id" not in found
    del items[59]["country"]  # the code divides items that have no name
    found = propose(items, 60, {})["configuration"]["aggregations"]
    assert {"country", "country_code"} <= set(found)


def test_of_lists_and_their_codes_the_names_are_proposed() -> None:
    codes = list(COUNTRIES)
    items: list[dict[str, Any]] = []
    for i in range(60):
        of_item = [codes[i % 4], codes[i // 4 % 4]][: 1 + (i % 4 != i // 4 % 4)]
        names = [COUNTRIES[code] for code in of_item]
        items.append({"id": i, "codes": of_item, "names": names, "artist": str(i % 5)})
        items[-1]["artists"] = [items[-1]["artist"]]
    found = propose(items, 60, {})["configuration"]["aggregations"]
    assert list(found) == ["names", "artists"]
    items[7]["codes"] = items[7]["codes"][:1]
    found = propose(items, 60, {})["configuration"]["aggregations"]
    assert set(found) == {"codes", "names", "artists"}


def test_objects_of_degrees_are_a_geo_field() -> None:
    items = [{"id": i, "shop": {"at": {"lat": i - 45, "lng": i * 2}}} for i in range(90)]
    settings = propose(items, 90, {})["configuration"]
    assert settings == {"geo_fields": ["shop.at"]}
    configuration, warnings = parse_configuration(settings, DEFAULT_LIMITS)
    assert (configuration.geo_fields, warnings) == (("shop.at",), [])
    assert propose(items, 90, settings)["configuration"] == {}
    with_point = [{**item, "_geo": {"lat": 1, "lng": 2}} for item in items]
    assert "geo_fields" not in propose(with_point, 90, {})["configuration"]
    for wrong in ({"lat": 91, "lng": 0}, {"lat": 1}, {"lat": "1", "lng": 0}):
        other = [*items, {"id": 90, "shop": {"at": wrong}}]
        assert "geo_fields" not in propose(other, 91, {})["configuration"]


def test_what_is_proposed_is_a_valid_configuration_and_search() -> None:
    found = propose(films(), 60, {})
    configuration, warnings = parse_configuration(found["configuration"], DEFAULT_LIMITS)
    assert warnings == []
    facets = configuration.facets
    assert set(facets) == {
        *("genre", "tags", "stars", "is_new", "studio.country", "year", "rating", "released")
    }
    assert all(facet.hide_zero for facet in facets.values())
    assert facets["tags"].conjunction
    assert not facets["genre"].conjunction
    assert facets["rating"].show_facet_stats
    assert found["configuration"]["searchable_fields"][0] == "title^3"
    assert "poster" not in found["configuration"]["searchable_fields"]
    parse_search({"facet_ranges": found["ranges"]}, configuration, DEFAULT_LIMITS)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("poster", "https://example.org/{}.jpg"),
        ("front", "https://example.org/{}.webp?w=300"),
        ("front", "/pictures/{}.PNG"),
        ("image_url", "https://images.example.org/{}"),
        ("thumbnail", "https://images.example.org/{}"),
    ],
)
def test_pictures_are_shown(name: str, address: str) -> None:
    items = [{"id": i, name: address.format(i), "url": f"https://a.org/{i}"} for i in range(9)]
    found = propose(items, 9, {})
    assert found["configuration"]["display"] == {"image": name}
    configuration, warnings = parse_configuration(found["configuration"], DEFAULT_LIMITS)
    assert (configuration.display, warnings) == ({"image": name}, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "https://example.org/{}"),
        ("image", "picture {}"),
        ("file", "picture-{}.jpg"),  # no address
        ("image_page", "https://example.org/{}.html"),
    ],
)
def test_other_links_are_no_pictures(name: str, value: str) -> None:
    items = [{"id": i, name: value.format(i)} for i in range(9)]
    assert "display" not in propose(items, 9, {})["configuration"]


def test_what_is_configured_is_not_proposed_again() -> None:
    document = propose(films(), 60, {})["configuration"]
    assert propose(films(), 60, document)["configuration"] == {}


def test_nothing_is_proposed_for_nothing() -> None:
    found = propose([], 0, {})
    assert (found["fields"], found["configuration"], found["ranges"]) == ([], {}, {})


_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=4), _VALUES, max_size=4), max_size=12))
def test_any_items_give_a_valid_proposal(items: list[dict[str, Any]]) -> None:
    found = propose(items, len(items), {})
    names = [one["name"] for one in found["fields"]]
    configuration, _ = parse_configuration(found["configuration"], DEFAULT_LIMITS)
    assert set(configuration.facets) <= set(names)
    parse_search({"facet_ranges": found["ranges"]}, configuration, DEFAULT_LIMITS)


def test_pages_are_spread_over_the_whole() -> None:
    assert list(spread_pages(45, 10, 20)) == [1, 2, 3, 4, 5]
    pages = list(spread_pages(1_000_000, 100, 20))
    assert len(pages) == 20
    assert pages[0] == 1
    assert 9_000 < pages[-1] <= 10_000
