"""Commands for several hosts that share a log: cluster status, compare, add, remove, move."""

from __future__ import annotations

import json
import time
from typing import Any, Final
from urllib.parse import quote, urlsplit

import click

from coordinator.cli.service import ServiceOptions, with_service
from coordinator.cli.tables import bytes_text, print_table
from coordinator.clients.http_client import Client, ClientError
from coordinator.cluster.placed_shards import shown_shards

LAG_MS_MAX: Final = 10_000
"""A host that lags by more is not well."""
POLL_SECONDS: Final = 1.0


@click.group()
def cluster() -> None:
    """See and change several hosts that share a log."""


def _state(client: Client) -> dict[str, Any]:
    """Return the state of the log and its hosts.

    Raises:
        ClickException: the service is one of a single host.
    """
    state: dict[str, Any] = client.request("GET", "/_cluster")
    if state["log"] is None:
        raise click.ClickException(
            f"facetd at {client.url} shares no log with others; docs/several-hosts.md says how to "
            "start several hosts"
        )
    return state


@cluster.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@with_service
@click.pass_context
def status(ctx: click.Context, /, as_json: bool, service: ServiceOptions) -> None:
    """Show the log, its servers and all hosts.

    The exit status is 1 if something needs a hand: a host or a server is away or lags, or hosts
    differ.
    """
    state = _state(service.client())
    problems = problems_of(state)
    if as_json:
        click.echo(json.dumps({**state, "problems": problems}, ensure_ascii=False))
    else:
        _print(state)
        for problem in problems:
            click.echo(f"! {problem}")
    ctx.exit(1 if problems else 0)


def _print(state: dict[str, Any]) -> None:
    log = state["log"]
    end = log["last_seq"]
    click.echo(
        f"log {log['stream']}: {'up' if log['is_up'] else 'AWAY'}, leader {log['leader'] or '-'}, "
        f"entries {log['first_seq']} to {'?' if end is None else end}, {bytes_text(log['bytes'])}"
    )
    if log["servers"]:
        click.echo()
        rows = [_server_row(one) for one in log["servers"]]
        print_table(("server", "role", "entries missing"), rows, right=("entries missing",))
    click.echo()
    print_table(
        ("host", "state", "seq", "lag", "compared at", "equal", "digest", "snapshot", "shards"),
        [_host_row(one) for one in state["hosts"]],
        right=("seq", "lag", "compared at", "equal", "shards"),
    )
    placement = state.get("placement")
    if placement is not None:
        click.echo()
        print_table(
            ("shard", "placed on", "served by", "read here from"),
            [
                (
                    str(one["shard"]),
                    ", ".join(one["placed"]) or "-",
                    ", ".join(one["serving"]) or "NOBODY",
                    one["read_from"] or "-",
                )
                for one in placement["shards"]
            ],
            right=("shard",),
        )


def _server_row(one: dict[str, Any]) -> tuple[str, ...]:
    """Return a server of the log as a row of the table."""
    role = "leader" if one["is_leader"] else "follower" if one["is_current"] else "AWAY"
    return (one["name"], role, str(one["num_missing"]))


def _host_row(one: dict[str, Any]) -> tuple[str, ...]:
    """Return a host as a row of the table."""
    state = "serves" if one["is_serving"] else "starts"
    if one["trouble"]:
        state = "TROUBLE" if one["is_serving"] else "STOPPED"
    if one["is_away"]:
        state = f"AWAY {one['silent_s']} s"
    return (
        one["name"] + (" *" if one["is_here"] else ""),
        state,
        str(one["seq"]),
        f"{one['lag_ms']} ms" if one["lag_ms"] >= 0 else "-",
        str(one["compared_seq"] or "-"),
        str(one["num_equal"] or "-"),
        one["digest"] or "-",
        one["snapshot_at"] or "-",
        str(one["shards"]),
    )


def problems_of(state: dict[str, Any]) -> list[str]:
    """Return what needs a hand, for people."""
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
        if one["is_away"]:
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
    placement = state.get("placement")
    if placement is None:
        return problems
    for one in placement["shards"]:
        if not one["serving"]:
            problems.append(f"shard {one['shard']} is served by nobody: searches and writes fail")
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
def compare(ctx: click.Context, /, wait: bool, service: ServiceOptions) -> None:
    """Compare the contents of all hosts, item by item, while they serve.

    The exit status is 1 if some differ.
    """
    client = service.client()
    _state(client)
    seq = client.request("POST", "/_cluster/compare")["seq"]
    click.echo(f"comparing at entry {seq}", err=True)
    while wait:
        hosts = [one for one in _state(client)["hosts"] if not one["is_away"]]
        if all(one["compared_seq"] >= seq or one["trouble"] for one in hosts):
            found = sorted({one["difference"] for one in hosts if one["difference"]})
            for difference in found:
                click.echo(difference)
            if not found:
                click.echo(f"{len(hosts)} hosts are equal at entry {seq}")
            ctx.exit(1 if found else 0)
        if len(hosts) == 1:
            raise click.ClickException("there is one host only: nobody to compare with")
        time.sleep(POLL_SECONDS)


