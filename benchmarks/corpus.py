"""A made-up shop: seeded items of the kind that search engines are used for.

    title 3-8 words, description 20-60 words    50,000 words, Zipf-Mandelbrot
    brand 5,000  category 200  country 100      one each, Zipf
    tags 2,000                                  1-6 each, Zipf
    price  rating  year  in_stock               numbers and a boolean

The words let every engine see the same terms, so that totals and facet counts can be compared: a
word is two to four open syllables and a final "x", a letter that stands nowhere else. So none is a
prefix of another, no stemmer changes one and none is a stop word. Block b of 50,000 items depends
on the seed and b only, so a smaller corpus is a prefix of a larger one.

    python -m benchmarks.corpus 100000 > items.ndjson
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import processes

BLOCK_ITEMS = 50_000
FACETS = ("brand", "category", "country", "tags")

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"
_SYLLABLES = tuple(c + v for c in _CONSONANTS for v in _VOWELS)
_WORDS_BY_SYLLABLES = {2: 0.1, 3: 0.7, 4: 0.2}
"""Shares of the vocabulary."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a corpus is drawn from; two corpora of one shape and seed are the same."""

    seed: int = 20_261_119
    num_words: int = 50_000
    num_brands: int = 5_000
    num_categories: int = 200
    num_tags: int = 2_000
    num_countries: int = 100

    def values(self, facet: str) -> tuple[str, ...]:
        """Return the values of a facet, most frequent first."""
        count, stem = {
            "brand": (self.num_brands, "brand"),
            "category": (self.num_categories, "cat"),
            "tags": (self.num_tags, "tag"),
            "country": (self.num_countries, "land"),
        }[facet]
        return _numbered(stem, count)


@cache
def _numbered(stem: str, count: int) -> tuple[str, ...]:
    width = len(str(count - 1))
    return tuple(f"{stem}{i:0{width}d}" for i in range(count))


@cache
def words(shape: Shape) -> tuple[str, ...]:
    """Return the vocabulary, most frequent first: short words tend to be frequent."""
    rng = np.random.default_rng([shape.seed, 1])
    made: list[str] = []
    ranks: list[NDArray[np.float64]] = []
    left = shape.num_words
    for num_syllables, share in _WORDS_BY_SYLLABLES.items():
        possible = len(_SYLLABLES) ** num_syllables
        count = min(int(shape.num_words * share), possible)
        if num_syllables == max(_WORDS_BY_SYLLABLES):
            count = left
        left -= count
        for number in _distinct(rng, possible, count).tolist():
            syllables = []
            for _ in range(num_syllables):
                number, syllable = divmod(number, len(_SYLLABLES))
                syllables.append(_SYLLABLES[syllable])
            made.append("".join(syllables) + "x")
        ranks.append(num_syllables + rng.normal(0, 0.8, count))
    return tuple(made[i] for i in np.argsort(np.concatenate(ranks), kind="stable").tolist())


def _distinct(rng: np.random.Generator, possible: int, count: int) -> Numbers:
    """Draw `count` different numbers below `possible`, in random order."""
    if possible < 4 * count:
        return rng.permutation(possible)[:count]
    drawn = np.unique(rng.integers(0, possible, 2 * count))
    return rng.permutation(drawn)[:count]


@dataclass(frozen=True, slots=True)
class Items:
    """Columns of consecutive items. `*_ends[i]` is where item i's entries in a column end."""

    first_id: int
    title: Numbers
    """Word numbers of all titles, one after the other."""
    title_ends: Numbers
    description: Numbers
    description_ends: Numbers
    tags: Numbers
    """Tag numbers, different ones within an item."""
    tags_ends: Numbers
    brand: Numbers
    category: Numbers
    country: Numbers
    price: NDArray[np.float64]
    rating: NDArray[np.float64]
    year: Numbers
    in_stock: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.price)

    def first(self, count: int) -> Items:
        """Return the first items only."""
        if count >= len(self):
            return self
        ends = {
            name: int(getattr(self, f"{name}_ends")[count - 1]) if count else 0
            for name in ("title", "description", "tags")
        }
        columns: dict[str, Any] = {
            name: getattr(self, name)[: ends.get(name, count)]
            for name in self.__slots__
            if name != "first_id"
        }
        return Items(first_id=self.first_id, **columns)


def _cumulated(count: int, exponent: float, offset: float) -> NDArray[np.float64]:
    """Return the distribution function of a Zipf-Mandelbrot law."""
    weights = 1.0 / (np.arange(count) + 1.0 + offset) ** exponent
    return np.cumsum(weights / weights.sum())


