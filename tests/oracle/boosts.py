"""Boosts: what multiplies the score of an item."""

from __future__ import annotations

from math import log

from tests.oracle.distinct import sole_value
from tests.oracle.items import Item, Json


def factor_of(item: Item, boosts: Json) -> float:
    """Return what boosts multiply the score of an item by, each rounded to 2^-20."""
    product = 1.0
    for name, options in boosts.items():
        value = sole_value(item, name)
        if isinstance(value, bool | int | float):
            gain = options.get("weight", 1) * gain_of(float(value), options)
            factor = round((1 + min(gain, 1e6)) * 2**20) / 2**20
            product = round(product * 2**32 * factor) / 2**32
    return product


def gain_of(value: float, options: Json) -> float:
    """Return the gain of one boost, for a weight of 1."""
    if "decay" in options:
        distance = abs(value - options["origin"]) / options["decay"]
        return float(0.5 ** min(distance, 64))
    value = max(value, 0.0)
    if "log" in options:
        return float(options["log"] * log(1 + value))
    if "linear" in options:
        return float(options["linear"] * value)
    return float(value / (value + options["saturation"]))
