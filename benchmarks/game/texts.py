"""The items of the game: one text each, the title and description of the corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import corpus
from benchmarks.corpus import Items, Shape, generate, words


def texts_of(items: Items) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the word numbers of all texts, one after the other, and the item of each."""
    numbers = np.arange(len(items))
    owners = np.concatenate(
        [
            np.repeat(numbers, np.diff(items.title_ends, prepend=0)),
            np.repeat(numbers, np.diff(items.description_ends, prepend=0)),
        ]
    )
    tokens = np.concatenate([items.title, items.description])
    order = np.argsort(owners, kind="stable")  # a title is in front of its description
    return tokens[order], owners[order]


def write_texts(shape: Shape, num_items: int) -> Path:
    """Write the items that all engines index, unless the file is there already."""
    path = corpus.path(shape, num_items)
    path = path.with_name(f"texts-{path.name}")
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = words(shape)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="ascii") as file:
        for items in generate(shape, num_items):
            tokens, owners = texts_of(items)
            typed = [vocabulary[number] for number in tokens.tolist()]
            ends = np.cumsum(np.bincount(owners, minlength=len(items))).tolist()
            for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                file.write(f'{{"id":{items.first_id + i},"text":"{" ".join(typed[start:end])}"}}\n')
    part.rename(path)
    return path
