"""How well facetd ranks: judged collections, over HTTP, beside published baselines.

    python -m benchmarks.relevance                          starts facetd on an empty folder
    python -m benchmarks.relevance --port 3000              uses the one that runs there
    python -m benchmarks.relevance --sets scifact,xquad --no-typos

Reads the sets from `../shared/data` beside the checkout (or --data). Every set is loaded into an
index of its own with its language and text fields, nothing else: one set of ranking parameters for
all. Queries go with `match: any` and as they are; 1,000 results each. Then once more with one
random edit (seeded) in each word of five letters or more, and once with the last word cut to three
to five letters, as if the user were still typing. The baselines are Lucene's BM25.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes, results
from benchmarks.http_client import JSON, TEXT, HttpClient
from benchmarks.processes import Running
from benchmarks.queries import TYPO_LETTERS_MIN, misspell
from benchmarks.ranking_measures import Grades, evaluate

DATA = processes.REPOSITORY.parent / "shared" / "data"
NUM_RESULTS = 1_000
SEED = 20_261_120


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """One collection: what to search in, and what Lucene's BM25 reaches."""

    name: str
    fields: tuple[str, ...]
    baseline: Mapping[str, float]
    target: tuple[str, float]
    typo_share: float = 0.88
    """How much of nDCG@10 should be kept with typos."""
    cut_share: float = 0.85
    """How much of nDCG@10 should be kept with the last word half typed."""
    configuration: Mapping[str, Any] = field(default_factory=lambda: {"language": "english"})


SETS = (
    JudgedSet(
        name="scifact",
        fields=("title", "abstract"),
        baseline={
            "ndcg@10": 0.6789,
            "map": 0.6401,
            "p@10": 0.0883,
            "mrr": 0.6506,
            "recall@100": 0.9253,
        },
        target=("ndcg@10", 0.695),
        typo_share=0.95,
    ),
    JudgedSet(
        name="cacm",
        fields=("title", "abstract"),
        baseline={
            "ndcg@10": 0.4709,
            "map": 0.3251,
            "p@10": 0.3250,
            "mrr": 0.6885,
            "recall@100": 0.6405,
        },
        target=("map", 0.340),
    ),
    JudgedSet(
        name="vaswani",
        fields=("text",),
        baseline={
            "ndcg@10": 0.4368,
            "map": 0.2856,
            "p@10": 0.3624,
            "mrr": 0.6802,
            "recall@100": 0.6186,
        },
        target=("map", 0.293),
    ),
    JudgedSet(
        name="icecat-products",
        fields=("title", "description", "brand"),
        baseline={
            "ndcg@10": 0.6382,
            "map": 0.5946,
            "p@10": 0.4726,
            "mrr": 0.7067,
            "recall@100": 0.7532,
        },
        target=("ndcg@10", 0.660),
    ),
)

XQUAD_RECALL_AT_1 = {
    "ar": 0.8882,
    "de": 0.8992,
    "el": 0.8538,
    "en": 0.9303,
    "es": 0.9185,
    "hi": 0.9092,
    "ro": 0.8664,
    "ru": 0.9151,
    "th": 0.9168,
    "tr": 0.8916,
    "vi": 0.9076,
    "zh": 0.9336,
}
"""Language to the baseline's recall@1."""

CUT_LETTERS = (3, 4, 5)
"""Of the last word, when it is half typed."""

UNSTEMMED = frozenset({"th", "vi", "zh"})
"""Languages without a Snowball stemmer."""


class NoData(Exception):
    """The judged sets are not where they were looked for."""


# --- reading


def read_items(folder: Path) -> bytes:
    """Return the items as newline-delimited JSON."""
    with gzip.open(folder / "items.ndjson.gz") as file:
        return file.read()


def read_queries(folder: Path) -> dict[str, str]:
    """Return query texts by query."""
    return dict(
        line.split("\t", 1)
        for line in (folder / "queries.tsv").read_text(encoding="utf-8").splitlines()
        if line
    )


def read_judgments(folder: Path) -> dict[str, dict[str, int]]:
    """Return grades by query and item."""
    judgments: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        if line:
            query, _, item, grade = line.split("\t")
            judgments.setdefault(query, {})[item] = int(grade)
    return judgments


def with_typos(text: str, rng: np.random.Generator) -> str:
    """Make one random edit in each word of five letters or more; digits keep a word as it is."""
    words = []
    for word in text.split():
        is_long = len(word) >= TYPO_LETTERS_MIN and word.isalpha()
        words.append(misspell(word, rng, frozenset(), transposes=True) if is_long else word)
    return " ".join(words)


