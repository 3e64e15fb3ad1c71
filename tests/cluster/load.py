"""Requests of several clients while faults happen, the answers that they got, and what must hold of the rows after it.

Each request carries an idempotency key and is sent again until it is acknowledged, at any gateway. So at the end each
one is there exactly once, whatever was killed or cut meanwhile.
"""

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aiohttp

from tests.cluster.doors import NO_LIMITS
from tests.cluster.four_processes import Cluster
from tests.cluster.scene import PauseWatcher
from tests.durability.waking import where_it_is_midday

WRITERS: Final = 4
"""Clients that write at the same time."""
BANK: Final = "notes"
PASSED_BANK: Final = "dreams"
"""Bank of the passes. The load adds nothing to it: a pass yields to that for a minute."""
LAUNCHED: Final = ("ann", "bob", "cid")
"""Agents whose pulses workers run; one that has a pulse defers further wakes."""
CAPPED: Final = "max"
CAP: Final = 7
"""Most wakes of this agent a day; far more are asked for."""
RESIDENT: Final = "res"
SECONDS_OF_A_REQUEST: Final = 15.0
"""Then it is sent again, for example to another gateway than one that stands still."""
SETTLE_SECONDS: Final = 60.0
"""For a machine that is busy, and for pauses before further attempts, beside the leases."""
ENDED: Final = frozenset({"succeeded", "failed", "timed_out", "cancelled", "interrupted"})
PASS_ENDED: Final = frozenset({"succeeded", "no_change", "partial", "failed", "cancelled", "skipped"})
_NO_ANSWER: Final = 599
_FAULTS: Final = (aiohttp.ClientError, TimeoutError)

Ids = tuple[str | None, ...]


