"""Commands for several hosts that share a log: cluster status, compare, add, remove, move."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any, Final
from urllib.parse import quote, urlsplit

import click

from common.errors import CommandError
from coordinator.cli.command_groups import Subgroup
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.console_tables import bytes_text, print_table
from coordinator.cli.escaped_output import echo
from coordinator.cluster.shard_copies import shown_shards
from coordinator.command_line_client import Client, ClientError

LAG_MS_MAX: Final = 10_000
"""A host that lags by more is a problem."""
SILENT_SECONDS: Final = 2
"""A host that has been silent for longer did not answer when it was asked for this state."""
POLL_SECONDS: Final = 1.0


WAIT: Final = click.option(
    "--wait/--no-wait", default=True, help="With a shard: wait until it has moved.  [default: wait]"
)


@click.group(cls=Subgroup)
def cluster() -> None:
    """See and change several hosts that share a log."""


def _state(client: Client) -> dict[str, Any]:
    """Return the state of the log and its hosts.

    Raises:
        CommandError: the service is one of a single host.
    """
    state: dict[str, Any] = client.request("GET", "/_cluster")
    if state["log"] is None:
        raise CommandError(
            f"facetd at {client.url} shares no log with others; docs/several-hosts.md says how to "
            "start several hosts"
        )
    return state


@cluster.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_service
@click.pass_context
def status(ctx: click.Context, /, as_json: bool, service: ConnectionOptions) -> None:
    """Show the log, its servers and all hosts.

    The exit status is 1 if something needs attention: a host or a server is away or lags, or hosts
    differ.
    """
    state = _state(service.client(starting_seconds=0.0))
    problems = problems_of(state)
    if as_json:
        echo(json.dumps({**state, "problems": problems}, ensure_ascii=False))
    else:
        _print(state)
        for problem in problems:
            echo(f"! {problem}")
    ctx.exit(1 if problems else 0)


def _print(state: dict[str, Any]) -> None:
    log = state["log"]
    echo(
        f"log {log['stream']}: {'up' if log['is_up'] else 'AWAY'}, leader {log['leader'] or '-'}, "
        f"{entries_text(log['first_seq'], log['last_seq'])}, {bytes_text(log['bytes'])}"
    )
    if log["servers"]:
        echo()
        rows = [_server_row(one) for one in log["servers"]]
        print_table(("server", "role", "entries missing"), rows, right=("entries missing",))
    echo()
    print_table(
        ("host", "state", "seq", "lag", "compared at", "equal", "digest", "snapshot", "shards"),
        [_host_row(one) for one in state["hosts"]],
        right=("seq", "lag", "compared at", "equal", "shards"),
    )
    placement = state.get("placement")
    if placement is not None:
        echo()
        print_table(
            ("shard", "placed on", "served by", "read here from"),
            [
                (
                    str(one["shard"]),
                    ", ".join(one["placed"]) or "-",
                    ", ".join(one["serving"]) or "NONE",
                    one["read_from"] or "-",
                )
                for one in placement["shards"]
            ],
            right=("shard",),
        )
        for one in _moves(state):
            echo(f"{one['host']} {one['what']} shard {one['shard']}")


def entries_text(first: int, last: int | None) -> str:
    """Return what the log has, in words."""
    if last is None:
        return "entries not known"
    return f"entries {first} to {last}" if first <= last else f"no entries (next: {first})"


def _server_row(one: dict[str, Any]) -> tuple[str, ...]:
    """Return a server of the log as a row of the table."""
    role = "leader" if one["is_leader"] else "follower" if one["is_current"] else "AWAY"
    return (one["name"], role, str(one["num_missing"]))


def _host_row(one: dict[str, Any]) -> tuple[str, ...]:
    """Return a host as a row of the table."""
    state = "serves" if one["is_serving"] else "starts"
    if one["trouble"]:
        state = "TROUBLE" if one["is_serving"] else "STOPPED"
    is_silent = one["silent_s"] >= SILENT_SECONDS
    if is_silent:
        state = f"{'AWAY' if one['is_away'] else 'SILENT'} {one['silent_s']} s"
    return (
        one["name"] + (" *" if one["is_here"] else ""),
        state,
        str(one["seq"]),
        f"{one['lag_ms']} ms" if one["lag_ms"] >= 0 and not is_silent else "-",
        str(one["compared_seq"] or "-"),
        str(one["num_equal"] or "-"),
        one["digest"] or "-",
        one["snapshot_at"] or "-",
        str(one["shards"]),
    )


def problems_of(state: dict[str, Any]) -> list[str]:
    """Return what needs attention, for people."""
    log, hosts = state["log"], state["hosts"]
    problems = []
    if not log["is_up"]:
        problems.append("the log is away or has no majority: nothing can be written, reads go on")
    problems += [
        f"server {one['name']} does not have the whole log: with one more away, writes stop"
        for one in log["servers"]
        if not one["is_current"] and log["is_up"]
    ]
    for one in hosts:
        if one["silent_s"] >= SILENT_SECONDS:
            problems.append(f"host {one['name']} has not answered for {one['silent_s']} s")
            continue
        if one["trouble"]:
            problems.append(f"host {one['name']}: {one['trouble']}")
        elif one["lag_ms"] > LAG_MS_MAX:
            problems.append(f"host {one['name']} lags by {one['lag_ms'] / 1000:.0f} s")
        if one["difference"]:
            problems.append(
                f"at entry {one['compared_seq']} others differed from {one['name']}: "
                f"{one['difference']}"
            )
    names = Counter(one["name"] for one in hosts)
    problems += [
        f"{number} hosts are called {name}: give each its own name (log_host)"
        for name, number in names.items()
        if number > 1
    ]
    placement = state.get("placement")
    if placement is None:
        return problems
    for one in placement["shards"]:
        if not one["serving"]:
            problems.append(f"shard {one['shard']} is served by no host: searches and writes fail")
        elif len(one["serving"]) < placement["replicas"]:
            problems.append(
                f"shard {one['shard']} is served by {len(one['serving'])} of "
                f"{placement['replicas']} hosts"
            )
    return problems


@cluster.command()
@click.option("--wait/--no-wait", default=True, help="Wait for the result.  [default: wait]")
@with_service
@click.pass_context
def compare(ctx: click.Context, /, wait: bool, service: ConnectionOptions) -> None:
    """Compare the contents of all hosts, item by item, while they serve.

    The exit status is 1 if some differ.
    """
    client = service.client()
    _state(client)
    seq = client.request("POST", "/_cluster/compare")["seq"]
    echo(f"comparing at entry {seq}", err=True)
    while wait:
        hosts = [one for one in _state(client)["hosts"] if not one["is_away"]]
        if all(one["compared_seq"] >= seq or one["trouble"] for one in hosts):
            found = sorted({one["difference"] for one in hosts if one["difference"]})
            for difference in found:
                echo(difference)
            if not found:
                echo(f"{len(hosts)} hosts are equal at entry {seq}")
            ctx.exit(1 if found else 0)
        if len(hosts) == 1:
            raise CommandError("there is only one host: none to compare with")
        time.sleep(POLL_SECONDS)


@cluster.command()
@click.argument("name", metavar="HOST")
@click.option(
    "--server/--no-server", default=False, help="Include a server of the log on the new machine."
)
@click.option("--shard", type=int, help="Have HOST hold this shard too, now.")
@WAIT
@with_service
def add(name: str, server: bool, shard: int | None, wait: bool, service: ConnectionOptions) -> None:
    """Print what a new host needs: files, commands, and what to wait for.

    Nothing is registered: a host is one of several as soon as it follows the log.

    With --shard, where each host holds some: HOST, which is there already, takes a copy of the
    shard while all serve.
    """
    client = service.client()
    state = _state(client)
    if shard is not None:
        _move(client, shard, "", name, wait=wait)
        return
    _refuse_present(state, name)
    for line in steps_to_add(state, name, has_server=server):
        echo(line)


def _refuse_present(state: dict[str, Any], name: str) -> None:
    """Refuse to add a host that is running; one that is away may be replaced under its name.

    Raises:
        CommandError: it answers.
    """
    if any(one["name"] == name and not one["is_away"] for one in state["hosts"]):
        raise CommandError(f"{name} is one of the hosts already, and answers")


def steps_to_add(state: dict[str, Any], host: str, *, has_server: bool) -> list[str]:
    """Return the steps to add a host.

    Args:
        state: of the log and its hosts.
        host: name or address of the new one, possibly with facetd's port.
        has_server: whether it runs a server of the log too.
    """
    log = state["log"]
    host, _, port = host.partition(":")
    addresses = list(log["addresses"])
    near = [urlsplit(address).hostname or address for address in addresses]
    steps = [f"# on {host}", "pip install 'facetd[cluster]'"]
    if has_server:
        if f"nats://{host}:4222" not in addresses:
            addresses.append(f"nats://{host}:4222")
        routes = ", ".join(f"nats://{name}:6222" for name in dict.fromkeys([*near, host]))
        steps += [
            "# nats.conf; start nats-server with it. The other servers need no change: they learn",
            "# of this one. Name it in their routes too when you touch them next.",
            f"server_name: {host}",
            "listen: 0.0.0.0:4222",
            "http_port: 8222",
            "jetstream { store_dir: /var/lib/nats, sync_interval: always }",
            "# the system account as on the other servers, for facetd's log_system:",
            "accounts { $SYS { users: [{ user: system, password: … }] } }",
            f"cluster {{ name: facetd, listen: 0.0.0.0:6222, routes: [{routes}] }}",
        ]
    steps += [
        "# with an empty data directory; it takes its data from another host. Other settings (such",
        "# as log_system) as on the other hosts:",
        f"facetd serve --log {','.join(addresses)}{_placing(state, host)}"
        + ("" if log["stream"] == "facetd" else f"  # and log_stream = {log['stream']}"),
        f"# it has everything when http://{host}:{port or 3000}/_ready answers 200, and when",
        "facetd cluster status   # shows it with a small lag",
        "facetd cluster compare  # says that all hosts are equal",
    ]
    return steps


def _placing(state: dict[str, Any], host: str) -> str:
    """Return the options of a new host that holds some shards; empty if it holds all."""
    placement = state.get("placement")
    if placement is None:
        return ""
    rare = sorted(placement["shards"], key=lambda one: len(one["serving"]))
    per_host = max(len(one["shards"]) for one in placement["hosts"])
    chosen = shown_shards([one["shard"] for one in rare[:per_host]])
    return (
        f" --shards-here {chosen} --of {len(rare)} --replicas {placement['replicas']}"
        f" --rpc-listen {host}:3001 --rpc-tls-cert … --rpc-tls-key … --rpc-tls-ca …"
    )


@cluster.command()
@click.argument("name", metavar="HOST")
@click.option("--shard", type=int, help="Have HOST give up its copy of this shard, now.")
@WAIT
@with_service
def remove(name: str, shard: int | None, wait: bool, service: ConnectionOptions) -> None:
    """Forget a host that was stopped for good, so that the others stop waiting for it.

    HOST is its name in facetd cluster status. Its server of the log, if it ran one, is a member of
    the log's own cluster: nats server cluster peer-remove takes it out.

    With --shard, where each host holds some: HOST gives up its copy of the shard once every other
    host that is to have it serves it. The files stay in its directory.
    """
    client = service.client()
    _state(client)
    if shard is not None:
        _move(client, shard, name, "", wait=wait)
        return
    removed = client.request("DELETE", f"/_cluster/hosts/{quote(name, safe='')}")["removed"]
    echo(f"{name} is forgotten ({', '.join(removed)})")


@cluster.command()
@click.argument("words", metavar="HOST TO | SHARD", nargs=-1, required=True)
@click.option("--from", "source", metavar="HOST", help="Take the shard from this host.")
@click.option("--to", "target", metavar="HOST", help="Give the shard to this host.")
@click.option(
    "--server/--no-server", default=False, help="Include the server of the log on these machines."
)
@WAIT
@with_service
def move(
    words: tuple[str, ...],
    source: str | None,
    target: str | None,
    server: bool,
    wait: bool,
    service: ConnectionOptions,
) -> None:
    """Move a shard to another host, or print how to move a host to another machine.

    facetd cluster move 1 --from a:3000 --to c:3000 moves a shard, where each host holds some, while
    all serve: c takes a copy and follows the log; once it serves the shard, a gives it up. The
    same with the two exchanged takes it back, at any time. Hosts are named as in facetd cluster
    status.

    facetd cluster move HOST TO: TO is the new machine; add it, then remove the old one.
    """
    client = service.client()
    state = _state(client)
    if source is not None or target is not None:
        if len(words) != 1 or not words[0].isdecimal() or source is None or target is None:
            raise click.UsageError("name the SHARD by its number, --from HOST and --to HOST")
        _move(client, int(words[0]), source, target, wait=wait)
        return
    if len(words) != 2:
        raise click.UsageError("name HOST and TO; or SHARD, --from HOST and --to HOST")
    name, to = words
    names = [one["name"] for one in state["hosts"]]
    if name not in names:
        raise ClientError(f"there is no host {name!r}; there are {', '.join(names)}")
    if to == name:
        raise CommandError(f"{name} is not moved to itself: name the new machine")
    _refuse_present(state, to)
    for line in steps_to_add(state, to, has_server=server):
        echo(line)
    echo(f"# then stop facetd on {name}, wait ten seconds, and")
    echo(f"facetd cluster remove {name}")
    if server:
        echo("# and stop its nats-server, then")
        echo("nats server cluster peer-remove NAME   # needs a system account")


def _move(client: Client, shard: int, source: str, target: str, *, wait: bool) -> None:
    """Order a shard to be moved, and wait until it has been."""
    order: dict[str, Any] = {"shard": shard}
    if source:
        order["from"] = source
    if target:
        order["to"] = target
    client.request("POST", "/_cluster/shards", json.dumps(order).encode())
    last = ""
    while wait:
        moves = [one for one in _moves(_state(client)) if one["shard"] == shard]
        if not moves:
            echo(f"shard {shard} is in place")
            return
        told = ", ".join(f"{one['host']} {one['what']} shard {shard}" for one in moves)
        if told != last:
            echo(told, err=True)
            last = told
        time.sleep(POLL_SECONDS)


def _moves(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is being moved."""
    moves: list[dict[str, Any]] = (state.get("placement") or {}).get("moves", [])
    return moves