def with_last_word_cut(text: str, rng: np.random.Generator) -> str:
    """Leave three to five letters of the last word; a word that is not longer stays whole."""
    *words, last = text.split()
    return " ".join([*words, last[: int(rng.choice(CUT_LETTERS))]])


# --- asking


class Searcher:
    """A running facetd."""

    def __init__(self, port: int) -> None:
        self.client = HttpClient(port)

    def load(self, index: str, configuration: Mapping[str, Any], items: bytes) -> None:
        """Recreate an index."""
        self.client.request("DELETE", f"/{index}")
        body = json.dumps(configuration).encode()
        self.client.ask("POST", f"/{index}/configuration", body, JSON)
        self.client.ask("POST", f"/{index}/index", items, TEXT)

    def drop(self, index: str) -> None:
        """Remove an index."""
        self.client.request("DELETE", f"/{index}")

    def rank(self, index: str, text: str, options: Mapping[str, Any]) -> list[str]:
        """Return the ids of the best items."""
        wanted = {
            "query": text,
            "match": "any",
            "per_page": NUM_RESULTS,
            "fields": ["id"],
            "facet_fields": [],
            **options,
        }
        body = json.dumps(wanted, ensure_ascii=False).encode()
        answer = json.loads(self.client.ask("POST", f"/{index}/search", body, JSON))
        return [str(item["id"]) for item in answer["data"]["items"]]

    def measure(
        self,
        index: str,
        queries: Mapping[str, str],
        judgments: Mapping[str, Grades],
        options: Mapping[str, Any],
    ) -> dict[str, float]:
        """Run all judged queries and return the means."""
        runs = {
            query: self.rank(index, text, options)
            for query, text in queries.items()
            if query in judgments
        }
        return evaluate(runs, judgments)


@contextmanager
def serving(port: int | None, num_shards: int) -> Iterator[Searcher]:
    """Use a running facetd, or start one on a folder that is thrown away."""
    if port is not None:
        searcher = Searcher(port)
        yield searcher
        searcher.client.close()
        return
    with tempfile.TemporaryDirectory(prefix="facetd-relevance-") as folder:
        port = processes.free_port()
        command = [
            *(processes.python(), "-m", "coordinator", "serve", "--port", str(port)),
            *("--shards", str(num_shards), "--data-dir", folder),
        ]
        searcher = Searcher(port)
        with Running(command, processes.home() / "logs" / "relevance.txt") as running:
            running.wait_until(lambda: searcher.client.request("GET", "/_ready")[0] == 200)
            yield searcher
            searcher.client.close()


# --- the report


