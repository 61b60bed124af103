"""What the dashboard ships: complete, self-contained, and within its content security policy."""

from __future__ import annotations

import re

import pytest

from coordinator.dashboard import ASSETS, PAGE, VERSION

MODULES = {name: body.decode() for name, (_, body) in ASSETS.items() if name.endswith(".js")}
STYLE = "".join(ASSETS[name][1].decode() for name in ("style.css", "docs.css"))


def test_page_names_only_assets_that_exist() -> None:
    names = re.findall(rf'(?:href|src)="assets/{VERSION}/([^"]+)"', PAGE.decode())

    assert {"app.js", "style.css", "icon.svg"} == set(names)
    assert set(names) <= set(ASSETS)


def test_page_has_no_inline_script_or_style() -> None:
    page = PAGE.decode()

    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)


def test_content_types() -> None:
    types = {name.rpartition(".")[2]: content_type for name, (content_type, _) in ASSETS.items()}

    assert types == {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_exist(name: str) -> None:
    folder = name.rpartition("/")[0]
    for path in re.findall(r'^(?:import|export)[^;]*? from "([^"]+)";', MODULES[name], re.M):
        assert path.startswith(("./", "../")), path
        parts = folder.split("/") if folder else []
        for part in path.split("/"):
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        assert "/".join(parts) in ASSETS, path


@pytest.mark.parametrize("name", MODULES)
def test_module_makes_no_markup_from_strings(name: str) -> None:
    """Strings become text nodes; nothing parses them as HTML or code."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function"
    )

    assert not re.search(forbidden, MODULES[name])


def test_nothing_comes_from_elsewhere() -> None:
    for name, (_, body) in ASSETS.items():
        urls = set(re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]+", body.decode()))
        assert urls <= {"http://www.w3.org"}, name
    assert "@import" not in STYLE
    assert "url(" not in STYLE


def test_sizes_come_from_the_scales() -> None:
    """One type scale and one spacing scale, so that nothing is a little bit off."""
    sizes = re.findall(r"^\s*font-size: ([^;]+);", STYLE, re.M)
    gaps = re.findall(r"^\s*gap: ([^;]+);", STYLE, re.M)

    assert sizes
    assert all(size.startswith("var(--text-") for size in sizes)
    assert all(
        part.startswith("var(--space-") or part in ("0", "1px", "2px")
        for gap in gaps
        for part in gap.split()
    )


@pytest.mark.parametrize("name", MODULES)
def test_the_plural_of_index_is_indexes(name: str) -> None:
    """One word for one thing, as in the interface; a module may have the other in its name."""
    assert not re.findall(r"\b[Ii]ndices\b(?!\.js)", MODULES[name])
