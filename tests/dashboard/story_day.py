"""A day of a five-agent team on a whole server whose clock is moved: for pictures, and for an operator's questions.

The team runs a web shop. Everything happens through the server's own doors: REST, hooks, the model gateway, and a
webhook launcher. Only the thirteen days before, and one dead letter, are written as the store's records.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from circadia.cli.demo import dream_model
from circadia.ids import AgentId, CallId, MessageId
from circadia.records.call import Call, CallStatus
from circadia.records.span import Span, SpanKind
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from circadia.testing.upstream import MockUpstream
from tests.interaction.event_scenes import found, ok
from tests.interaction.live import KEY, Live, live
from tests.interaction.test_launched_agents import started
from tests.interaction.test_wakes import PulseReceiver, away, until
from tests.wake.hook_senders import SECRETS, sign

DAY: Final = datetime(2026, 11, 24, tzinfo=UTC)
"""A Tuesday."""
EVE: Final = DAY - timedelta(hours=6)
"""When the team is set up."""
NOW: Final = DAY + timedelta(hours=20, minutes=40)
DAYS_BEFORE: Final = 13
MODEL, DEAR_MODEL = "gpt-5-mini", "gpt-5-pro"
THREAD: Final = "release-42"
TEAM: Final = {
    "lead": "hands out the work and answers to Ann",
    "coder": "changes the shop's code",
    "reviewer": "reads each change before it ships",
    "tester": "tries the shop as a customer would",
    "support": "answers customers' tickets",
}
RESIDENTS: Final = ("lead", "coder", "support")
"""Programs that always run: asleep, their next call is held. The others are started for a pulse."""
COORDINATION: Final[dict[str, dict[str, Any]]] = {
    "lead": {"wake_guardrails": {"cooldown_seconds": 0}},
    "coder": {
        "guard_thread_events": True,
        "pulse_timeout_seconds": 7_200,
        "wake_guardrails": {
            "cooldown_seconds": 0, "max_wakes_per_pair_per_day": 2, "max_wakes_per_session": None,
            "max_daily_session_minutes": None,
        },
    },
    "reviewer": {"launcher": "away", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0}},
    "tester": {"launcher": "away", "heartbeat_minutes": None, "wake_guardrails": {"max_daily_session_minutes": None}},
    "support": {"guard_thread_events": True, "blackouts": [{"start": "20:00", "end": "07:00", "label": "night"}]},
}  # fmt: skip
ROUTINES: Final = {
    "reviewer": {"name": "open-changes", "cron": "0 15 * * mon-fri", "instructions": "Read the open changes."},
    "tester": {"name": "morning-round", "cron": "0 8 * * *", "instructions": "Buy one of everything, and return it."},
}
_SETTINGS: Final = {"hold_grace_seconds": 60, "hold_silent_seconds": 6e5, "stall_seconds": 864_000}
_SAID: Final = (
    ("ann", "I live in Porto. The deadline of release 42 is 24 November."),
    ("ann", "Refunds above 100 euros need my yes."),
    ("lead", "The deadline of release 42 is 25 November."),
    ("ann", "Refunds above 100 euros need my yes."),
    ("coder", "The checkout times out since Monday because of the report service."),
    ("tester", "The checkout times out for carts with more than 20 items."),
)
_DEAR_QUESTION: Final = (
    "Plan the move of 2 million orders to the new table, without a stop of the shop and with a way back."
)
_WORDS: Final = ("order", "cart", "checkout", "tax", "refund", "item", "stock", "price", "customer", "retry", "timeout")
"""What the agents' prompts are made of: the provider of the tests counts a word as a token."""


def _reply(request: dict[str, Any]) -> str:
    if request.get("response_format"):
        return dream_model.reply(request)
    return " ".join(_fill(request["max_completion_tokens"]))


def _fill(count: int) -> Iterator[str]:
    return (_WORDS[number * number % len(_WORDS)] for number in range(count))


def _at(when: str) -> datetime:
    hour, minute = map(int, when.split(":"))
    return DAY + timedelta(hours=hour, minutes=minute)