def measure_set(
    searcher: Searcher, data: Path, judged: JudgedSet, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Load a set and measure it as typed and with typos."""
    folder = data / judged.name
    queries, judgments = read_queries(folder), read_judgments(folder)
    index = f"relevance-{judged.name}"
    configuration = {**judged.configuration, "searchable_fields": list(judged.fields)}
    configuration.update(json.loads(options.configuration))
    searcher.load(index, configuration, read_items(folder))
    asked = json.loads(options.parameters)
    measured = {"as typed": searcher.measure(index, queries, judgments, asked)}
    if not options.no_typos:
        rng = np.random.default_rng([SEED, options.seed])
        mistyped = {query: with_typos(text, rng) for query, text in queries.items()}
        measured["with typos"] = searcher.measure(index, mistyped, judgments, asked)
    if not options.no_cut:
        rng = np.random.default_rng([SEED, 1, options.seed])
        cut = {query: with_last_word_cut(text, rng) for query, text in queries.items()}
        asked = {"prefix": "last", **asked}
        measured["last word cut"] = searcher.measure(index, cut, judgments, asked)
    searcher.drop(index)
    return measured


def measure_xquad(
    searcher: Searcher, data: Path, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Measure question answering in twelve languages, an index each."""
    folder = data / "xquad"
    items = read_items(folder).splitlines(keepends=True)
    queries, judgments = read_queries(folder), read_judgments(folder)
    measured = {}
    for language in XQUAD_RECALL_AT_1:
        index = f"relevance-xquad-{language}"
        configuration: dict[str, Any] = {"searchable_fields": ["text"]}
        if language not in UNSTEMMED:
            configuration["language"] = language
        configuration.update(json.loads(options.configuration))
        own = [line for line in items if json.loads(line)["language"] == language]
        searcher.load(index, configuration, b"".join(own))
        mark = f"{language}-"
        measured[language] = searcher.measure(
            index,
            {query: text for query, text in queries.items() if query.startswith(mark)},
            {query: grades for query, grades in judgments.items() if query.startswith(mark)},
            json.loads(options.parameters),
        )
        searcher.drop(index)
    return measured


def table_of_sets(measured: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the table of the judged sets."""
    names = ["ndcg@10", "map", "p@10", "mrr", "recall@100"]
    rows: list[list[results.Cell]] = []
    for judged in SETS:
        if judged.name not in measured:
            continue
        found = measured[judged.name]
        rows.append([judged.name, "Lucene BM25", *(judged.baseline[n] for n in names), ""])
        typed = found["as typed"]
        measure, wanted = judged.target
        verdict = f"{measure} ≥ {wanted}: {'yes' if typed[measure] >= wanted else 'NO'}"
        rows.append([judged.name, "facetd", *(typed[n] for n in names), verdict])
        for kind, least in (
            ("with typos", judged.typo_share),
            ("last word cut", judged.cut_share),
        ):
            if kind in found:
                changed = found[kind]
                share = changed["ndcg@10"] / typed["ndcg@10"] if typed["ndcg@10"] else 0.0
                verdict = f"keeps {share:.1%} of ndcg@10, ≥ {least:.0%}: "
                verdict += "yes" if share >= least else "NO"
                rows.append([judged.name, f"facetd, {kind}", *(changed[n] for n in names), verdict])
    return results.table(["set", "system", *names, "target"], _four_digits(rows))


def table_of_languages(measured: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of xquad."""
    rows: list[list[results.Cell]] = []
    for language, baseline in XQUAD_RECALL_AT_1.items():
        found = measured[language]
        difference = found["recall@1"] - baseline
        rows.append([language, baseline, found["recall@1"], f"{difference:+.4f}", found["mrr"]])
    head = ["xquad", "Lucene recall@1", "facetd recall@1", "difference", "facetd mrr"]
    return results.table(head, _four_digits(rows))


def _four_digits(rows: Sequence[Sequence[results.Cell]]) -> list[list[results.Cell]]:
    return [[f"{c:.4f}" if isinstance(c, float) else c for c in row] for row in rows]


def parser_of_sets(program: str, names: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of a program that loads data sets into facetd, with these by default."""
    made = argparse.ArgumentParser(prog=program)
    made.add_argument("--data", type=Path, default=DATA)
    made.add_argument("--sets", default=",".join(names))
    made.add_argument("--port", type=int, help="of a running facetd (default: start one)")
    made.add_argument("--shards", type=int, default=2)
    made.add_argument("--configuration", default="{}", help="JSON, added to every index's")
    made.add_argument("--parameters", default="{}", help="JSON, added to every search's")
    return made


def begin(options: argparse.Namespace) -> dict[str, str]:
    """Check that the sets are there; say and return what they are measured on.

    Raises:
        NoData: a set is missing.
    """
    for name in options.sets.split(","):
        if not (options.data / name / "items.ndjson.gz").exists():
            raise NoData(f"no set {name!r} in {options.data}; --data names the folder")
    machine = processes.machine()
    sys.stdout.write(results.describe(machine) + "\n\n")
    return machine


def save(
    name: str, machine: Mapping[str, str], options: argparse.Namespace, measured: Mapping[str, Any]
) -> Path:
    """Save the measurements with their parameters."""
    asked = {name: str(value) for name, value in vars(options).items() if name != "data"}
    return results.save(name, {"machine": machine, "options": asked, "sets": measured})


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = parser_of_sets("benchmarks.relevance", [*(s.name for s in SETS), "xquad"])
    made.add_argument("--seed", type=int, default=0, help="of the typos and cuts")
    made.add_argument("--no-typos", action="store_true")
    made.add_argument("--no-cut", action="store_true", help="do not cut the last words")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    options = parser().parse_args(arguments)
    wanted = options.sets.split(",")
    machine = begin(options)
    measured: dict[str, Any] = {}
    with serving(options.port, options.shards) as searcher:
        for judged in SETS:
            if judged.name in wanted:
                measured[judged.name] = measure_set(searcher, options.data, judged, options)
        if measured:
            sys.stdout.write(table_of_sets(measured) + "\n\n")
            sys.stdout.flush()
        if "xquad" in wanted:
            measured["xquad"] = measure_xquad(searcher, options.data, options)
            sys.stdout.write(table_of_languages(measured["xquad"]) + "\n")
    return save("relevance", machine, options, measured)


if __name__ == "__main__":
    try:
        main()
    except NoData as no_data:
        sys.exit(str(no_data))
