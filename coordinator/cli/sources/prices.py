"""Amounts in cells, of money or per cent: their number, and the currency next to it (pure).

"€10.00", "1 299,00 €", "EUR 10", "US$ 7", "-£5"   an amount of one currency
"12%", "12 %", "-2.5%"                             an amount of "%": 12, not 0.12
"10.00", "10 cm", "€ or £", "%"                    no amount
"""

from __future__ import annotations

import re
from typing import Final

_CURRENCY: Final = (
    r"(?:[A-Z]{1,2}\$|[$£¥฿\u20a0-\u20cf]|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY"
    r"|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|USD|ZAR)"
)
_SPACE: Final = "[ \u00a0\u2009\u202f]"
_NUMBER: Final = rf"(-?[0-9](?:\S|{_SPACE}(?=[0-9]{{3}}))*?)"
_AMOUNT: Final = re.compile(
    rf"(?:(-?)({_CURRENCY}){_SPACE}?{_NUMBER}|{_NUMBER}{_SPACE}?({_CURRENCY}|%))"
).fullmatch


def amount_of(text: str) -> tuple[str, str]:
    """Return the currency, or "%", and the number of a (stripped) cell; "" and the cell if none."""
    found = _AMOUNT(text)
    if found is None:
        return "", text
    sign, before, number, number_before, after = found.groups()
    return (before, sign + number) if before else (after, number_before)
