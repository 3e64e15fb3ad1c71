"""The run of `circadia demo dream`: the story, played over HTTP against a real server and a model."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import aiohttp

from circadia.cli.demo import dream_story as story
from circadia.cli.demo.dream_view import (
    DemoAnswer,
    DreamDisplay,
    changes_table,
    context_diff,
    describe_counts,
    ready_answers_table,
)
from circadia.cli.demo.server import DemoServer
from circadia.clock import Clock
from circadia.errors import UpstreamFailed

SESSION: Final = "demo"
UPSTREAM: Final = "model"
WHOLE: Final = "all in the prompt"
BEFORE: Final = "before: by search"
AFTER: Final = "after: learned"
POLL_SECONDS: Final = 0.1
PASS_SECONDS: Final = 45.0
"""Time limit for a pass to begin, and by default for a pass to end."""
MAX_OUTPUT_TOKENS: Final = 60
YIELD_SECONDS: Final = 5.0


@dataclass(kw_only=True)
class ScriptedEndpoint:
    pace: float
    """Seconds per answer while a pass is shown."""
    gate: asyncio.Event

    @contextlib.asynccontextmanager
    async def slow(self, clock: Clock) -> AsyncGenerator[None]:
        """Slow the answers down in the block, so that a person can follow them."""

        async def pulse() -> None:
            while True:
                await clock.sleep(self.pace)
                self.gate.set()  # releases the waiting answer only
                self.gate.clear()

        if self.pace <= 0:
            yield
            return
        self.gate.clear()
        beating = asyncio.create_task(pulse())
        try:
            yield
        finally:
            beating.cancel()
            self.gate.set()


@dataclass(kw_only=True)
class Play:
    """One run of the demo: plays the story and collects the results."""

    server: DemoServer
    http: aiohttp.ClientSession
    clock: Clock
    view: DreamDisplay
    model: str
    """Model of the agent's own calls."""
    limit_field: str
    scripted: ScriptedEndpoint | None
    local: bool = False
    """Whether the model runs on this machine and so answers one call at a time, including those of passes."""
    questions: Sequence[story.DemoQuestion] = story.QUESTIONS
    watch_seconds: float = PASS_SECONDS
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    found: dict[str, Any] = field(default_factory=dict[str, Any])

    async def play_story(self) -> Mapping[str, Sequence[DemoAnswer]]:
        """Play the story; return the answers by way of asking."""
        await self._create_session()
        self.view.say("\n[bold]Six days of talk[/bold]")
        await self._tell(story.STORY)
        columns = {WHOLE: await self._ask("plain", whole=True), BEFORE: await self._ask(story.AGENT)}
        self.view.say("\n[bold]The agent falls asleep, and a pass begins[/bold]")
        before = await self._blocks()
        await self._set_sleeping(story.AGENT, True)
        run = await self._watch_pass(await self._wait_for_pass(""))
        await self._show(run, before)
        await self._set_sleeping(story.AGENT, False)
        columns[AFTER] = await self._ask("reader")
        if not self.local:
            await self._ask_expected()
        await self._second_night(run["id"])
        return columns

    async def _create_session(self) -> None:
        """Create a session with the agent, a reader of learned context only, and an agent without memory."""
        agents: list[dict[str, Any]] = [
            {"name": story.AGENT, "bank": story.BANK, "capture": False, "answer_mode": "serve"},
            {"name": "reader", "bank": story.BANK, "capture": False, "fitting_tokens": 0},
            {"name": "plain"},
        ]
        session = await self.server.post("/sessions", {"name": SESSION, "agents": agents})
        self.tokens = {agent["name"]: agent["token"] for agent in session["agents"]}
        await self._set_sleeping("reader", True)  # a bank rests only when all its agents sleep

    async def _tell(self, lines: Sequence[story.StoryLine]) -> None:
        day = 0
        for line in lines:
            self.view.show_utterance(line, first=line.day != day)
            day = line.day
            trust = "agent" if line.speaker == story.AGENT else "person"
            body = {"text": line.text, "speaker": line.speaker, "at": line.at.isoformat(), "trust": trust}
            await self.server.post(f"/banks/{story.BANK}/episodes", {**body, "conversation": f"day {line.day}"})

    async def _ask(self, agent: str, *, whole: bool = False) -> list[DemoAnswer]:
        if agent == "reader":
            await self._set_sleeping(agent, False)
        return [await self._answer(agent, question, whole=whole) for question in self.questions]

    async def _answer(self, agent: str, asked: story.DemoQuestion, *, whole: bool = False) -> DemoAnswer:
        system = "Answer in one short sentence."
        if whole:
            lines = [f"[{line.at:%Y-%m-%d}] {line.speaker}: {line.text}" for line in story.STORY]
            system += "\nWhat was said so far:\n" + "\n".join(lines)
        body = {
            "model": self.model, self.limit_field: MAX_OUTPUT_TOKENS,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": asked.question}],
        }  # fmt: skip
        began = self.clock.monotonic()
        url = f"{self.server.url}/llm/{UPSTREAM}/v1/chat/completions"
        headers = {"Authorization": f"Bearer {self.tokens[agent]}", "x-circadia-user": story.PERSON}
        try:
            async with self.http.post(url, json=body, headers=headers) as answer:
                completion = await answer.json()
                if answer.status != 200:
                    raise UpstreamFailed(
                        f"the model call of {agent!r} answered {answer.status}: {str(completion)[:300]}"
                    )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamFailed(
                f"the model call of {agent!r} failed: {error!r}; {self.server.describe_log()}"
            ) from error
        text = str(completion["choices"][0]["message"]["content"] or "").strip()
        used: dict[str, int] = completion.get("usage") or {}
        return DemoAnswer(
            question=asked.question, answer=text, right=bool(asked.right) and asked.right.casefold() in text.casefold(),
            input_tokens=used.get("prompt_tokens", 0), output_tokens=used.get("completion_tokens", 0),
            seconds=self.clock.monotonic() - began, ready=answer.headers.get("x-circadia-answer", ""),
        )  # fmt: skip

    async def _set_sleeping(self, agent: str, value: bool) -> None:
        await self.server.post(f"/sessions/{SESSION}/agents/{agent}/sleeping", {"sleeping": value})

    async def _blocks(self) -> dict[str, str]:
        page = await self.server.get(f"/banks/{story.BANK}/blocks")
        return {block["label"]: block["value"] for block in page["blocks"]}

    async def _wait_for_pass(self, last: str) -> str:
        """Wait until a pass other than `last` begins; return its id."""
        until = self.clock.monotonic() + PASS_SECONDS
        while self.clock.monotonic() < until:
            passes = (await self.server.get(f"/banks/{story.BANK}/passes", limit="1"))["passes"]
            if passes and passes[0]["id"] != last and passes[0]["status"] != "pending":
                return str(passes[0]["id"])
            await self.clock.sleep(POLL_SECONDS)
        raise UpstreamFailed(f"no pass began within {PASS_SECONDS:g} s; {self.server.describe_log()}")

    async def _watch_pass(self, run: str) -> Mapping[str, Any]:
        until = self.clock.monotonic() + self.watch_seconds
        self.view.begin()
        try:
            async with contextlib.AsyncExitStack() as stack:
                if self.scripted is not None:
                    await stack.enter_async_context(self.scripted.slow(self.clock))
                while True:
                    state = await self.server.get(f"/passes/{run}")
                    self.view.update(state)
                    if state["ended_at"] is not None:
                        break
                    if self.clock.monotonic() > until:  # its published changes stay
                        await self.server.post(f"/passes/{run}/cancel", {})
                    await self.clock.sleep(POLL_SECONDS)
        finally:
            self.view.end()
        if state["status"] != "succeeded":  # after a failure, the next pass would wait for a while
            await self.server.post(f"/banks/{story.BANK}/sleeptime/resume", {})
        return state

    async def _show(self, run: Mapping[str, Any], before: Mapping[str, str]) -> None:
        self.view.say(f"  [bold]{run['status']}[/bold]: {describe_counts(run['counts'])} {run['detail']}")
        page = await self.server.get(f"/passes/{run['id']}/changes")
        self.view.console.print(changes_table(page["changes"]))
        self.view.say("\n[bold]What the agent has learned[/bold]")
        after = await self._blocks()
        self.view.console.print(context_diff(before, after))
        self.found["first"] = {
            "status": run["status"], "counts": run["counts"], "spent": run["spent"], "blocks": after,
        }  # fmt: skip

    async def _ask_expected(self) -> None:
        self.view.say("\n[bold]The pass has answered the expected questions ahead[/bold]")
        expected = await self._ask(story.AGENT)
        near = [await self._answer(story.AGENT, question) for question in story.NEAR]
        self.view.console.print(ready_answers_table([*expected, *near]))
        await self._tell(story.CHANGE)
        changed = await self._answer(story.AGENT, story.BUDGET)
        self.view.console.print(ready_answers_table([changed]))
        self.view.say("  A change makes each ready answer void that rests on it.")
        self.found["ahead"] = {
            "expected": [asdict(answer) for answer in expected], "near": [asdict(answer) for answer in near],
            "changed": asdict(changed),
        }  # fmt: skip

    async def _second_night(self, last: str) -> None:
        self.view.say("\n[bold]Two days later, and a second night that is disturbed[/bold]")
        await self._tell(story.NEXT_DAY)
        before = await self._blocks()
        await self._set_sleeping("reader", True)
        if self.scripted is not None:
            self.scripted.gate.clear()  # the model does not answer until the agent is woken
        await self._set_sleeping(story.AGENT, True)
        run = await self._wait_for_pass(last)
        await self._wait_until(run, lambda state: state["spent"]["calls"] > 0 or state["ended_at"] is not None)
        began = self.clock.monotonic()
        await self._set_sleeping(story.AGENT, False)
        stopped = await self._wait_until(run, lambda state: state["status"] != "running")
        took = self.clock.monotonic() - began
        if self.scripted is not None:
            self.scripted.gate.set()
        self.view.say(
            f"  A wake in the middle: the pass is {stopped['status']} after {took:.2f} s: {stopped['detail']}"
        )
        if not self.local:
            answer = await self._answer(story.AGENT, story.AWAKE)
            self.view.say(f"  The agent answers at once, in {answer.seconds:.2f} s: {answer.question} {answer.answer}")
        await self._set_sleeping(story.AGENT, True)
        self.view.say("  The agent falls asleep again, and the pass continues where it stopped:")
        ended = await self._watch_pass(run)
        self.view.say(f"  [bold]{ended['status']}[/bold]: {describe_counts(ended['counts'])} {ended['detail']}")
        learned = await self._blocks()
        self.view.console.print(context_diff(before, learned))
        self.found["second"] = {
            "status": ended["status"], "yielded": stopped["status"] == "pending", "yield_seconds": took,
            "spent": ended["spent"], "changed": learned != before,
        }  # fmt: skip
        await self._undo(ended, before)

    async def _undo(self, run: Mapping[str, Any], before: Mapping[str, str]) -> None:
        self.view.say(f"[bold]Undo of the second pass[/bold]: POST /api/v1/passes/{run['id']}/undo")
        done = await self.server.post(f"/passes/{run['id']}/undo", {})
        undone = sum(change["state"] == "undone" for change in done["changes"])
        same = await self._blocks() == before
        self.view.say(f"  {undone} changes undone; learned context as before: {'yes' if same else 'no'}")
        self.found["undo"] = {"undone": undone, "as_before": same}

    async def _wait_until(self, run: str, is_so: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        until = self.clock.monotonic() + (YIELD_SECONDS if self.scripted else self.watch_seconds)
        while True:
            state = await self.server.get(f"/passes/{run}")
            if is_so(state) or self.clock.monotonic() > until:
                return state
            await self.clock.sleep(POLL_SECONDS / 5)
