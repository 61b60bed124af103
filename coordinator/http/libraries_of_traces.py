"""Whether the libraries are installed that traces need: an extra, which few services have."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from common.setting_conversion import SettingError

_PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check_installed() -> None:
    """Refuse traces at once; imports none of the libraries, which take long.

    Raises:
        SettingError: one is missing.
    """
    if not all(map(_is_there, _PACKAGES)):
        raise not_installed()


def not_installed() -> SettingError:
    """Return the error of traces whose libraries are missing."""
    return SettingError("traces need libraries that are not installed: pip install 'facetd[otel]'")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