@lru_cache(maxsize=1)
def block(shape: Shape, number: int) -> Items:
    """Draw the items of one block; small corpora need the first one repeatedly."""
    rng = np.random.default_rng([shape.seed, 2, number])
    n = BLOCK_ITEMS

    def draw(law: NDArray[np.float64], count: int) -> Numbers:
        return np.minimum(np.searchsorted(law, rng.random(count)), len(law) - 1).astype(np.int64)

    word_law = _cumulated(shape.num_words, 1.0, 10)
    title_ends = np.cumsum(rng.integers(3, 9, n))
    description_ends = np.cumsum(rng.integers(20, 61, n))
    tag_counts = rng.integers(1, 7, n)
    drawn_tags = draw(_cumulated(shape.num_tags, 0.9, 2), int(tag_counts.sum()))
    tags, tags_ends = _without_repeats(drawn_tags, np.repeat(np.arange(n), tag_counts), n)
    return Items(
        first_id=number * BLOCK_ITEMS + 1,
        title=draw(word_law, int(title_ends[-1])),
        title_ends=title_ends,
        description=draw(word_law, int(description_ends[-1])),
        description_ends=description_ends,
        tags=tags,
        tags_ends=tags_ends,
        brand=draw(_cumulated(shape.num_brands, 0.8, 2), n),
        category=draw(_cumulated(shape.num_categories, 0.7, 1), n),
        country=draw(_cumulated(shape.num_countries, 0.8, 1), n),
        price=np.exp(rng.normal(3.5, 1.1, n)).astype(np.float64).round(2),
        rating=rng.normal(3.8, 0.8, n).astype(np.float64).clip(1, 5).round(1),
        year=2026 - np.minimum(rng.geometric(0.12, n), 40),
        in_stock=rng.random(n) < 0.8,
    )


def _without_repeats(values: Numbers, owners: Numbers, num_owners: int) -> tuple[Numbers, Numbers]:
    """Drop repeated values of one owner, keeping the first; return values and ends."""
    order = np.lexsort((np.arange(len(values)), values, owners))
    is_first = np.ones(len(values), bool)
    same = (values[order][1:] == values[order][:-1]) & (owners[order][1:] == owners[order][:-1])
    is_first[order[1:][same]] = False
    counts = np.bincount(owners[is_first], minlength=num_owners)
    return values[is_first], np.cumsum(counts)


def generate(shape: Shape, num_items: int) -> Iterator[Items]:
    """Draw the first `num_items` items, block by block."""
    for start in range(0, num_items, BLOCK_ITEMS):
        yield block(shape, start // BLOCK_ITEMS).first(num_items - start)


def lines(shape: Shape, items: Items) -> Iterator[str]:
    """Write items as JSON, one a line, without the line ends."""
    vocabulary = words(shape)
    brands, categories = shape.values("brand"), shape.values("category")
    countries = shape.values("country")
    quoted_tags = [f'"{tag}"' for tag in shape.values("tags")]
    title, description = items.title.tolist(), items.description.tolist()
    tag_numbers = items.tags.tolist()
    a = b = c = 0
    columns = (
        items.title_ends,
        items.description_ends,
        items.tags_ends,
        items.brand,
        items.category,
        items.country,
        items.price,
        items.rating,
        items.year,
        items.in_stock,
    )
    for i, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        a_end, b_end, c_end, brand, category, country, price, rating, year, in_stock = row
        yield (
            f'{{"id":{items.first_id + i},'
            f'"title":"{" ".join([vocabulary[w] for w in title[a:a_end]])}",'
            f'"description":"{" ".join([vocabulary[w] for w in description[b:b_end]])}",'
            f'"brand":"{brands[brand]}","category":"{categories[category]}",'
            f'"tags":[{",".join([quoted_tags[t] for t in tag_numbers[c:c_end]])}],'
            f'"country":"{countries[country]}","price":{price},"rating":{rating},'
            f'"year":{year},"in_stock":{"true" if in_stock else "false"}}}'
        )
        a, b, c = a_end, b_end, c_end


def path(shape: Shape, num_items: int) -> Path:
    """Return where the file of a corpus is kept."""
    numbers = "-".join(str(number) for number in (*astuple(shape), num_items))
    return processes.home() / "corpus" / f"{numbers}.ndjson"


def write(path: Path, shape: Shape, num_items: int) -> Path:
    """Write a corpus as newline-delimited JSON, unless the file is there already."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="ascii") as file:
        for items in generate(shape, num_items):
            file.writelines(line + "\n" for line in lines(shape, items))
    part.rename(path)
    return path


if __name__ == "__main__":
    for some_items in generate(Shape(), int(sys.argv[1])):
        sys.stdout.writelines(line + "\n" for line in lines(Shape(), some_items))