class Load:
    """Clients of the gateways, and what was acknowledged to them."""

    def __init__(self, cluster: Cluster, source: random.Random) -> None:
        self.cluster = cluster
        self.requests: dict[str, tuple[str, Mapping[str, object]]] = {}
        """Path and body by idempotency key."""
        self.ids: dict[str, Ids] = {}
        """Ids in the first answer, by idempotency key."""
        self.refusals: Counter[int] = Counter()
        """Answers that told a client to try again, by status."""
        self.failures: list[str] = []
        self.asleep = False
        """Last acknowledged state of the resident agent."""
        self._random = source
        self._numbers = itertools.count(1)
        self._is_over = asyncio.Event()

    async def prepare(self) -> None:
        """Create the agents and the bank."""
        for bank in (BANK, PASSED_BANK):
            await self._create("/banks", {"name": bank})
        await self._create(f"/banks/{PASSED_BANK}/episodes", {"text": "I have moved to Porto.", "speaker": "ann"})
        await self._create("/sessions/default/agents", {"name": RESIDENT, "policy": {"may_wake": ["*"]}})
        for name in (*LAUNCHED, CAPPED):
            await self._create("/sessions/default/agents", {"name": name, "sleep_events": ["agent_started"]})
            limits: dict[str, object] = {
                **NO_LIMITS, "launcher": "brief", "on_busy": "defer", "zone": where_it_is_midday(),
                "wake_guardrails.max_wakes_per_day": CAP if name == CAPPED else None,
            }  # fmt: skip
            await self.cluster.gateways[0].call("PATCH", f"/agents/{name}/coordination", limits)

    async def _create(self, path: str, body: Mapping[str, object]) -> None:
        await self.cluster.gateways[0].call("POST", path, body)

    async def wait_for_more(self, number: int) -> None:
        """Return once so many more requests are acknowledged."""
        wanted = len(self.ids) + number
        async with asyncio.timeout(SETTLE_SECONDS):
            while len(self.ids) < wanted:
                assert not self.failures, self.failures[:10]
                await asyncio.sleep(0.02)

    async def wait_for_refusal(self) -> None:
        """Return once a client was told with 503 to try again."""
        before = self.refusals[503]
        async with asyncio.timeout(SETTLE_SECONDS):
            while self.refusals[503] == before:
                await asyncio.sleep(0.02)

    async def wait_until_back(self, seconds: float) -> None:
        """Return once each gateway takes writes and all are ready; fail if that lasts longer, load aside."""
        watcher, loop = PauseWatcher(), asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(SETTLE_SECONDS):
            for number, gateway in enumerate(self.cluster.gateways):
                body = {"text": f"back {number}", "speaker": "ann"}
                url = f"{gateway.url}/api/v1/banks/{PASSED_BANK}/episodes"
                while (await self._post(url, body)) != 201:
                    await asyncio.sleep(0.05)
            for process in self.cluster.processes:
                while not await self._is_ready(process.url):
                    await asyncio.sleep(0.05)
        took = loop.time() - began
        print(f"all gateways write again after {took:.2f} s")
        assert took < seconds + 2 * watcher.stop()

    async def _is_ready(self, url: str) -> bool:
        async with self.cluster.http.get(f"{url}/readyz") as response:
            return response.status == 200

    async def _post(self, url: str, body: Mapping[str, object]) -> int:
        async with self.cluster.http.post(url, json=body) as response:
            return response.status

    def stop(self) -> None:
        self._is_over.set()

    async def run(self) -> None:
        """Send requests until `stop`; return once each is acknowledged."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self._write())
                group.create_task(self._change_sleep())
                group.create_task(self._request_passes())
        except ExceptionGroup as error:
            self.failures += map(repr, error.exceptions)
            raise

    async def _write(self) -> None:
        requests = (self._message, self._wake, self._wake, self._remember, self._remember)
        while not self._is_over.is_set():
            path, body = self._random.choice(requests)()
            key = f"k{next(self._numbers)}"
            self.requests[key] = path, {**body, "key": key}
            if (ids := await self._send_until_acknowledged(key)) is not None:
                self.ids[key] = ids
            await asyncio.sleep(self._random.uniform(0, 0.05))

    def _message(self) -> tuple[str, Mapping[str, object]]:
        return "/messages", {"to": self._random.choice(LAUNCHED), "content": "for later"}

    def _wake(self) -> tuple[str, Mapping[str, object]]:
        to = self._random.choice((*LAUNCHED, CAPPED))
        return "/wakes", {"to": to, "reason": "blocker", "message": "help"}

    def _remember(self) -> tuple[str, Mapping[str, object]]:
        return f"/banks/{BANK}/episodes", {"text": f"number {next(self._numbers)}", "speaker": "ann"}

    async def _change_sleep(self) -> None:
        path = f"/sessions/default/agents/{RESIDENT}/sleeping"
        while not self._is_over.is_set():
            if await self._repeat("PUT", path, {"sleeping": not self.asleep}) is not None:
                self.asleep = not self.asleep
            await asyncio.sleep(0.1)

    async def _request_passes(self) -> None:
        while not self._is_over.is_set():
            await self._repeat(
                "POST", f"/banks/{PASSED_BANK}/passes", {"full": True}, also_right=409
            )  # the last one has not ended
            await asyncio.sleep(0.5)

    async def _send_until_acknowledged(self, key: str) -> Ids | None:
        path, body = self.requests[key]
        answer = await self._repeat("POST", path, body)
        return None if answer is None else tuple(answer.get(name) for name in ("id", "message", "wake"))

    async def _repeat(self, method: str, path: str, body: Mapping[str, object], *, also_right: int = 200) -> Any:
        """Send a request to any gateway until it is acknowledged. Return its answer, or None if that is wrong."""
        while True:
            try:
                status, answer = await self.send(method, path, body)
            except _FAULTS:
                status, answer = _NO_ANSWER, None
            if status < 400 or status == also_right:
                return answer
            if status not in (_NO_ANSWER, 503):
                self.failures.append(f"{method} {path} {body} -> {status} {answer}")
                return None
            self.refusals[status] += 1
            await asyncio.sleep(0.05)

    async def send(self, method: str, path: str, body: Mapping[str, object]) -> tuple[int, Any]:
        """Send a request to any gateway once; return status and answer."""
        url = f"{self._random.choice(self.cluster.gateways).url}/api/v1{path}"
        limit = aiohttp.ClientTimeout(total=SECONDS_OF_A_REQUEST)
        async with self.cluster.http.request(method, url, json=body, timeout=limit) as response:
            return response.status, json.loads(await response.read())


class FeedReader:
    """Follows the events at any gateway; when its connection breaks, it resumes with Last-Event-ID at another."""

    def __init__(self, cluster: Cluster, source: random.Random) -> None:
        self.numbers: list[int] = []
        self._cluster = cluster
        self._random = source
        self._arrived = asyncio.Event()

    async def run(self) -> None:
        while True:
            with suppress(*_FAULTS):
                await self._follow()
            await asyncio.sleep(0.05)

    async def _follow(self) -> None:
        url = f"{self._random.choice(self._cluster.gateways).url}/api/v1/events/stream"
        headers = {"Last-Event-ID": str(self.numbers[-1] if self.numbers else 0)}
        limit = aiohttp.ClientTimeout(total=self._random.uniform(2, 10))  # so that it also goes on where all is well
        async with self._cluster.http.get(url, headers=headers, timeout=limit) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data: "):
                    self.numbers.append(json.loads(line[6:])["number"])
                    self._arrived.set()

    async def wait_for(self, number: int) -> None:
        async with asyncio.timeout(SETTLE_SECONDS):
            while number not in self.numbers[-1:]:
                self._arrived.clear()
                await self._arrived.wait()


async def read_pages(cluster: Cluster, path: str, name: str, cursor: str, limit: int = 1000) -> list[dict[str, Any]]:
    """Return the rows of all pages of a list; `cursor` is the parameter of the next page."""
    rows: list[dict[str, Any]] = []
    more = ""
    while True:
        page = await cluster.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{more}")
        rows += page[name]
        if len(page[name]) < limit:
            return rows
        more = f"&{cursor}={page[cursor]}"


async def wait_until_settled(cluster: Cluster) -> None:
    """Return once no pulse, pass or deferred wake is open, at the latest when leases and their watches are over."""
    async with asyncio.timeout(3 * cluster.lease_seconds + SETTLE_SECONDS):
        while await find_open(cluster):
            await asyncio.sleep(0.2)


async def find_open(cluster: Cluster) -> list[Any]:
    """Return what has not ended yet: first the deferred wakes, since they may become pulses."""
    deferred = (await cluster.get("/wakes?decision=deferred"))["wakes"]
    pulses = [
        pulse for name in (*LAUNCHED, CAPPED) for pulse in (await cluster.get(f"/agents/{name}/pulses"))["pulses"]
    ]
    passes = (await cluster.get(f"/banks/{PASSED_BANK}/passes"))["passes"]
    return [*deferred, *(row for row in (*pulses, *passes) if row["ended_at"] is None)]


@asynccontextmanager
async def under_load(cluster: Cluster, source: random.Random) -> AsyncGenerator[Load]:
    """Load the cluster within the block; afterwards check that all is as it was acknowledged."""
    load = Load(cluster, source)
    await load.prepare()
    readers = [FeedReader(cluster, random.Random(source.random())) for _ in range(2)]
    following = [asyncio.create_task(reader.run()) for reader in readers]
    running = asyncio.create_task(load.run())
    try:
        yield load
        await cluster.wait_until_started()
        load.stop()
        await running
        await wait_until_settled(cluster)
        await check_all(load, readers)
    finally:
        for task in (running, *following):
            task.cancel()
        await asyncio.gather(running, *following, return_exceptions=True)


async def check_all(load: Load, readers: list[FeedReader]) -> None:
    assert not load.failures, load.failures[:10]
    print(f"{len(load.ids)} writes acknowledged; answers to send again: {dict(load.refusals)}")
    checks: list[Callable[[Load], Awaitable[None]]] = [
        check_repeats, check_messages_and_episodes, check_wakes, check_ends, check_sleep,
    ]  # fmt: skip
    for check in checks:
        await check(load)
    events = [event["number"] for event in await read_pages(load.cluster, "/events", "events", "after")]
    for reader in readers:
        await reader.wait_for(events[-1])
        assert reader.numbers == events, "a reader of the events missed one or got one twice"


async def check_repeats(load: Load) -> None:
    """A request that is repeated gets the ids of its first answer."""
    for key, ids in load.ids.items():
        path, body = load.requests[key]
        status, answer = await load.send("POST", path, body)
        assert status in (200, 201), answer
        assert tuple(answer.get(name) for name in ("id", "message", "wake")) == ids, (key, path)


async def check_messages_and_episodes(load: Load) -> None:
    """Each acknowledged message and episode is there once, and nothing else."""
    states = "&".join(f"state={state}" for state in ("unread", "leased", "handled", "dead"))
    inboxes = [
        await read_pages(load.cluster, f"/agents/{name}/inbox?order=oldest&{states}", "messages", "after")
        for name in (*LAUNCHED, CAPPED)
    ]
    expected = Counter(ids[1] for ids in load.ids.values() if ids[1] is not None)
    assert Counter(message["id"] for inbox in inboxes for message in inbox) == expected
    assert not [message for inbox in inboxes for message in inbox if message["state"] == "leased"]
    episodes = await read_pages(load.cluster, f"/banks/{BANK}/episodes", "episodes", "after")
    assert Counter((row["key"], row["id"]) for row in episodes) == Counter(
        (key, ids[0]) for key, ids in load.ids.items() if ids[0] is not None
    )


async def check_wakes(load: Load) -> None:
    """Each acknowledged wake is there once; each admitted one has its pulse; the counts are those of the rows."""
    rows = await read_pages(load.cluster, "/wakes", "wakes", "before")
    wakes = [wake for wake in rows if wake["agent"] in (*LAUNCHED, CAPPED)]
    assert Counter(wake["id"] for wake in wakes) == Counter(ids[2] for ids in load.ids.values() if ids[2] is not None)
    admitted = [wake for wake in wakes if wake["decision"] == "admitted"]
    for name in (*LAUNCHED, CAPPED):
        counted = [wake for wake in admitted if wake["agent"] == name and wake["charge"] == "charged"]
        stats = await load.cluster.get(f"/agents/{name}/wake-stats")
        assert stats["wakes_today"] == len(counted)
        assert name != CAPPED or len(counted) <= CAP
        pulses = await read_pages(load.cluster, f"/agents/{name}/pulses", "pulses", "before")
        assert Counter(pulse["wake"] for pulse in pulses) == Counter(
            wake["id"] for wake in admitted if wake["agent"] == name
        )


async def check_ends(load: Load) -> None:
    """Each pulse and each pass has ended once."""
    for kind, ends, paths in (
        ("pulse", ENDED, [f"/agents/{name}/pulses" for name in (*LAUNCHED, CAPPED)]),
        ("pass", PASS_ENDED, [f"/banks/{PASSED_BANK}/passes"]),
    ):
        name = "pulses" if kind == "pulse" else "passes"
        rows = [row for path in paths for row in await read_pages(load.cluster, path, name, "before")]
        events = await read_pages(load.cluster, f"/events?type={kind}", "events", "after")
        ids = {row["id"] for row in rows}
        ended = Counter(
            event["data"][kind] for event in events if event["data"]["status"] in ends and event["data"][kind] in ids
        )
        assert ended == Counter(row["id"] for row in rows), f"each {kind} must end once"


async def check_sleep(load: Load) -> None:
    row = await load.cluster.get(f"/sessions/default/agents/{RESIDENT}")
    assert row["sleeping"] == load.asleep
