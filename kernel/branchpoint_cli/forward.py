"""`branchpoint forward`: a machine's port on this host, opened by the session's owner."""

import argparse
import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from branchpoint_cli.completing import branches, completed, sessions
from branchpoint_cli.screen import as_json
from branchpoint_cli.sessions import HELP, meant
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.forwarding import ADDRESS, Forward
from branchpoint_vmruntime.session_control import SessionControl

_MAX_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    words = "the port inside; without it, list"
    parser.add_argument("port", metavar="PORT", nargs="?", type=_port, help=words)
    parser.add_argument("--to", type=_port, metavar="HOSTPORT", help="the port on this host")
    words = "stay with this branch, whichever is the current one"
    completed(parser.add_argument("--branch", metavar="NAME", help=words), branches)
    completed(parser.add_argument("--session", metavar="SESSION", help=HELP), sessions)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the forwards there are")
    what.add_argument("--stop", action="store_true", help="end a forward")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(misused=parser.error)


def run(options: argparse.Namespace, console: Console) -> int:
    """Forward a port of a session's machine to 127.0.0.1, list what is forwarded, or end it."""
    if options.port is None and (options.stop or options.to or options.branch):
        options.misused("say which port")
    asyncio.run(_run(options, console))
    return 0


async def _run(options: argparse.Namespace, console: Console) -> None:
    home = Home.default()
    session = await meant(home, options.session)
    async with SessionControl(home.control(session.id)) as control:
        if options.list or options.port is None:
            _show_all(await control.forwards(), options, console)
        elif options.stop:
            _show(await control.unforward(options.port, branch=options.branch), options, console)
        else:
            made = await control.forward(options.port, to=options.to, branch=options.branch)
            _show(made, options, console)


def _show(forward: Forward, options: argparse.Namespace, console: Console) -> None:
    if options.json:
        as_json(forward, console)
        return
    place = f"{ADDRESS}:{forward.host_port}"
    if options.stop:
        console.print(f"[green]✓[/] {place} is closed")
        return
    of = escape(_leads_to(forward))
    console.print(f"[green]✓[/] http://{place} leads to port {forward.port} of {of}")
    if not forward.answered:
        console.print(
            f"[yellow]![/] nothing listens at port {forward.port} in there yet;"
            " the forward works once something does"
        )


def _show_all(forwards: Sequence[Forward], options: argparse.Namespace, console: Console) -> None:
    if options.json:
        as_json(forwards, console)
        return
    if not forwards:
        console.print("no port is forwarded")
        return
    table = Table("on this host", "port inside", "of", "connections", "", show_edge=False)
    for forward in forwards:
        table.add_row(
            f"http://{ADDRESS}:{forward.host_port}",
            str(forward.port),
            escape(_leads_to(forward)),
            str(forward.connections),
            "" if forward.answered else "nothing listens there",
        )
    console.print(table)


def _leads_to(forward: Forward) -> str:
    return forward.branch or "the current branch"


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 1 to {_MAX_PORT}")
    return int(text)