@cluster.command()
@click.argument("name", metavar="HOST")
@click.option("--server/--no-server", default=False, help="It runs a server of the log too.")
@with_service
def add(name: str, server: bool, service: ServiceOptions) -> None:
    """Print what a new host needs: files, commands, and what to wait for.

    Nothing is registered: a host is one of several as soon as it follows the log.
    """
    client = service.client()
    for line in steps_to_add(_state(client), name, has_server=server):
        click.echo(line)


def steps_to_add(state: dict[str, Any], host: str, *, has_server: bool) -> list[str]:
    """Return the steps to add a host.

    Args:
        state: of the log and its hosts.
        host: name or address of the new one.
        has_server: whether it runs a server of the log too.
    """
    log = state["log"]
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
            f"cluster {{ name: facetd, listen: 0.0.0.0:6222, routes: [{routes}] }}",
        ]
    steps += [
        "# with an empty data directory; it takes its data from another host:",
        f"facetd serve --log {','.join(addresses)}{_placing(state, host)}"
        + ("" if log["stream"] == "facetd" else f"  # and log_stream = {log['stream']}"),
        f"# it has everything when http://{host}:3000/_ready answers 200, and when",
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
@with_service
def remove(name: str, service: ServiceOptions) -> None:
    """Forget a host that was stopped for good, so that nobody waits for it.

    HOST is its name in facetd cluster status. Its server of the log, if it ran one, is a member of
    the log's own cluster: nats server cluster peer-remove takes it out.
    """
    client = service.client()
    _state(client)
    removed = client.request("DELETE", f"/_cluster/hosts/{quote(name, safe='')}")["removed"]
    click.echo(f"{name} is forgotten ({', '.join(removed)})")


@cluster.command()
@click.argument("words", metavar="[SHARD] HOST TO", nargs=-1, required=True)
@click.option("--server/--no-server", default=False, help="They run a server of the log too.")
@with_service
def move(words: tuple[str, ...], server: bool, service: ServiceOptions) -> None:
    """Print how to move a host to another machine, or a shard to another host.

    HOST is its name in facetd cluster status, TO the new machine: add it, then remove the old one.

    With a SHARD, where each host holds some: TO is the name of the host that shall hold it instead
    of HOST. It is started with the shard among its own; it takes a copy, then follows the log.
    """
    client = service.client()
    state = _state(client)
    if len(words) == 3:
        for line in steps_to_move_shard(state, *words):
            click.echo(line)
        return
    if len(words) != 2:
        raise click.UsageError("name HOST and TO, or SHARD, HOST and TO")
    name, to = words
    names = [one["name"] for one in state["hosts"]]
    if name not in names:
        raise ClientError(f"there is no host {name!r}; there are {', '.join(names)}")
    for line in steps_to_add(state, to, has_server=server):
        click.echo(line)
    click.echo(f"# then stop facetd on {name}, wait ten seconds, and")
    click.echo(f"facetd cluster remove {name}")
    if server:
        click.echo("# and stop its nats-server, then")
        click.echo("nats server cluster peer-remove NAME   # needs a system account")


def steps_to_move_shard(state: dict[str, Any], shard: str, name: str, to: str) -> list[str]:
    """Return the steps to have another host hold a shard.

    Args:
        state: of the log and its hosts.
        shard: ordinal.
        name: of the host that holds it now.
        to: name of the host that shall.

    Raises:
        ClientError: there is no such shard or host, or it holds the shard already, or not.
    """
    placement = state.get("placement")
    if placement is None:
        raise ClientError("every host has all shards here; move HOST TO moves a whole host")
    held = {one["name"]: set(one["shards"]) for one in placement["hosts"]}
    for one in (name, to):
        if one not in held:
            raise ClientError(f"there is no host {one!r}; there are {', '.join(sorted(held))}")
    if not shard.isdigit() or int(shard) not in held[name]:
        raise ClientError(f"{name} holds shards {shown_shards(sorted(held[name]))}, not {shard}")
    if int(shard) in held[to]:
        raise ClientError(f"{to} holds shard {shard} already")
    number, num_shards = int(shard), len(placement["shards"])
    kept = held[name] - {number}
    lines = [
        f"# on {to}: start facetd again; it takes shard {number} from a host that has it",
        f"--shards-here {shown_shards(sorted(held[to] | {number}))} --of {num_shards}",
        f"facetd cluster status   # until shard {number} is served by {to}",
    ]
    if not kept:
        return [
            *lines,
            f"# then stop facetd on {name}, wait ten seconds, and",
            f"facetd cluster remove {name}",
        ]
    return [
        *lines,
        f"# then on {name}: start facetd again",
        f"--shards-here {shown_shards(sorted(kept))} --of {num_shards}",
        f"# its folder shard-{number} stays; remove it once all is well",
    ]
