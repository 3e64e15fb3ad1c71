"""`circadia demo dream`: a person tells an agent things, the agent sleeps, and what it knows is worked out meanwhile.

A real server is asked over its real doors. Without `--model` the model is scripted, and the demo says so.
"""

import asyncio
import contextlib
import importlib
import json
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import aiohttp
import typer
from rich.console import Console

from circadia.cli.demo import server, story
from circadia.cli.demo.command import (
    DEFAULT_PRICE,
    TERMINATED,
    DemoOptions,
    app,
    base_url_of,
    key_of,
    model_server,
    run_until_stopped,
)
from circadia.cli.demo.dream_play import AFTER, BEFORE, PASS_SECONDS, UPSTREAM, WHOLE, Play, ScriptedEndpoint
from circadia.cli.demo.dream_story import BANK, QUESTIONS
from circadia.cli.demo.dream_view import DemoAnswer, DreamDisplay, comparison_table
from circadia.cli.demo.points import conclude, missing_points
from circadia.cli.demo.price import price_list
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest

SCRIPTED: Final = "scripted"
LOCAL_CALLS: Final = 4
"""Model calls of a pass on a local model: the small one takes seconds for each."""
LOCAL_QUESTIONS: Final = 2
LOCAL_SECONDS: Final = 20.0
"""How long a pass on a local model may take."""
SMALLER: Final = (
    "The model is scripted: it answers by fixed rules (the line of its prompt that shares the most words with the "
    "question), a word counts as a token, and it takes no time. Server, doors, passes, ledger and undo are real."
)
LOCAL: Final = (
    "The bundled model is tiny: it keeps to the protocol, and little of what it writes passes the rules of a "
    "publication. What it makes up is refused; what needs no model is done all the same."
)


@app.command(epilog="Example: circadia demo dream --pause-seconds 0")
def dream(
    model: Annotated[
        str | None,
        typer.Option(help="A real model in place of the scripted one: of --upstream, or a local one such as smollm2."),
    ] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Base URL of an OpenAI-compatible provider of the model.")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the provider's key.")] = None,
    price_as: Annotated[str | None, typer.Option(help="Model whose list price is shown.")] = None,
    limit_field: Annotated[
        str, typer.Option(help="Name of the output limit in requests; some providers know only max_tokens.")
    ] = "max_completion_tokens",
    pause_seconds: Annotated[
        float, typer.Option("--pause-seconds", min=0, max=5, help="What an answer of the scripted model takes.")
    ] = 0.6,
    as_json: Annotated[bool, typer.Option("--json", help="Print what came of it as JSON and nothing else.")] = False,
) -> None:
    """Tell an agent things, let it sleep, watch the pass, and ask the same questions before and after."""
    if upstream is not None and model is None:
        raise InvalidRequest("--upstream needs --model, the name of the provider's model.")
    prices = price_list(price_as or (model if upstream and model else DEFAULT_PRICE), required=price_as is not None)
    plan = DemoOptions(
        upstream=base_url_of(upstream), model=model or SCRIPTED, key_env=key_of(key_env, upstream),
        limit_field=limit_field, prices=prices, quiet=as_json,
        scale=story.TimeScale(run_seconds=1, client_wait_seconds=story.CLIENT_WAIT_SECONDS),
    )  # fmt: skip
    console = Console(quiet=as_json, stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="circadia-demo-") as folder:
        try:
            found = asyncio.run(
                run_until_stopped(_play(Path(folder), plan, console, pause=0 if as_json else pause_seconds))
            )
        except asyncio.CancelledError:
            raise typer.Exit(TERMINATED) from None
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    conclude(found["not_shown"])


def missing(found: Mapping[str, Any]) -> Sequence[str]:
    """Return the points that a run has not shown."""
    right = {way: sum(each["right"] for each in rows) for way, rows in found["answers"].items()}
    second = found["second"]
    points: dict[str, bool] = {
        "what an agent learns in its sleep": found["first"]["status"] == "succeeded",
        "as many right answers from what was learned as from a search": right[AFTER] >= max(1, right[BEFORE]),
        "a pass that yields to a wake, and goes on later": second["yielded"] and second["status"] == "succeeded",
        "an undo after which all is as before": found["undo"]["as_before"],
    }
    if ahead := found.get("ahead"):
        hits = [each["ready"] == "hit" for each in ahead["expected"]]
        points["an answer that was ready before it was asked for"] = any(hits)
        points["a ready answer that is void once what it rests on changes"] = ahead["changed"]["ready"] != "hit"
    return missing_points(points)


