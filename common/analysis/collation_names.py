"""Names of collations: in which language's order texts are sorted.

`"de"`, `"sv"`, `"de-phonebook"`; `"root"` is the order that is not of any language. With
`"+numeric"` after it, numbers inside texts count as numbers: "part 2" before "part 10".
What an order is, and where it comes from: `common.analysis.collation`.
"""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = "root"
"""The order that is not of any language."""
CODE_POINTS: Final = ""
"""No collation: texts are compared by their code points."""
NUMERIC: Final = "+numeric"

COLLATION_LANGUAGES: Final = (
    *("af", "ar", "az", "be", "bg", "bn", "bs", "ca", "cs", "cy", "da", "de", "de-phonebook", "el"),
    *("en", "eo", "es", "es-traditional", "et", "eu", "fa", "fi", "fil", "fo", "fr", "fr-ca", "ga"),
    *("gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ka", "kk", "kn", "ky", "lt"),
    *("lv", "mk", "ml", "mn", "mr", "ms", "mt", "nb", "ne", "nl", "nn", "no", "pa", "pl", "pt"),
    *("ro", "ru", "sk", "sl", "sq", "sr", "st", "sv", "ta", "te", "tr", "uk", "ur", "uz", "vi"),
    *("yi",),
)
COLLATION_FORMS: Final = (
    'must be "none", "root" or a language such as "de", each of the latter also with "+numeric" '
    f"(2 before 10); the languages are {', '.join(COLLATION_LANGUAGES)}"
)

_REGION: Final = re.compile(r"-(?:[a-z]{2}|[0-9]{3})", re.ASCII)
_KNOWN: Final = frozenset({ROOT, *COLLATION_LANGUAGES})


def parse_collation(value: object) -> str | None:
    """Return a collation in its canonical form, or None if it is invalid.

    "none" is `CODE_POINTS`. A region without its own order is dropped: "de-AT" is "de".
    """
    if not isinstance(value, str):
        return None
    name, plus, numeric = value.lower().replace("_", "-").partition("+")
    if name == "none" and not plus:
        return CODE_POINTS
    if plus and numeric != "numeric":
        return None
    base = name.partition("-")[0]
    if name not in _KNOWN and _REGION.fullmatch(name[len(base) :]):
        name = base
    return name + plus + numeric if name in _KNOWN else None
