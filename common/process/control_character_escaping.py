"""Untrusted text on a terminal: characters that would control it are shown, not obeyed (pure)."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u2028-\u202e\u2066-\u2069"  # line separators, and what reorders text
    "\ud800-\udfff]"  # halves of a character, which no UTF-8 has: of a file's name, say
)
"""What moves the cursor, colours, retitles, answers or reorders; emoji and scripts need none."""


def printable(text: str) -> str:
    r"""Return a text with `\u001b` for an escape character, and the like.

    JSON stays JSON with the same content, as it can have these characters only within strings.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