async def _play(folder: Path, plan: DemoOptions, console: Console, *, pause: float) -> dict[str, Any]:
    clock = SystemClock()
    view = DreamDisplay(console, plan.prices)
    began = clock.monotonic()
    async with contextlib.AsyncExitStack() as stack:
        scripted: ScriptedEndpoint | None = None
        if plan.model == SCRIPTED:
            view.say(SMALLER)
            address, scripted = await stack.enter_async_context(_scripted_model(pause))
        else:
            view.say(f"The model is {plan.model}. {'' if plan.upstream else LOCAL}")
            _, address = await stack.enter_async_context(model_server(plan, folder, console))
        running = await stack.enter_async_context(server.run_server(folder, _settings(plan, address), clock))
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)))
        play = Play(
            server=running, http=http, clock=clock, view=view, model=plan.model, limit_field=plan.limit_field,
            scripted=scripted,
            local=_local(plan),
            questions=QUESTIONS[:LOCAL_QUESTIONS] if _local(plan) else QUESTIONS,
            watch_seconds=LOCAL_SECONDS if _local(plan) else PASS_SECONDS,
        )  # fmt: skip
        columns = await play.play_story()
    view.say()
    console.print(comparison_table(columns))
    view.say(
        f"[dim]{AFTER}: the learned context alone, without a search, from the morning after the first night.[/dim]"
    )
    _report_break_even(view, columns, play.found)
    seconds = clock.monotonic() - began
    view.say(f"[dim]{seconds:.0f} s in all. {SMALLER if scripted else ''}[/dim]")
    answers = {way: [asdict(each) for each in rows] for way, rows in columns.items()}
    found = {
        "model": plan.model, "scripted": scripted is not None, "seconds": seconds, "answers": answers, **play.found
    }  # fmt: skip
    return {**found, "not_shown": missing(found)}


@contextlib.asynccontextmanager
async def _scripted_model(pause: float) -> AsyncGenerator[tuple[str, ScriptedEndpoint]]:
    """Run the scripted model; yield its address, and what moves it."""
    # They load what passes are made of, which no other command should wait for.
    upstream = importlib.import_module("circadia.testing.upstream")
    reply = importlib.import_module("circadia.cli.demo.dream_model").reply
    async with upstream.MockUpstream(reply=reply) as model:
        yield model.base_url, ScriptedEndpoint(pace=pause, gate=model.gate)


def _local(plan: DemoOptions) -> bool:
    return plan.model != SCRIPTED and plan.upstream is None


def _settings(plan: DemoOptions, address: str) -> dict[str, Any]:
    """Return the server's configuration: a pass begins when the agent sleeps, and for nothing else."""
    provider: dict[str, Any] = {"base_url": address, "api": "openai"}
    if plan.key_env:
        provider["key_env"] = plan.key_env
    local = _local(plan)
    sleeptime: dict[str, Any] = {
        "model": {"upstream": UPSTREAM, "name": plan.model, "local": local, "timeout_seconds": 40},
        "when": "manual", "asleep": True,
    }  # fmt: skip
    if local:
        sleeptime["budget"] = {"per_pass": {"calls": LOCAL_CALLS}}
    return {
        "upstreams": {UPSTREAM: provider}, "banks": {BANK: {}}, "sleeptime": sleeptime, "answers": {"questions": 10},
    }  # fmt: skip


def _report_break_even(
    view: DreamDisplay, columns: Mapping[str, Sequence[DemoAnswer]], found: Mapping[str, Any]
) -> None:
    """Say when the pass has paid for itself, if it has."""
    whole, after = (sum(each.input_tokens for each in columns[way]) / len(columns[way]) for way in (WHOLE, AFTER))
    spent: int = found["first"]["spent"]["tokens"]
    if found["first"]["status"] != "succeeded":
        view.say(
            f"The first pass is {found['first']['status']}: nothing was learned from this model, and nothing was lost. "
            "What was said waits for the next pass."
        )
    elif whole > after:
        questions = spent / (whole - after)
        view.say(
            f"The pass took {spent:,} tokens while nobody waited. Against the whole history in each prompt it has paid "
            f"for itself after {questions:.0f} questions at the same price for a token; the longer the history, the "
            "sooner."
        )
    else:
        view.say(f"The pass took {spent:,} tokens; a history as short as this one is cheaper to read each time.")