class StoryTeam:
    """The agents of the story, and what they and others do."""

    def __init__(self, at: Live, clock: ManualClock, program: PulseReceiver, folder: Path) -> None:
        self.at = at
        self.clock = clock
        self.folder = folder
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.ann = ""
        """Token of the person Ann."""
        self.thread = ""
        self._program = program
        self._calls: dict[str, asyncio.Task[int]] = {}
        self._runs: dict[str, dict[str, Any]] = {}

    async def set_up(self) -> None:
        for name, description in TEAM.items():
            body: dict[str, Any] = {"name": name, "description": description, "policy": {"may_wake": ["*"]}}
            if name == "coder":
                body["policy"] |= {"approve_models": [DEAR_MODEL]}
            agent = await ok(self.at, "POST", "/sessions/default/agents", body)
            self.tokens[name], self.ids[name] = agent["token"], agent["id"]
            await ok(self.at, "PATCH", f"/agents/{name}/coordination", COORDINATION[name])
            if name in ROUTINES:
                await ok(self.at, "PUT", f"/agents/{name}/schedule", {"routines": [ROUTINES[name]]})
        self.ann = (await ok(self.at, "POST", "/tokens", {"name": "ann", "role": "operator"}))["token"]
        thread = await ok(self.at, "POST", "/sessions/default/threads", {"name": THREAD, "participants": list(TEAM)})
        self.thread = thread["id"]
        policy = {"duplicate_seconds": 0, "sleeptime": {"when": "nightly", "review": True}}
        await ok(self.at, "POST", "/banks", {"name": "shop", "description": "what the team knows", "policy": policy})
        for number, (speaker, text) in enumerate(_SAID):
            said = {"text": text, "speaker": speaker, "conversation": f"day-{number}", "trust": "person"}
            await ok(self.at, "POST", "/banks/shop/episodes", said)

    async def until(self, when: str) -> None:
        """Let the time pass until then."""
        self.clock.advance((_at(when) - self.clock.now()).total_seconds())
        await asyncio.sleep(0)

    async def fall_asleep(self, name: str, **alarm: object) -> None:
        """Let an agent put itself to sleep; if its program runs on, its next call is held."""
        await self._sleeping(True, name, token=self.tokens[name], **alarm)
        if name in RESIDENTS:
            self._calls[name] = asyncio.create_task(self._ask(self.tokens[name], 19_500, 220))
            async with asyncio.timeout(60):
                while not (await ok(self.at, "GET", f"/holds?agent={name}"))["holds"]:
                    await asyncio.sleep(0.01)

    async def wakes(self, name: str, act: Awaitable[object], *, seconds: float = 14) -> None:
        """Let something wake an agent, and its held call be answered after so many seconds."""
        async with self._answer(seconds):
            await act
        assert await self._calls.pop(name) == 200

    async def wake_by_ann(self, name: str) -> None:
        await self._sleeping(False, name, token=self.ann)

    async def work(self, name: str, tokens: int, *, written: int = 300, seconds: float = 21) -> None:
        """Let an agent call its model."""
        run = self._runs.get(name)
        async with self._answer(seconds):
            call = asyncio.create_task(self._ask(run["token"] if run else self.tokens[name], tokens, written))
        assert await call == 200

    async def mention(self, sender: str, to: str, text: str) -> None:
        body = {"from": sender, "content": f"@{to} {text}", "mentions": [to]}
        await ok(self.at, "POST", f"/sessions/default/threads/{self.thread}/messages", body, token=self.tokens[sender])

    async def ask(self, sender: str, to: str, text: str, reason: str = "blocker") -> str:
        """Let an agent ask for a wake of another, and return the decision."""
        body = {"to": to, "reason": reason, "message": text}
        wake = await ok(self.at, "POST", "/wakes", body, token=self.tokens[sender])
        return str(wake["decision"])

    async def deliver(self, hook: str, title: str) -> None:
        """Let another service post to a hook."""
        body = json.dumps({"action": "opened", "issue": {"title": title}}).encode()
        headers = sign("github", body, at=0, delivery=title)
        async with self.at.http.post(f"{self.at.url}/hooks/{hook}", data=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()

    async def begin_pulse(self, name: str, act: Awaitable[object]) -> None:
        """Let something start a pulse."""
        await act
        run = await started(self._program)
        await until(self.at, run["pulse"], "running")
        self._runs[name] = run

    async def end_pulse(self, name: str, status: str = "succeeded", detail: str = "") -> None:
        run = self._runs.pop(name)
        body = {"status": status, "epoch": run["epoch"], "detail": detail}
        await ok(self.at, "POST", f"/pulses/{run['pulse']}/end", body, token=run["token"])
        await until(self.at, run["pulse"], status)

    async def ask_dear_model(self, tokens: int) -> str:
        """Let the coder ask for a call that waits for a person, and return the id of its approval."""
        call = self._ask(self.tokens["coder"], tokens, 2_400, DEAR_MODEL)
        self._calls[DEAR_MODEL] = asyncio.create_task(call)
        return str((await found(self.at, "/approvals?status=pending", "approvals"))["id"])

    async def approve(self, approval: str, reason: str) -> None:
        async with self._answer(95):
            await ok(self.at, "POST", f"/approvals/{approval}/approve", {"reason": reason}, token=self.ann)
        assert await self._calls.pop(DEAR_MODEL) == 200

    async def dream(self) -> None:
        """Let the pass of the night run, which proposes what a person decides about."""
        async with asyncio.timeout(60):
            while (
                not (runs := (await ok(self.at, "GET", "/banks/shop/passes"))["passes"]) or runs[0]["ended_at"] is None
            ):
                self.clock.advance(1)
                await asyncio.sleep(0.01)
        assert runs[0]["counts"]["staged"] > 1, runs[0]

    async def review(self) -> None:
        """Let Ann accept what the night proposes, but for the first change."""
        (run,) = (await ok(self.at, "GET", "/banks/shop/passes"))["passes"]
        changes = (await ok(self.at, "GET", f"/passes/{run['id']}/changes"))["changes"]
        waiting = [change["number"] for change in changes if change["state"] == "staged"]
        await ok(self.at, "POST", f"/passes/{run['id']}/accept", {"numbers": waiting[1:]}, token=self.ann)

    async def set_aside(self, name: str, text: str) -> None:
        """Make a dead letter, as the last interruption of a pulse does."""
        letter = await ok(self.at, "POST", "/messages", {"to": name, "content": text, "priority": "low"})
        async with self._store() as store, store.begin_write() as tx:
            await tx.deliveries.mark_dead(AgentId(self.ids[name]), [MessageId(letter["message"])], self.clock.now())

    async def write_days_before(self) -> None:
        """Write what the team did in the days before as records."""
        async with self._store() as store:
            for back in range(DAYS_BEFORE, 0, -1):
                day = DAY - timedelta(days=back)
                share = 0.55 if day.weekday() > 4 else 0.85 + 0.05 * (back * 7 % 6)
                calls = [call for name in TEAM for call in self._calls_of_day(name, day, share)]
                async with store.begin_write() as tx:
                    await tx.calls.add(calls)
                    for name in TEAM:
                        for span in self._spans_of_day(name, day, share):
                            await tx.spans.add(span)

    def _calls_of_day(self, name: str, day: datetime, share: float) -> Iterator[Call]:
        for number in range(round(9 * share)):
            held = 15_000 * share if name in RESIDENTS and number % 3 == 0 else 0.0
            yield Call(
                id=CallId(f"call_{name}_{day:%d}_{number}"), at=day + timedelta(hours=7, minutes=59 * number),
                agent_id=AgentId(self.ids[name]), session="default", agent=name, upstream="openai",
                endpoint="chat_completions", model=MODEL, status=CallStatus.DONE, http_status=200, held_seconds=held,
                input_tokens=20_000, output_tokens=300, cost_nanousd=5_600_000, total_seconds=18.0, stop_reason="stop",
            )  # fmt: skip

    def _spans_of_day(self, name: str, day: datetime, share: float) -> Iterator[Span]:
        """Two times of sleep of an agent: by night, and about noon."""
        hours = (7.0, 7 + 4 * share, 14, 14 + 4 * share)
        begin, is_asleep = day, True
        for end in (*(day + timedelta(hours=hour) for hour in hours), min(day + timedelta(days=1), EVE)):
            kinds = [SpanKind.ASLEEP if is_asleep else SpanKind.AWAKE]
            if is_asleep and name in RESIDENTS:
                kinds.append(SpanKind.HELD)
            for kind in kinds:
                yield Span(
                    agent_id=AgentId(self.ids[name]), session="default", agent=name, started_at=begin, ended_at=end,
                    kind=kind, by=name, reason="POST /v1/chat/completions" if kind is SpanKind.HELD else "rest",
                )  # fmt: skip
            begin, is_asleep = end, not is_asleep

    @asynccontextmanager
    async def _store(self) -> AsyncGenerator[Any]:
        store = await open_sqlite(self.folder / "circadia.db")
        try:
            yield store
        finally:
            await store.close()

    async def _sleeping(self, sleeping: bool, name: str, *, token: str, **more: object) -> None:
        body = {"sleeping": sleeping, **more}
        await ok(self.at, "PUT", f"/sessions/default/agents/{name}/sleeping", body, token=token)

    async def _ask(self, token: str, tokens: int, written: int, model: str = MODEL) -> int:
        question = _DEAR_QUESTION if model == DEAR_MODEL else "What is the next step?"
        context = " ".join(_fill(tokens - len(question.split())))
        messages = [{"role": "system", "content": context}, {"role": "user", "content": question}]
        body = {"model": model, "messages": messages, "max_completion_tokens": written}
        async with self.at.call(token, body=body) as answer:
            await answer.read()
            return int(answer.status)

    @asynccontextmanager
    async def _answer(self, seconds: float) -> AsyncGenerator[None]:
        """Let the provider answer the call that the block makes or releases, after so many seconds."""
        provider = self.at.upstream
        provider.gate.clear()
        count = len(provider.requests)
        yield
        await provider.wait_for_requests(count + 1)
        self.clock.advance(seconds)
        provider.gate.set()

    async def close(self) -> None:
        for call in self._calls.values():
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)


