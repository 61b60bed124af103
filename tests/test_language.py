"""The house speaks the field's English: one definition a word, and no private dialect."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("common", "coordinator", "shard", "facetd")
SOURCES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / name for name in ("benchmarks/README.md", "deploy/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "shard").rglob("*.md")),
    *sorted((ROOT / "coordinator").rglob("*.md")),
]
TESTS = sorted(
    path
    for name in ("tests", "benchmarks")
    for path in (ROOT / name).rglob("*.py")
    if path != Path(__file__).resolve()
)
DIALECT = {
    r"\bbehind\b": "after, past, following; in the background",
    r"\bwish(es|ed)?\b": "background task; to schedule",
    r"\bhow-manieth\b": "rank",
    r"\bwhoever\b": "the actor: a client, a process, a host",
    r"\b(near|close)ness\b": "proximity",
    r"\bmemos?\b": "LRU cache",
    r"\btail segment\b": "open segment",
    r"\blets the n-th\b": "makes the n-th … fail",
    r"\bcurious\b|\bgrants? (the|a) wish": "to schedule",
    r"\b(no|some|any)body\b": "the actor: no client, another host, an operator",
    r"\b(again and again|round and round|over and over)\b": "repeatedly; in a loop; to poll",
    r"\bat (its|their) turn\b": "in order; when the entry is applied",
    r"\b(words?|parts|stand) side by side\b": "adjacent, next to each other",
    r"\bperhaps\b": "possibly, or a plain statement",
    r"\banew\b": "again; rebuilt, recomputed, redrawn",
    r"\blately\b": "recently",
    r"\bhow far (it|(this|the|a|an|each) \w+) (is|has come)\b": "its position, its progress",
    r"\bif it is none\b": "if it is invalid; if it is not a …",
    r"\bdoorman\b": "startup listener",
    r"\banalyser": "analyzer",
}
"""Private words, and what to say for them."""
_STANDARD = re.compile(
    r"\b(lag|left|leaves?|fall) behind|\bbehind (a|the|its|one|nginx|Caddy) ?(\w+ )?"
    r"(prox|HTTP|balancer)|\bbehind (that proxy|a firewall|the real nginx)|\bBehind a proxy"
    r"|leaves behind"
    r"|(?-i:\b(ANY|NO)BODY\b)",
    re.IGNORECASE,
)
"""Uses of these words that are everyone's."""
_SUSPECT = re.compile("|".join(DIALECT), re.IGNORECASE)
"""Finds a text with some private word, standard uses included, in one pass."""
CLASS_NAMES = (
    *("Exchange", "Answer", "Memo", "Wish", "Tail", "Manager", "Helper", "Util"),
    *("Answers", "Beginning", "Surroundings"),
)
"""Beginnings and ends that classes and types of this house do not have."""


def test_no_private_dialect() -> None:
    found = {path: private_words(path.read_text()) for path in [*SOURCES, *DOCUMENTS]}
    assert {str(path): words for path, words in found.items() if words} == {}


def private_words(text: str) -> list[str]:
    """Return the private words of a text, each with what to say for it."""
    if not _SUSPECT.search(text):
        return []
    text = _STANDARD.sub("", text)
    return [
        f"{match[0]!r}: say {better}"
        for word, better in DIALECT.items()
        for match in re.finditer(word, text, re.IGNORECASE)
    ]


def prose_of(path: Path) -> str:
    """Return the comments, docstrings and function names of a file: what a test's author wrote.

    The other texts of a test are data of users, who may call an item what they like.
    """
    content = path.read_text()
    tree = ast.parse(content)
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    prose = [token.string for token in tokens if token.type == tokenize.COMMENT]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            prose.append(ast.get_docstring(node) or "")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            prose.append(node.name.replace("_", " "))
    return "\n".join(prose)


def test_no_private_dialect_in_tests() -> None:
    # To parse a file takes long, and few have one of these words, be it in a name.
    suspects = [path for path in TESTS if _SUSPECT.search(path.read_text().replace("_", " "))]
    found = {path: private_words(prose_of(path)) for path in suspects}
    assert {str(path): words for path, words in found.items() if words} == {}


def types_in(source: str) -> set[str]:
    """Return the names of classes and of types that a module defines."""
    classes = re.findall(r"^ *class _*(\w+)", source, re.MULTILINE)
    return {*classes, *re.findall(r"^_*([A-Z]\w*[a-z]\w*)(?:: .*)? = ", source, re.MULTILINE)}


def test_classes_are_named_in_the_words_of_the_field() -> None:
    names = set().union(*(types_in(path.read_text()) for path in SOURCES))
    private = [one for one in names if one.startswith(CLASS_NAMES) or one.endswith(CLASS_NAMES)]
    assert private == []


def glossary() -> list[tuple[str, str]]:
    """Return words and meanings of the glossary."""
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## Glossary")[2]
    return re.findall(r"^\| \*([^*]+)\* \| (.+) \|$", text, re.MULTILINE)


def test_every_word_of_the_glossary_is_defined_once_and_used() -> None:
    rows = glossary()
    assert len(rows) >= 20
    for column in zip(*rows, strict=True):
        assert [one for one, count in Counter(column).items() if count > 1] == []
    code = "\n".join(path.read_text() for path in SOURCES).lower()
    unused = [word for word, _ in rows if not re.search(word.replace(" ", "[ _]?"), code)]
    assert unused == []
