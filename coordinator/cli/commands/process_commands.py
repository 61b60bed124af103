"""Commands that run processes: serve, demo, coordinator, shard."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from common.process import logs
from common.process.python_command import let_processes_find_us, python_command
from coordinator.cli.command_groups import SectionedCommand
from coordinator.cli.settings_options import is_given, load_settings, with_settings

DEMO_FOLDER: Final = "facetd-demo-data"
SECTIONS: Final = {
    "Address and data": ("host", "port", "data_dir", "snapshot_dir"),
    "Processes": ("shards", "coordinators", "shard_addresses"),
    "Access": ("insecure", "allowed_hosts", "allowed_origins", "trusted_proxies"),
    "Logging and caching": ("log_level", "log_style", "slow_query_ms", "result_cache_bytes"),
    "Several hosts": ("log_url", "log_create", "log_unsafe"),
    "Several hosts, each with some of the shards": (
        *("shards_here", "shards_of", "shard_replicas", "rpc_listen", "rpc_advertise"),
        *("rpc_tls_cert", "rpc_tls_key", "rpc_tls_ca"),
    ),
}
"""Settings that are options of `serve` and `coordinator`, by the heading in their help."""

_SETTINGS: Final = tuple(name for names in SECTIONS.values() for name in names)
_SERVE_SETTINGS: Final = tuple(name for name in _SETTINGS if name != "shard_addresses")
_COORDINATOR_SETTINGS: Final = tuple(name for name in _SETTINGS if name != "coordinators")


@click.command(cls=SectionedCommand, sections=SECTIONS)
@with_settings(*_SERVE_SETTINGS)
@click.pass_context
def serve(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Run the service in the foreground: all shards and the coordinator.

    It listens on http://127.0.0.1:3000 and stores everything in ./facetd-data unless told
    otherwise. Ctrl-C or SIGTERM stops it in order; a kill at any moment loses nothing.
    """
    from coordinator.process.supervisor import Supervisor

    settings = load_settings(config_file, flags)
    logs.configure("supervisor", level=settings.log_level, style=settings.log_style)
    if settings.log_url:
        from coordinator.process.joining.start_decision import join

        status = join(settings)
        if status:
            ctx.exit(status)
    ctx.exit(Supervisor(settings).run())


@click.command(cls=SectionedCommand, sections=SECTIONS)
@with_settings(*_COORDINATOR_SETTINGS)
@click.option("--parent-pipe", type=int, hidden=True)
@click.option("--lock", type=int, hidden=True)
@click.option("--takeover-pipe", type=int, hidden=True)
@click.option("--slot", hidden=True)
@click.option("--supervisor", type=int, hidden=True)
@click.option("--filling-pipe", type=int, hidden=True)
@click.pass_context
def coordinator(
    ctx: click.Context,
    /,
    config_file: Path | None,
    parent_pipe: int | None,
    lock: int | None,
    takeover_pipe: int | None,
    slot: str | None,
    supervisor: int | None,
    filling_pipe: int | None,
    **flags: Any,
) -> None:
    """Run the coordinator alone, for shards that run elsewhere.

    Name each shard with --shard HOST:PORT, in their order. Without, those are waited for that run
    with the same --data-dir.
    """
    gc.disable()  # collections during imports find nothing; `run` enables it when all is made
    from coordinator.process.coordinator_process import Inheritance, run
    from coordinator.process.inherited_coordinator_slots import CoordinatorSlot

    settings = load_settings(config_file, flags)
    ours = None if slot is None else CoordinatorSlot.of_argument(slot)
    if ours is not None and ours.ordinal and parent_pipe is not None:
        from coordinator.process.reader_coordinator import run_reader

        ctx.exit(run_reader(settings, ours, parent_pipe))
    ctx.exit(
        run(settings, Inheritance(lock, parent_pipe, takeover_pipe, ours, supervisor, filling_pipe))
    )


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def shard(arguments: tuple[str, ...]) -> None:
    """Run one shard alone; see facetd shard --help."""
    # A separate program: the coordinator's code imports nothing from the shard's.
    let_processes_find_us()
    os.execv(sys.executable, python_command("shard", *arguments))


@click.command()
@with_settings("host", "port", "shards", "data_dir", "log_level", data_dir=DEMO_FOLDER)
@click.pass_context
def demo(ctx: click.Context, /, config_file: Path | None, **flags: Any) -> None:
    """Run the service with an index of films to play with.

    The data go to ./facetd-demo-data unless --data-dir names another folder.
    """
    from coordinator.demo import load_films
    from coordinator.process.supervisor import Supervisor

    if not is_given(flags, "data_dir") and not os.environ.get("FACETD_DATA_DIR"):
        flags["data_dir"] = DEMO_FOLDER
    settings = load_settings(config_file, flags)
    logs.configure("supervisor", level=settings.log_level, style=settings.log_style)
    ctx.exit(Supervisor(settings, lambda: load_films(settings)).run())
