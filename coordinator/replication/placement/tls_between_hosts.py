"""TLS between hosts: both sides show a certificate of the authority that the settings name."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

from common.disk_errors import remedy_of
from common.setting_conversion import SettingError
from coordinator.settings import Settings


def tls_contexts(
    settings: Settings,
) -> tuple[ssl.SSLContext | None, partial[ssl.SSLContext] | None]:
    """Return the context for connections of other hosts, and what makes one for ours to them.

    Raises:
        SettingError: a file cannot be read.
    """
    if not settings.rpc_tls_cert:
        return None, None
    for name in ("rpc_tls_cert", "rpc_tls_key", "rpc_tls_ca"):
        try:
            Path(getattr(settings, name)).open("rb").close()
        except OSError as error:
            remedy = f"; {remedy_of(error)}" if isinstance(error, PermissionError) else ""
            raise SettingError(
                f"{name}: cannot read {error.filename}: {error.strerror}{remedy}"
            ) from error
    try:
        server = _tls_context(settings, ssl.Purpose.CLIENT_AUTH)
        server.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            f"rpc_tls_cert, rpc_tls_key or rpc_tls_ca cannot be used: {error}"
        ) from error
    return server, partial(_tls_context, settings, ssl.Purpose.SERVER_AUTH)


def _tls_context(settings: Settings, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Return a context that shows and demands a certificate of the configured authority."""
    context = ssl.create_default_context(purpose, cafile=settings.rpc_tls_ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.rpc_tls_cert, settings.rpc_tls_key)
    return context
