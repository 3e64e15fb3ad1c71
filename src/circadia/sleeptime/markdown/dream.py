"""One dream over a memory folder: entries and sessions go into its bank, a pass consolidates, files are published.

    lock -> finish what was interrupted -> entries, new turns -> pass under review -> plan -> published | proposed

A pass always stages its changes. The files are written first, and the bank accepts what it then finds in them: so it
does not matter where a dream is killed, nor whether a person has merged a proposal by hand.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Final, cast

from circadia.clock import Clock
from circadia.errors import Conflict, NotFound
from circadia.ids import IdSource
from circadia.memory.redaction import redact
from circadia.records.bank import Bank
from circadia.records.change import Change, ChangeKind, ChangeState
from circadia.records.dream_job import DreamMode
from circadia.records.sleep_call import SleepCost
from circadia.records.sleep_pass import Pass, PassStatus, Trigger
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.engine.judged_changes import MENDED
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.grounding.change_rules import Rule, source_ids_of
from circadia.sleeptime.grounding.source_check import check_grounding
from circadia.sleeptime.grounding.wording import check_wording
from circadia.sleeptime.markdown import publication
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, RETIRED_FOLDER
from circadia.sleeptime.markdown.changeset import FileVersions, list_changeset_ids
from circadia.sleeptime.markdown.dream_state import (
    NO_COST,
    DreamOutcome,
    DreamReport,
    append_to_diary,
    count_nouns,
    load_state,
    save_state,
)
from circadia.sleeptime.markdown.edits import read_as_entry
from circadia.sleeptime.markdown.folder_bank import FolderBank, FolderSnapshot, take_snapshot
from circadia.sleeptime.markdown.folder_edits import FolderConsolidation, OpenFolder
from circadia.sleeptime.markdown.folder_lock import FolderLock, lock_memory_folder
from circadia.sleeptime.markdown.folder_plan import FolderPlan, FolderPlanner, places_of, text_of
from circadia.sleeptime.markdown.links import whole_name
from circadia.sleeptime.markdown.publication import PublicationResult
from circadia.sleeptime.markdown.sessions import SessionIntake, SessionScan
from circadia.sleeptime.markdown.upkeep import FolderUpkeep, UpkeepRun
from circadia.sleeptime.proposals.operation import Operation
from circadia.sleeptime.publish.publisher import CEILING_NOTES, CEILING_SHARE
from circadia.sleeptime.triggers.pass_lifecycle import NewPass
from circadia.stores.base import Store
from circadia.stores.locks import bank_key

BY: Final = "circadia dream"
FOLDER_RULES: Final[Sequence[Rule]] = (check_wording, check_grounding)
"""A person says most of what is worth a note only once."""
_UNFINISHED: Final = (PassStatus.FAILED, PassStatus.CANCELLED, PassStatus.SKIPPED, PassStatus.PARTIAL)
_OF_FILES: Final = (ChangeKind.ADD_NOTE, ChangeKind.RETIRE_NOTE)


def choose_folder_operations(
    folder: OpenFolder, policy: SleepPolicySettings, model: bool, wanted: Sequence[str]
) -> Sequence[Operation]:
    """Return the operations of a dream; without a model the folder is only tidied (DREAM-25)."""
    operation = FolderConsolidation(folder)
    return [operation] if model and policy.is_operation_enabled(operation.name) else []


class Dream:
    """Dreams over one folder, by one process at a time. Its methods raise Conflict while another process dreams."""

    def __init__(
        self, root: Path, clock: Clock, ids: IdSource, store: Store, sleeptime: SleeptimeService, worker: SleepWorker,
        bank: FolderBank, opened: OpenFolder,
    ) -> None:  # fmt: skip
        self._root = root
        self._clock = clock
        self._ids = ids
        self._store = store
        self._sleeptime = sleeptime
        self._worker = worker
        self._bank = bank
        self._opened = opened

    async def run(self, mode: DreamMode, intake: SessionIntake, *, instructions: str = "") -> DreamReport:
        """Dream once, and propose or publish the changes; go on with a dream that was interrupted.

        Raises:
            Conflict: another process dreams, or the changes of an earlier dream wait for a person.
            InvalidRequest: the folder or the transcripts cannot be read.
        """
        with lock_memory_folder(self._root, self._clock) as lock:
            bank, snapshot, waiting = await self._open()
            await asyncio.to_thread(publication.check_repository, self._root, snapshot.documents.keys())
            state = load_state(self._root)
            if state.bank != bank.id:  # a new one, which has read nothing
                state = state.model_copy(update={"bank": bank.id, "read": {}})
            if waiting is not None and mode is DreamMode.PROPOSE:
                raise Conflict(f"the changes of {waiting.id} wait for you: accept or refuse them first")
            taken = SessionScan()
            if waiting is None:
                await self._bank.take_in_entries(bank, snapshot.all_entries)
                taken = await intake.take_in(self._bank, bank, state)
                if await self._has_backlog(bank) or instructions:
                    waiting = await self._run_pass(bank, mode, instructions)
            refused = [
                f"{text!r:.200}: {change.why}"
                for change in await self._find_changes(waiting, ChangeState.REFUSED)
                if (text := text_of(change)) and not (change.after or {}).get(MENDED)
            ]
            writes = mode is not DreamMode.AUTO or state.is_accepted  # the first ones of a folder propose (DREAM-22)
            shown = mode if writes else DreamMode.PROPOSE
            report = await self._deliver(bank, snapshot, waiting, shown, lock, refused=refused)
            changes = {"dreamed_at": self._clock.now(), "failures": 0, "trouble": "", "new_sessions": 0}
            if waiting is not None and waiting.status in _UNFINISHED:
                report = replace(report, detail=report.detail or f"some of it waits: {waiting.detail}")
                if waiting.status is not PassStatus.PARTIAL and not report.added + report.replaced + report.retired:
                    failed_at = self._clock.now()
                    changes = {"failures": state.failures + 1, "failed_at": failed_at, "trouble": waiting.detail}
                    if report.state is DreamOutcome.UNCHANGED:
                        report = replace(report, state=DreamOutcome.FAILED, detail=waiting.detail)
            if mode is not DreamMode.DRY_RUN:
                save_state(self._root, state, **{**taken.marks, **changes})
            cost = NO_COST if waiting is None else await self._cost_of(waiting)
            return self._note(replace(report, sessions=len(taken.new), turns=taken.turns, cost=cost))

    def _note(self, report: DreamReport) -> DreamReport:
        if report.state is not DreamOutcome.UNCHANGED or report.left_out:
            left_out = "".join(f"; not written: {text}" for text in report.left_out)
            append_to_diary(self._root, self._clock.now(), f"{report.id}: {report.describe()}{left_out}")
        return report

    async def accept(self, files: Collection[PurePosixPath] = ()) -> DreamReport:
        """Publish what waits, all or what concerns these files. Raises NotFound: nothing waits, or not for these."""
        with lock_memory_folder(self._root, self._clock) as lock:
            bank, snapshot, run = await self._open()
            entry, refused = self._require_proposal(run)
            report = await self._deliver(
                bank, snapshot, run, DreamMode.AUTO, lock, files=files, asked=True, entry=entry, refused=refused
            )
            if report.state is DreamOutcome.PUBLISHED:
                save_state(self._root, load_state(self._root), is_accepted=True)
                report = replace(report, detail="accepted")
            if files:
                await self._show_rest(bank, lock, entry)
            return self._note(report)

    async def refuse(self, files: Collection[PurePosixPath] = ()) -> int:
        """Drop what waits, all or what concerns these files; return the number of changes."""
        with lock_memory_folder(self._root, self._clock) as lock:
            bank, snapshot, run = await self._open()
            entry, _ = self._require_proposal(run)
            changes = await self._find_changes(run)
            chosen = _concerning(changes, await self._plan(bank, snapshot, changes), files)
            left = await self._plan(bank, snapshot, [change for change in changes if change not in chosen])
            _, upkeep = await self._add_upkeep(snapshot, left)
            names = {whole_name(path) for path in files}
            refused = {str(path): mark for path, mark in upkeep.fingerprints().items() if not files or path in names}
            if files and not (chosen or refused):
                raise _unconcerned(files)
            if run is not None:
                await self._refuse(bank, run, [change.number for change in chosen])
            state = load_state(self._root)
            save_state(self._root, state, refused={**state.refused, **refused})
            self._drop_proposals()
            if files:
                await self._show_rest(bank, lock, entry)
            number = len(chosen) + len(refused)
            append_to_diary(self._root, self._clock.now(), f"refused {count_nouns(number, 'change')}")
            return number

    async def _show_rest(self, bank: Bank, lock: FolderLock, entry: str) -> None:
        """Show what is left of a proposal under the entry of the history that it had."""
        snapshot, left = await asyncio.to_thread(take_snapshot, self._root), await self._find_staged_pass(bank)
        await self._deliver(bank, snapshot, left, DreamMode.PROPOSE, lock, entry=entry)

    async def undo(self, dream_id: str) -> PublicationResult:
        """Restore what a dream has replaced. Raises NotFound, Conflict: later changes overlap with it."""
        with lock_memory_folder(self._root, self._clock):
            bank, _, _ = await self._open()
            undo_id = self._ids.new("und")
            result = await asyncio.to_thread(publication.undo, self._root, dream_id, undo_id, now=self._clock.now())
            snapshot = await asyncio.to_thread(take_snapshot, self._root)
            await self._bank.take_in_entries(bank, snapshot.all_entries)
            append_to_diary(self._root, self._clock.now(), f"{dream_id}: undone")
            return result

    async def _open(self) -> tuple[Bank, FolderSnapshot, Pass | None]:
        """Finish what was interrupted, and read the folder; return the pass that has still to be decided on, too."""
        for result in await asyncio.to_thread(publication.recover, self._root):
            self._note_rescued(result)
        bank = await self._bank.open()
        snapshot = await asyncio.to_thread(take_snapshot, self._root)
        self._opened.snapshot = snapshot
        run = await self._find_staged_pass(bank)
        if run is not None:
            await self._settle(bank, run, snapshot)
            run = await self._find_staged_pass(bank)
            if run is None:
                self._drop_proposals()
        return bank, snapshot, run

    def _note_rescued(self, result: PublicationResult) -> None:
        for path in result.rescued:
            text = f"{result.id}: an edit that was made meanwhile is kept in {path}"
            append_to_diary(self._root, self._clock.now(), text)

    async def _settle(self, bank: Bank, run: Pass, snapshot: FolderSnapshot) -> None:
        """Accept the staged changes that the files have already: a dream's, and those that a person has merged."""
        staged = await self._find_changes(run)
        visible = [change.number for change in staged if _is_in_files(change, snapshot)]
        if not any(change.kind in _OF_FILES and change.number not in visible for change in staged):
            visible = [change.number for change in staged]  # what remains is about turns
        if visible:
            async with self._store.begin_write(bank_key(bank.id)) as tx:
                await self._sleeptime.accept(tx, bank, run, visible, by=BY)

    async def _refuse(self, bank: Bank, run: Pass, numbers: Collection[int]) -> None:
        if numbers:
            async with self._store.begin_write(bank_key(bank.id)) as tx:
                await self._sleeptime.refuse(tx, bank, run, numbers, by=BY)

    async def _run_pass(self, bank: Bank, mode: DreamMode, instructions: str) -> Pass:
        """Run a pass, or go on with an interrupted one of the same kind.

        Raises:
            Conflict: another kind was interrupted after it had proposed something.
        """
        dry = mode is DreamMode.DRY_RUN
        async with self._store.begin_write(bank_key(bank.id)) as tx:
            begun = await tx.passes.get_open(bank.id)
            if begun is not None and (begun.dry_run, begun.instructions) != (dry, instructions):
                if not begun.dry_run and await tx.passes.find_changes(begun.id, state=ChangeState.STAGED):
                    with_what = f"with the instructions {begun.instructions!r}" if begun.instructions else "as it was"
                    raise Conflict(f"the last dream was interrupted: finish it first, {with_what}, and no dry run")
                await self._sleeptime.cancel(tx, bank, begun, by=BY)
        new = NewPass(trigger=Trigger.HAND, by=BY, instructions=instructions, dry_run=dry, review=True)
        return await self._worker.run_one_pass(bank, new)

    async def _has_backlog(self, bank: Bank) -> bool:
        """Return whether no pass has read some of the entries or turns; what has failed is tried again."""
        async with self._store.begin_write(bank_key(bank.id)) as tx:
            state = await tx.sleep_states.get(bank.id)
            if state.leftovers:
                await self._sleeptime.resume(tx, bank, by=BY)
            return bool(state.leftovers) or (await tx.sleep_states.fetch_backlog(bank.id, state.cursor)).episodes > 0

    async def _find_staged_pass(self, bank: Bank) -> Pass | None:
        """Return the newest pass, if a person or a publication has still to decide on its changes."""
        async with self._store.begin_read() as tx:
            newest = await tx.passes.find_all(bank_id=bank.id, limit=1)
            if not newest or newest[0].dry_run or newest[0].is_open:
                return None
            return newest[0] if await tx.passes.find_changes(newest[0].id, state=ChangeState.STAGED) else None

    def _require_proposal(self, run: Pass | None) -> tuple[str, Sequence[str]]:
        """Return the entry of the history that waits for a person, and what it leaves out. Raises NotFound."""
        entry = next((each for each in publication.list_history(self._root) if each.proposed), None)
        if run is None and entry is None:
            raise NotFound("no dream waits for you in this folder; `circadia dream log` lists what was done")
        return (entry.id, entry.left_out) if entry else ("", ())

    def _drop_proposals(self) -> None:
        for each in publication.list_history(self._root):
            if each.proposed:
                publication.refuse(self._root, each.id)

    async def _find_changes(self, run: Pass | None, state: ChangeState = ChangeState.STAGED) -> Sequence[Change]:
        if run is None:
            return []
        async with self._store.begin_read() as tx:
            return await tx.passes.find_changes(run.id, state=state)

    async def _plan(self, bank: Bank, snapshot: FolderSnapshot, changes: Sequence[Change]) -> FolderPlan:
        ids = {key for change in changes for key in source_ids_of(change)}
        async with self._store.begin_read() as tx:
            rows = [await tx.episodes.get(bank.id, key) for key in ids]
        sources = {row.id: row for row in rows if row is not None}
        notes = await self._bank.fetch_notes(bank)
        planner = FolderPlanner(snapshot, notes, sources, self._clock.now())
        return await asyncio.to_thread(planner.plan, changes)

    async def _deliver(
        self, bank: Bank, snapshot: FolderSnapshot, run: Pass | None, mode: DreamMode, lock: FolderLock, *,
        files: Collection[PurePosixPath] = (), asked: bool = False, entry: str = "", refused: Sequence[str] = (),
    ) -> DreamReport:  # fmt: skip
        """Write what a pass proposes and the folder needs, or show it; `asked` means that a person has agreed.

        `entry` is that of the history under which it was proposed before; `refused` is what was not kept of it.
        """
        changes = await self._find_changes(run)
        plan = await self._plan(bank, snapshot, changes)
        if files:
            plan = await self._plan(bank, snapshot, _concerning(changes, plan, files))
        elif run is not None and mode is not DreamMode.DRY_RUN:
            await self._refuse(bank, run, plan.left_out)
        whys = ((text_of(each), plan.left_out.get(each.number)) for each in changes)
        contents, upkeep = await self._add_upkeep(snapshot, plan, files)
        report = DreamReport(
            id="" if run is None else run.id, state=DreamOutcome.UNCHANGED, added=plan.added, replaced=plan.replaced,
            retired=plan.retired + len(upkeep.retired), findings=upkeep.findings,
            left_out=[*refused, *(f"{text!r:.200}: {why}" for text, why in whys if why)],
            files=[path for path in contents if path.parts[0] != OWN_FOLDER],
        )  # fmt: skip
        if not contents:
            if files:
                raise _unconcerned(files)
            if mode is not DreamMode.DRY_RUN:
                self._drop_proposals()  # a person has merged the upkeep by hand
            return report
        report = replace(report, id=report.id or entry or self._ids.new("drm"))
        versions = [FileVersions(path=path, old=snapshot.contents_of(path), new=contents[path]) for path in contents]
        if mode is DreamMode.DRY_RUN:
            return replace(report, state=DreamOutcome.SHOWN, diff=publication.render_diff(versions))
        report = replace(report, id=await asyncio.to_thread(self._stage, report, versions))
        moved = len(plan.gone) + len(upkeep.retired)
        limit = max(1, min(CEILING_NOTES, int(len(snapshot.entries) * CEILING_SHARE)))
        if mode is DreamMode.PROPOSE or (moved > limit and not asked):
            why = f"it would take {moved} entries out of their files, more than {limit}" if moved > limit else ""
            view = await asyncio.to_thread(publication.propose, self._root, report.id)
            return replace(report, state=DreamOutcome.PROPOSED, detail=why, view=view)
        lock.confirm()
        return await self._publish(bank, run, report)

    async def _publish(self, bank: Bank, run: Pass | None, report: DreamReport) -> DreamReport:
        """Write what is staged; what cannot be written stays a proposal."""
        result = await asyncio.to_thread(publication.publish, self._root, report.id)
        if run is not None:
            await self._settle(bank, run, await asyncio.to_thread(take_snapshot, self._root))
        self._note_rescued(result)
        report = replace(report, files=result.list_published(), left_out=[*report.left_out, *result.problems])
        if report.files:
            return replace(report, state=DreamOutcome.PUBLISHED)
        view = await asyncio.to_thread(publication.propose, self._root, report.id)
        why = result.refusal or "no file could be written"
        return replace(report, state=DreamOutcome.PROPOSED, detail=why, view=view)

    def _stage(self, report: DreamReport, files: Sequence[FileVersions]) -> str:
        """Put new contents beside the folder, in the place of those of an earlier proposal; return their id."""
        self._drop_proposals()
        taken = list_changeset_ids(self._root)
        names = chain([report.id], (f"{report.id}-{number}" for number in count(2)))
        changeset_id = next(name for name in names if name not in taken)
        title = f"Dream: {report.added} added, {report.replaced} replaced, {report.retired} retired"
        now, left_out = self._clock.now(), report.left_out
        publication.stage(self._root, changeset_id, files, now=now, title=title, left_out=left_out)
        return changeset_id

    async def _add_upkeep(
        self, snapshot: FolderSnapshot, plan: FolderPlan, files: Collection[PurePosixPath] = ()
    ) -> tuple[Mapping[PurePosixPath, bytes], FolderUpkeep]:
        """Return the contents of a plan with the upkeep of the folder that nobody has refused, and that upkeep.

        With `files`, it is the upkeep of these files, and of those that the plan changes.
        """
        day, changed = self._clock.now().date(), plan.contents
        upkeep = await asyncio.to_thread(
            UpkeepRun(snapshot.folder, day=day, changed=changed, described=plan.described).run
        )
        refused = load_state(self._root).refused
        wanted = {path for path, mark in upkeep.fingerprints().items() if refused.get(str(path)) != mark}
        if files:
            named = {*files, *changed}
            if snapshot.folder.index is not None and named - snapshot.documents.keys():
                named.add(snapshot.folder.index.path)  # it names each new file
            wanted &= set(map(whole_name, named))
        upkeep = upkeep.limit_to(wanted)
        contents = {**changed, **upkeep.contents}
        for entry in (*plan.gone, *upkeep.retired):
            path = RETIRED_FOLDER / entry.path
            kept = contents[path] if path in contents else snapshot.contents_of(path) or b""
            contents[path] = kept + entry.text
        return contents, upkeep

    async def _cost_of(self, run: Pass) -> SleepCost:
        async with self._store.begin_read() as tx:
            return await tx.sleep_calls.sum_cost(pass_id=run.id)


def _concerning(changes: Sequence[Change], plan: FolderPlan, files: Collection[PurePosixPath]) -> Sequence[Change]:
    """Return the changes that concern any of the files; all without files."""
    return [each for each in changes if not files or plan.files.get(each.number, set()) & set(files)]


def _unconcerned(files: Collection[PurePosixPath]) -> NotFound:
    return NotFound(f"no change that waits concerns {', '.join(map(str, files))}")


def _is_in_files(change: Change, snapshot: FolderSnapshot) -> bool:
    """Return whether the files say what a change says, each that it names."""
    if change.kind not in _OF_FILES:
        return False
    after, is_new = change.after or {}, change.kind is ChangeKind.ADD_NOTE
    text = redact(read_as_entry(str(after.get("text")))) if is_new else str((change.before or {}).get("text"))
    found = {str(entry.file) for entry in snapshot.texts.get(text, ())}
    places = [str(place.get("file", "")) for place in places_of(change)] if is_new else after.get("files", ())
    named = set(filter(None, cast("Sequence[str]", places)))
    return (named <= found if named else bool(found)) if is_new else (named.isdisjoint(found) if named else not found)
