"""Vocabulary lookup: typos and prefixes, in process, without the rest of the service.

    python -m benchmarks.vocabulary_lookup --terms 500000

Terms are words of random syllables, as long as real words. Lookups are for words with one random
edit (typos 1; 2 for those of nine letters and more), beginnings of two letters and of four, and
half-typed words with one edit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import processes, results
from benchmarks.corpus import Shape, words
from benchmarks.queries import misspell
from benchmarks.truth import edits
from shard.segment.text.vocabulary import TERM_PADDING, Vocabulary, finish_vocabulary

TWO_TYPOS_LETTERS_MIN = 9


def build(terms: Sequence[str]) -> Vocabulary:
    """Make a vocabulary of terms."""
    encoded = sorted(term.encode() for term in terms)
    starts = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(term) for term in encoded], out=starts[1:])
    joined = np.frombuffer(bytearray(b"".join(encoded) + bytes(TERM_PADDING)), np.uint8)
    return Vocabulary(finish_vocabulary(joined, starts))


def time_each(ask: Callable[[str], object], asked: Sequence[str]) -> tuple[float, float]:
    """Return median and p99 of asking for each word once, in milliseconds."""
    times = []
    for word in asked:
        started = time.perf_counter()
        ask(word)
        times.append(1_000 * (time.perf_counter() - started))
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.99)]


def missed(vocabulary: Vocabulary, terms: frozenset[str], asked: Sequence[str]) -> int:
    """Count the terms one edit away that a lookup does not find."""
    count = 0
    for word in asked:
        found, _ = vocabulary.similar(word, 1, is_prefix=False)
        near = {vocabulary.term(int(ordinal)) for ordinal in found}
        count += len((edits(word, transposes=True) & terms) - near)
    return count


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="benchmarks.vocabulary_lookup")
    parser.add_argument("--terms", type=int, default=500_000)
    parser.add_argument("--words", type=int, default=1_000)
    options = parser.parse_args(arguments)
    machine = processes.machine()
    terms = words(replace(Shape(), num_words=options.terms))
    vocabulary = build(terms)
    known = frozenset(terms)
    rng = np.random.default_rng(11)
    asked = [misspell(terms[i], rng, known) for i in rng.integers(len(terms), size=options.words)]
    beginnings = [word[:2] for word in asked]
    longer = [word[:4] for word in asked]

    def similar(word: str) -> object:
        edits_max = 2 if len(word) >= TWO_TYPOS_LETTERS_MIN else 1
        return vocabulary.similar(word, edits_max, is_prefix=False)

    measured = {
        "typo, by length 1 or 2": time_each(similar, asked),
        "one typo": time_each(lambda w: vocabulary.similar(w, 1, is_prefix=False), asked),
        "two typos": time_each(lambda w: vocabulary.similar(w, 2, is_prefix=False), asked),
        "prefix of 2 letters": time_each(vocabulary.prefix_range, beginnings),
        "prefix of 4 letters": time_each(vocabulary.prefix_range, longer),
        "prefix with one typo": time_each(
            lambda w: vocabulary.similar(w[:-2], 1, is_prefix=True), asked
        ),
        "exact": time_each(vocabulary.find, asked),
    }
    rows: list[list[results.Cell]] = [[name, *times] for name, times in measured.items()]
    num_missed = missed(vocabulary, known, asked[:200])
    report = [
        f"{len(vocabulary):,} terms; {results.describe(machine)}",
        results.table(["lookup", "median ms", "p99 ms"], rows),
        f"Terms within one edit that were not found: {num_missed}",
    ]
    sys.stdout.write("\n\n".join(report) + "\n")
    raw = {name: {"median_ms": times[0], "p99_ms": times[1]} for name, times in measured.items()}
    return results.save(
        "vocabulary_lookup", {"machine": machine, "missed": num_missed, "lookups": raw}
    )


if __name__ == "__main__":
    main()
