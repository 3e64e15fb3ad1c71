"""`circadia wakes chain`: messages, wakes and pulses with their causes."""

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, console, display_text, dollars, local_time, print_json, shorten
from circadia.client import Client
from circadia.schemas.fleet import UsageLine
from circadia.schemas.wakes import Chain, ChainNode

app = typer.Typer()

_LETTERS = 80
_COLOURS = {
    "admitted": "green", "coalesced": "green", "succeeded": "green", "running": "cyan", "deferred": "yellow",
    "refused": "red", "failed": "red", "timed_out": "red",
}  # fmt: skip


@app.command(epilog="Example: circadia wakes chain wak_0cwd4f7k2m")
def chain(
    server: RemoteServer,
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="ID of its first message or wake, or of any wake or pulse.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show a chain of messages, wakes and pulses as a tree, each below its cause."""

    async def fetch_chain(client: Client) -> Chain:
        first = root
        if root.startswith("wak_"):
            first = (await client.show_wake(root)).root
        elif root.startswith("pls_"):
            first = (await client.show_pulse(root)).root
        return await client.show_chain(first)

    answer = server.ask(fetch_chain)
    if as_json:
        print_json(answer)
        return
    counts = ", ".join(f"{getattr(answer, kind)} {kind}" for kind in ("messages", "wakes", "pulses"))
    title = f"{display_text(answer.root)}: {counts}, depth {answer.depth}, {_usage(answer.usage)}"
    console().print(tree(answer, Text(title, "bold")))


def tree(found: Chain, title: Text) -> Tree:
    """Return the nodes of a chain as a tree; nodes without a cause in the chain are at the top."""
    top = Tree(title)
    branches: dict[str, Tree] = {}
    for node in found.nodes:
        branches[node.id] = branches.get(node.parent or "", top).add(_line(node))
    return top


def _line(node: ChainNode) -> Text:
    who = f"{node.by} → {node.agent}" if node.kind == "wake" else node.agent
    return Text.assemble(
        (f"{local_time(node.at)[11:]} ", "dim"),
        (f"{node.kind} ", "bold"),
        f"{display_text(who)} ",
        (f"{node.state} " if node.state else "", _COLOURS.get(node.state, "")),
        shorten(display_text(node.detail), _LETTERS),
        f" ({_usage(node.usage)})" if node.usage else "",
        (f"  {node.id}", "dim"),
    )


def _usage(line: UsageLine) -> str:
    return f"{line.calls:,} calls, {line.input_tokens + line.output_tokens:,} tokens, {dollars(line.cost_usd)}"