async def play_evening_and_morning(team: StoryTeam) -> None:
    await team.until("-2:00")
    await team.fall_asleep("lead", until="2026-11-24T06:30:00Z", reason="read the orders of the night")
    await team.fall_asleep("coder")
    for name in ("reviewer", "tester", "support"):
        await team.fall_asleep(name)
    await team.until("3:00")
    await team.dream()
    await team.until("5:20")
    await team.deliver("tickets", "Refund button does nothing on Safari")
    await team.wakes("lead", team.until("6:30"))
    await team.work("lead", 21_000)
    await team.until("6:42")
    await team.wakes("coder", team.mention("lead", "coder", "the checkout times out for large carts"))
    await team.work("lead", 20_400)
    await team.until("6:55")
    await team.fall_asleep("lead")
    await team.wakes("support", team.until("7:00"))
    await team.work("coder", 24_000)
    await team.until("7:24")
    await team.work("support", 18_200)
    await team.fall_asleep("support")
    await team.until("7:38")
    await team.work("coder", 25_600)
    await team.begin_pulse("reviewer", team.ask("coder", "reviewer", "please read the retry in the checkout"))
    await team.fall_asleep("coder")
    await team.begin_pulse("tester", team.until("8:00"))
    await team.work("reviewer", 22_000)
    await team.until("8:12")
    await team.wakes("coder", team.ask("reviewer", "coder", "two findings in the retry loop", "critical_finding"))
    await team.end_pulse("reviewer")
    await team.work("tester", 19_000)
    await team.until("8:41")
    await team.end_pulse("tester")
    await team.until("9:05")
    await team.work("coder", 26_000)
    await team.begin_pulse("reviewer", team.ask("coder", "reviewer", "both findings are mended"))
    await team.fall_asleep("coder")
    await team.until("9:22")
    await team.work("reviewer", 23_000)
    await team.wakes("coder", team.ask("reviewer", "coder", "one more: the timeout is in seconds"))
    await team.until("9:40")
    await team.work("coder", 25_000)
    await team.fall_asleep("coder")
    await team.until("9:46")
    assert await team.ask("reviewer", "coder", "and the name of the variable") == "refused"
    await team.end_pulse("reviewer")


