"""`circadia demo dream`: a person tells an agent things, and a pass works on its memory while the agent sleeps.

The demo runs a real server and uses it over HTTP. Without `--model` the model is scripted, and the demo says so.
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
from circadia.cli.demo.result import conclude, missing_points, price_list
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest

SCRIPTED: Final = "scripted"
LOCAL_CALLS: Final = 4
"""Model calls per pass on a local model, which takes seconds for each."""
LOCAL_QUESTIONS: Final = 2
LOCAL_SECONDS: Final = 20.0
SMALLER: Final = (
    "The model is scripted: it answers with the line of its prompt that shares the most words with the question, "
    "counts a word as a token, and takes no time. The server, its APIs, passes, ledger and undo are real."
)
LOCAL: Final = (
    "The local model is tiny: it follows the protocol, but few of its texts pass the publication rules. The pass "
    "refuses invented facts, and still does the work that needs no model."
)


@app.command(epilog="Example: circadia demo dream --pause-seconds 0")
def dream(
    model: Annotated[
        str | None,
        typer.Option(help="Real model instead of the scripted one: of --upstream, or a local one such as smollm2."),
    ] = None,
    upstream: Annotated[str | None, typer.Option(help="Base URL of the model's OpenAI-compatible provider.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the provider's key.")] = None,
    price_as: Annotated[str | None, typer.Option(help="Model whose list price the demo shows.")] = None,
    limit_field: Annotated[
        str, typer.Option(help="Name of the output limit in requests; some providers accept only max_tokens.")
    ] = "max_completion_tokens",
    pause_seconds: Annotated[
        float, typer.Option("--pause-seconds", min=0, max=5, help="Seconds per answer of the scripted model.")
    ] = 0.6,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the results, as JSON.")] = False,
) -> None:
    """Tell an agent things, let it sleep, watch the pass, and compare its answers before and after."""
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
            results = asyncio.run(
                run_until_stopped(_play(Path(folder), plan, console, pause=0 if as_json else pause_seconds))
            )
        except asyncio.CancelledError:
            raise typer.Exit(TERMINATED) from None
    if as_json:
        typer.echo(json.dumps(results, indent=2))
    conclude(results["not_shown"])


def missing(results: Mapping[str, Any]) -> Sequence[str]:
    right = {method: sum(row["right"] for row in rows) for method, rows in results["answers"].items()}
    second = results["second"]
    points: dict[str, bool] = {
        "what an agent learns in its sleep": results["first"]["status"] == "succeeded",
        "as many right answers from what was learned as from a search": right[AFTER] >= max(1, right[BEFORE]),
        "a pass that yields to a wake, and goes on later": second["yielded"] and second["status"] == "succeeded",
        "an undo after which all is as before": results["undo"]["as_before"],
    }
    if ahead := results.get("ahead"):
        hits = [answer["ready"] == "hit" for answer in ahead["expected"]]
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
    view.say(f"[dim]{AFTER}: only the learned context of the first night, without a search.[/dim]")
    _report_break_even(view, columns, play.found)
    seconds = clock.monotonic() - began
    view.say(f"[dim]{seconds:.0f} s in all. {SMALLER if scripted else ''}[/dim]")
    answers = {method: [asdict(row) for row in rows] for method, rows in columns.items()}
    results = {
        "model": plan.model, "scripted": scripted is not None, "seconds": seconds, "answers": answers, **play.found
    }  # fmt: skip
    return {**results, "not_shown": missing(results)}


@contextlib.asynccontextmanager
async def _scripted_model(pause: float) -> AsyncGenerator[tuple[str, ScriptedEndpoint]]:
    """Run the scripted model; yield its address and its endpoint."""
    # Imported here because they load the libraries of passes.
    upstream = importlib.import_module("circadia.testing.upstream")
    reply = importlib.import_module("circadia.cli.demo.dream_model").reply
    async with upstream.MockUpstream(reply=reply) as model:
        yield model.base_url, ScriptedEndpoint(pace=pause, gate=model.gate)


def _local(plan: DemoOptions) -> bool:
    return plan.model != SCRIPTED and plan.upstream is None


def _settings(plan: DemoOptions, address: str) -> dict[str, Any]:
    """Return the server's configuration: a pass starts only when the agent falls asleep."""
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
    view: DreamDisplay, columns: Mapping[str, Sequence[DemoAnswer]], results: Mapping[str, Any]
) -> None:
    """Print after how many questions the pass has paid for itself, if ever."""
    whole, after = (
        sum(answer.input_tokens for answer in answers) / len(answers) for answers in (columns[WHOLE], columns[AFTER])
    )
    spent: int = results["first"]["spent"]["tokens"]
    if results["first"]["status"] != "succeeded":
        view.say(
            f"The first pass is {results['first']['status']}: it learned nothing with this model, and lost nothing. "
            "The conversation waits for the next pass."
        )
    elif whole > after:
        questions = spent / (whole - after)
        view.say(
            f"The pass took {spent:,} tokens while nobody waited. Compared with the whole history in each prompt, it "
            f"pays for itself after {questions:.0f} questions at the same price per token; the longer the history, "
            "the sooner."
        )
    else:
        view.say(f"The pass took {spent:,} tokens; with so short a history, it is cheaper to read all of it each time.")
