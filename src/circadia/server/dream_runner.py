"""Runs the dreams of a server: over folders when they are due, and over folders and banks when somebody asks.

A dream may be begun again wherever it was interrupted. So a job that was running when its process ended is simply taken
up by the next look; over folders, the folder's lock says that nobody else still dreams.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from circadia.clock import wait_for_event
from circadia.errors import CircadiaError, Conflict, NotFound
from circadia.ids import DreamId
from circadia.jobs.leased_jobs import UNSTORABLE, write_result
from circadia.jobs.loops import run_guarded
from circadia.memory.services import MemoryServices
from circadia.memory.transfer.importer import copy_bank
from circadia.records.dream_job import OPEN_DREAMS, DreamJob, DreamJobStatus, DreamMode, DreamSource
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.server.context import ServerContext
from circadia.server.dream_wiring import ConfiguredFolders
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.markdown.dream_state import DreamOutcome
from circadia.sleeptime.markdown.publication import has_proposal
from circadia.sleeptime.triggers.dream_requests import DREAM_TOPIC
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
"""Between two looks at the gates of each folder, of which the first ones read a small file each."""
RETRY_SECONDS: Final = 1.0


class DreamRunner:
    def __init__(
        self, context: ServerContext, folders: ConfiguredFolders, memory: MemoryServices, sleeptime: SleeptimeService
    ) -> None:
        self._clock = context.clock
        self._store = context.store
        self._leads = context.leads
        self._is_alone = context.membership is None
        self._requests = folders.requests
        self._folders = folders
        self._memory = memory
        self._sleeptime = sleeptime
        self._troubles: dict[str, str] = {}
        """Why a folder could not be read at the last look, so that it is logged once."""
        self._running: dict[tuple[DreamSource, str], tuple[DreamId, asyncio.Task[None]]] = {}
        """By what they read: one that is cancelled is waited for before the next one begins."""
        self._copying = asyncio.Lock()
        """One bank is copied at a time: a copy occupies one of the few connections for reading."""
        self._bell = asyncio.Event()
        self._pass_bell = asyncio.Event()
        context.signals.listen(DREAM_TOPIC, self._on_signal)
        context.signals.listen(TOPIC, lambda _, __: self._pass_bell.set())

    async def run(self) -> None:
        """Work until cancelled; a dream that is cut off goes on at the next start."""
        try:
            while True:
                self._bell.clear()
                await run_guarded("dreams", self._look)
                await wait_for_event(self._clock, self._bell, LOOK_SECONDS)
        finally:
            tasks = [task for _, task in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_signal(self, key: str, data: Mapping[str, object]) -> None:
        self._bell.set()
        for dream_id, task in self._running.values():
            if dream_id == key and data.get("status") == DreamJobStatus.CANCELED:
                task.cancel()

    async def _look(self) -> None:
        for name, folder in self._requests.folders.items():
            if folder.watch and (DreamSource.FOLDER, name) not in self._running and await self._folders.has(name):
                await self._request_if_due(name)
        async with self._store.begin_read() as tx:
            jobs = await tx.dream_jobs.find_all(statuses=OPEN_DREAMS, limit=1000)
            waiting = await tx.dream_jobs.find_all(waits=True, limit=1000)
        for job in waiting:
            await self._settle(job)
        for job in reversed(jobs):
            place = job.source, job.name
            if place not in self._running and await self._is_ours(job):
                task = asyncio.create_task(self._work(job))
                self._running[place] = job.id, task
                task.add_done_callback(partial(self._on_done, place))

    async def _settle(self, job: DreamJob) -> None:
        """Record that a dream waits for nobody any more, if a person has decided on it without this server."""
        if job.name not in self._requests.folders or not await self._folders.has(job.name):
            return
        if not has_proposal(await self._folders.list_history(job.name), job.pass_id):
            async with self._store.begin_write() as tx:
                await self._requests.settle(tx, job)

    def _on_done(self, place: tuple[DreamSource, str], task: asyncio.Task[None]) -> None:
        del self._running[place]
        if task.cancelled():
            self._bell.set()  # another dream may wait for its place

    async def _is_ours(self, job: DreamJob) -> bool:
        """Return whether to try; a server alone tries all, so that a dream without a folder says why it fails."""
        if job.source is DreamSource.BANK:
            return self._leads()
        return self._is_alone or (job.name in self._requests.folders and await self._folders.has(job.name))

    async def _request_if_due(self, name: str) -> None:
        """Request a dream if one is due; a folder that cannot be read does not hold up the others."""
        try:
            if not await self._folders.find_wait(name):
                async with self._store.begin_write() as tx:
                    await self._requests.request_folder(tx, name, None, "", by="circadia")
            trouble = ""
        except Conflict:
            return  # one has not ended
        except (CircadiaError, OSError) as error:
            trouble = str(error)
        if trouble != self._troubles.get(name, ""):
            _logger.warning("dreams over %r: %s", name, trouble or "go on")
        self._troubles[name] = trouble

    async def _work(self, job: DreamJob) -> None:
        moved = await self._move(job, DreamJobStatus.RUNNING)
        if moved is None:
            return
        try:
            status, changes = await (self._dream_folder if job.source is DreamSource.FOLDER else self._dream_bank)(
                moved
            )
        except CircadiaError as error:
            waiting = ""
            if isinstance(error, Conflict) and job.source is DreamSource.FOLDER:
                if await self._folders.is_busy(job.name):
                    _logger.info("dream %s: %s", job.id, error.message)
                    return
                waiting = next((each.id for each in await self._folders.list_history(job.name) if each.proposed), "")
            status, changes = DreamJobStatus.FAILED, {"error": error.message, "pass_id": waiting}
        except Exception:
            _logger.exception("dream %s failed", job.id)
            status, changes = DreamJobStatus.FAILED, {"error": "something went wrong; the server's log has the details"}
        await write_result(
            self._clock, job.id, partial(self._move, moved, status, **changes),
            partial(self._move, moved, DreamJobStatus.FAILED, error=UNSTORABLE),
        )  # fmt: skip

    async def _move(self, job: DreamJob, status: DreamJobStatus, **changes: Any) -> DreamJob | None:
        async with self._store.begin_write() as tx:
            return await self._requests.move(tx, job, status, **changes)

    async def _dream_folder(self, job: DreamJob) -> tuple[DreamJobStatus, Mapping[str, Any]]:
        report = await self._folders.dream(job.name, DreamMode(job.mode), job.instructions)
        left = report.state in (DreamOutcome.SHOWN, DreamOutcome.PROPOSED, DreamOutcome.PUBLISHED)
        changes = {
            "output": report.view, "pass_id": report.id if left else "",
            "report": {"text": report.describe(), **report.to_json()},
            "error": report.detail if report.state is DreamOutcome.FAILED else "",
            "waits": report.state is DreamOutcome.PROPOSED,
        }  # fmt: skip
        return DreamJobStatus.FAILED if changes["error"] else DreamJobStatus.COMPLETED, changes

    async def _dream_bank(self, job: DreamJob) -> tuple[DreamJobStatus, Mapping[str, Any]]:
        """Copy the bank, run a pass over the copy, and return how that has ended."""
        async with self._copying:
            await copy_bank(self._store, self._memory.intake, self._clock, job.name, job.output, by=job.by)
        run = await self._begin_pass(job)
        while run.is_open:
            self._pass_bell.clear()
            async with self._store.begin_read() as tx:
                found = await tx.passes.get(run.id)
            if found is None:
                raise NotFound(f"bank {job.output!r} was deleted")
            run = found
            if run.is_open:
                await wait_for_event(self._clock, self._pass_bell, RETRY_SECONDS)
        async with self._store.begin_read() as tx:
            cost = await tx.sleep_calls.sum_cost(pass_id=run.id)
        done = run.status in (PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL)
        report = {
            "text": f"{run.status.value}: {run.detail}" if run.detail else run.status.value, "counts": dict(run.counts),
            "calls": cost.calls, "tokens": cost.tokens, "usd": cost.nanousd / 1e9,
        }  # fmt: skip
        changes = {"pass_id": run.id, "report": report, "error": "" if done else run.detail or run.status.value}
        return DreamJobStatus.COMPLETED if done else DreamJobStatus.FAILED, changes

    async def _begin_pass(self, job: DreamJob) -> Pass:
        """Request the pass over the copy, or return the one that an interrupted run has requested."""
        async with self._store.begin_write() as tx:
            bank = await self._memory.banks.get(tx, job.output)
            begun = await tx.passes.find_all(bank_id=bank.id, limit=1)
            if begun:
                return begun[0]
            new = NewPass(trigger=Trigger.HAND, by=job.by, instructions=job.instructions)
            run = await self._sleeptime.request_pass(tx, bank, new)
            if await self._requests.move(tx, job, DreamJobStatus.RUNNING, pass_id=run.id) is None:
                raise Conflict(f"dream {job.id!r} was cancelled")
        return run