async def play_midday(team: StoryTeam) -> None:
    await team.until("10:00")
    await team.begin_pulse("tester", team.deliver("builds", "Build 1187 of release 42 is ready"))
    await team.until("10:14")
    await team.end_pulse("tester", "failed", "cannot reach the build farm")
    await team.until("10:40")
    await team.begin_pulse("tester", team.deliver("builds", "Build 1188 of release 42 is ready"))
    await team.work("tester", 18_000)
    await team.until("11:00")
    await team.review()
    await team.wakes("lead", team.wake_by_ann("lead"))
    await team.work("lead", 21_500)
    await team.until("11:12")
    await team.end_pulse("tester")
    await team.wakes("support", team.mention("lead", "support", "tell the customers that the refund works again"))
    await team.work("lead", 20_800)
    await team.fall_asleep("lead")
    await team.until("11:45")
    await team.work("support", 19_800)
    await team.fall_asleep("support", until="2026-11-24T16:00:00Z", reason="ask the customer again")
    await team.until("12:20")
    await team.wakes("coder", team.mention("lead", "coder", "how do we move the orders to the new table?"))
    await team.until("12:30")
    approval = await team.ask_dear_model(31_000)
    await team.until("12:52")
    await team.approve(approval, "worth it: 2 million orders")
    await team.until("13:35")
    await team.work("coder", 27_000)
    await team.fall_asleep("coder")


