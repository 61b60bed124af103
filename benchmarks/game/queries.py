"""Queries of the game: terms, intersections, unions and phrases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpus import Items, Shape, block, words
from benchmarks.peers.servers.game_player import GameQuery

RANKS_MAX = 2_000
"""Drawn words are as frequent as this rank at least."""

NUM_WORDS = (2, 3, 4, 5)

SHARES = (0.66, 0.27, 0.05, 0.02)


def draw_queries(shape: Shape, count: int, seed: int) -> list[GameQuery]:
    """Draw terms and, of each set of words, an intersection and a union; phrases from items."""
    rng = np.random.default_rng([shape.seed, 4, seed])
    vocabulary = words(shape)
    some = block(shape, 0)
    queries = []
    for _ in range(count):
        size = int(rng.choice(NUM_WORDS, p=SHARES))
        drawn: list[str] = []
        while len(drawn) < size:
            rank = int(math.exp(rng.uniform(0, math.log(min(RANKS_MAX, len(vocabulary)))))) - 1
            if vocabulary[rank] not in drawn:
                drawn.append(vocabulary[rank])
        queries += [GameQuery(kind, tuple(drawn)) for kind in ("intersection", "union")]
        queries.append(GameQuery("term", tuple(drawn[:1])))
        queries.append(GameQuery("phrase", _phrase_of(rng, some, vocabulary, size)))
    return list(dict.fromkeys(queries))


def _phrase_of(
    rng: np.random.Generator, items: Items, vocabulary: Sequence[str], size: int
) -> tuple[str, ...]:
    """Return neighbouring words of a description."""
    item = int(rng.integers(1, len(items)))
    start, end = items.description_ends[item - 1 : item + 1].tolist()
    first = int(rng.integers(start, end - size + 1))
    return tuple(vocabulary[number] for number in items.description[first : first + size].tolist())


def read_queries(path: Path, shape: Shape) -> tuple[list[GameQuery], int]:
    """Read a file of queries, words mapped by rank; returns how many are of other forms, too."""
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip()]
    texts = [row[1] if len(row) > 1 else row[0] for row in lines]
    parsed = [_parse(text.lower()) for text in texts]
    known = [one for one in parsed if one is not None]
    freqs = Counter(word for one in known for word in one.words)
    vocabulary = words(shape)
    stands_for = {word: vocabulary[i] for i, (word, _) in enumerate(freqs.most_common())}
    queries = [GameQuery(one.kind, tuple(stands_for[word] for word in one.words)) for one in known]
    return list(dict.fromkeys(queries)), len(parsed) - len(known)


def _parse(text: str) -> GameQuery | None:
    """Return a query of one form, None for one that mixes them."""
    if text.startswith('"') and text.endswith('"') and text.count('"') == 2:
        parts = text.strip('"').split()
        return GameQuery("phrase" if len(parts) > 1 else "term", tuple(parts))
    parts = text.split()
    if '"' in text or any(part.startswith("-") for part in parts):
        return None
    plain = tuple(dict.fromkeys(part.lstrip("+") for part in parts))
    if len(plain) == 1:
        return GameQuery("term", plain)
    marked = {part.startswith("+") for part in parts}
    if len(marked) > 1:
        return None
    return GameQuery("intersection" if marked == {True} else "union", plain)