async def play_afternoon(team: StoryTeam) -> None:
    await team.until("14:05")
    await team.wakes("lead", team.mention("support", "lead", "a customer asks for 140 euros back"))
    await team.work("lead", 21_200)
    await team.until("14:20")
    await team.fall_asleep("lead")
    await team.begin_pulse("reviewer", team.until("15:00"))
    await team.work("reviewer", 24_500)
    await team.until("15:26")
    await team.end_pulse("reviewer")
    await team.wakes("support", team.until("16:00"))
    await team.until("16:18")
    await team.work("support", 18_900)
    await team.fall_asleep("support")
    await team.until("17:05")
    await team.wakes("lead", team.wake_by_ann("lead"))
    await team.begin_pulse("tester", team.ask("lead", "tester", "try the refund before we ship", "user_request"))
    await team.work("lead", 22_000)
    await team.until("17:30")
    await team.work("tester", 19_600)
    await team.end_pulse("tester")
    await team.until("17:40")
    await team.set_aside("tester", "the cart with 200 items is still slow")
    await team.fall_asleep("lead", until="2026-11-25T06:30:00Z", reason="read the orders of the night")
    await team.until("19:30")
    await team.wakes("coder", team.wake_by_ann("coder"))
    await team.work("coder", 26_400)
    await team.until("20:10")
    await team.ask_dear_model(36_000)
    await team.begin_pulse("tester", team.deliver("builds", "Build 1189 of release 42 is ready"))
    await team.until("20:40")


@asynccontextmanager
async def play_story_day(folder: Path) -> AsyncGenerator[StoryTeam]:
    """Play the day on a server of its own, which goes on at 20:40 of it."""
    clock = ManualClock(EVE)
    secret = {"GITHUB_SECRET": SECRETS["github"]}
    hook = {"signature": "github", "secret_env": "GITHUB_SECRET"}
    hooks = {
        "tickets": {**hook, "agent": "support", "wake": "user_request"},
        "builds": {**hook, "agent": "tester", "wake": "blocker"},
    }
    async with PulseReceiver().open() as program, MockUpstream(key=KEY, reply=_reply) as provider:
        sections = away(program.url)
        sections["environment"] |= secret
        sleeptime = {"model": {"upstream": "openai", "name": "gpt-5-nano"}}
        async with live(
            folder, clock=clock, provider=provider, timings=_SETTINGS, hooks=hooks, sleeptime=sleeptime, **sections
        ) as at:
            at.listener.config.date_header = False  # pages would take the machine's time from it
            await at.listener.on_tick(0)
            team = StoryTeam(at, clock, program, folder)
            await team.set_up()
            await team.write_days_before()
            try:
                await play_evening_and_morning(team)
                await play_midday(team)
                await play_afternoon(team)
                await at.server.journal.flush()
                yield team
            finally:
                await team.close()
