"""One run of a pass: each page of its input goes through all operations and is published at once.

    leftovers, then pages of new episodes:  view -> steps -> proposed changes -> publish, cursor

A run keeps no state in memory: after a kill, a preemption or a takeover it starts again at the cursor, and finds the
model's answers for the interrupted page in the ledger (`budget/model_calls.py`).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from opentelemetry.trace import Span

from circadia.answers.question_drafts import AnswerServices
from circadia.clock import Clock
from circadia.errors import Conflict, StorageUnavailable
from circadia.ids import IdSource
from circadia.llm.chat_model import ChatModel, ModelAnswerError
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.relative_dates import in_zone, local_time, parse_zone
from circadia.memory.search.retrieval import Retrieval
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.change import FORGOTTEN, Change, ChangeKind, ChangeState
from circadia.records.episode import Episode, count_unstored
from circadia.records.sleep_pass import Leftover, Pass
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.budget.batched_questions import BatchedQuestions, BatchPending, OpenBatches, OperationAsk
from circadia.sleeptime.budget.model_calls import OverBudget, PassModelClient, PassPreempted
from circadia.sleeptime.engine.judged_changes import JudgedChanges
from circadia.sleeptime.engine.operation_threads import CachedBankReader, OperationThreads
from circadia.sleeptime.engine.pass_outcome import PassOutcome, decide_outcome, describe_fault, describe_step
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.grounding.change_rules import Rule, source_ids_of, split_rows
from circadia.sleeptime.operations.dedupe import is_repeat_demotion
from circadia.sleeptime.proposals.block_edits import fold_edits
from circadia.sleeptime.proposals.operation import ClosingOperation, Operation, PageContext, PassContext, Step
from circadia.sleeptime.proposals.projected_notes import list_refused_drafts, project_notes
from circadia.sleeptime.publish.claim_verifier import ClaimVerifier, mark_missing_verdict, refusal_reason
from circadia.sleeptime.publish.effects import BY
from circadia.sleeptime.publish.publisher import FULL, BankWatermark, PageProgress
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.telemetry.traces import Traces, mark_failed
from circadia.wake.admission.requests import WakeRequests

_logger = logging.getLogger(__name__)

PAGE: Final = 500
"""Episodes that are read and published together."""
PATIENCE: Final = 3
"""Passes that may fail in a row for the provider's fault; then an unanswered step is set aside, if others succeed."""


Operations = Callable[[SleepPolicySettings, bool, Sequence[str]], Sequence[Operation]]
"""Returns a pass's operations, by the bank's policy, whether there is a model, and the requested names (empty: all)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepContext:
    store: Store
    signals: Signals
    ids: IdSource
    sleeptime: SleeptimeService
    operations: Operations
    rules: Sequence[Rule] = ()
    verify: ClaimVerifier | None = None
    """Judges changes of banks whose policy asks for it."""
    retrieval: Retrieval
    words: BundledEmbedder | None = None
    """Vectors by which notes are near in meaning; none for words alone."""
    model: ChatModel | None = None
    """The tier's model; none for passes that ask no model."""
    models: Callable[[str], ChatModel] | None = None
    """Returns another model of the tier's upstream by name, for operations that have their own."""
    open_batches: OpenBatches | None = None
    embed: Callable[[], Awaitable[None]] | None = None
    """Makes missing vectors; none if searches use words alone."""
    wakes: WakeRequests | None = None
    """Wakes the sleep-time agents that banks name; none if agents are not woken."""
    answer_services: AnswerServices | None = None
    """Makes ready answers; none if they are off."""
    traces: Traces = field(default_factory=Traces)


class ProviderUnavailable(Exception):
    """The provider is at fault: the pass ends and its input waits, or it waits itself if it has its own budget."""


class PassRunner:
    """Runs one pass; `yield_to_calls` returns when a step may begin, and raises PassPreempted if a call is waiting."""

    def __init__(
        self,
        clock: Clock,
        context: SleepContext,
        operations: Sequence[Operation],
        asking: PassModelClient | BatchedQuestions | None,
        yield_to_calls: Callable[[], Awaitable[None]],
        *,
        verify: ClaimVerifier | None = None,
        threads: OperationThreads | None = None,
    ) -> None:
        """Without `verify`, no model judges what the operations propose."""
        self._clock = clock
        self._context = context
        self._store = context.store
        self._operations = operations
        self._asking = asking
        self._yield_to_calls = yield_to_calls
        self._verify = verify
        self._threads = threads or OperationThreads()
        self._away = False
        self._failed: list[str] = []
        self._again = False
        self._patient = True
        self._answered = 0
        self._silent = ""

    async def run_pass(self, run: Pass, bank: Bank) -> PassOutcome:
        """Process the leftovers and the new episodes.

        Raises BatchPending, PassPreempted, ProviderUnavailable, Conflict, StorageUnavailable: it goes on later.
        """
        async with self._store.begin_read() as tx:
            state = await tx.sleep_states.get(bank.id)
        self._patient = state.failures < PATIENCE or run.budget_tokens is not None
        try:
            for leftover in state.leftovers:
                if not leftover.is_quarantined:
                    run = await self._retry_leftover(run, bank, leftover)
            worked = any(not leftover.is_quarantined for leftover in state.leftovers)
            if run.full:  # the whole bank first, then new episodes as usual
                worked = True
            if run.full and FULL not in run.counts:
                run = await self._work_page(run, bank, (), replace_from=None, upto=run.after, full=True)
            while run.after < run.upto or not worked:  # a requested pass works even if nothing is new
                worked = True
                page = await self._fetch_episodes(bank, run.after, run.upto)
                upto = page[-1].number if len(page) == PAGE else run.upto
                run = await self._work_page(run, bank, page, replace_from=None, upto=upto)
        except ProviderUnavailable as error:
            if run.budget_tokens is not None:
                raise
            self._failed.append(str(error))
            self._away = True
        return decide_outcome(await self._close_operations(run, bank), self._failed)

    async def _close_operations(self, run: Pass, bank: Bank) -> Pass:
        """Bring derived rows up to date with what was published, and record the counts."""
        if run.dry_run:
            return run
        context = PassContext(
            store=self._store, yield_to_calls=self._yield_to_calls, embed=self._context.embed,
            run=run, answer_services=self._context.answer_services,
        )  # fmt: skip
        silent = self._asking is None or self._away
        counts = dict(run.counts)
        for operation in self._operations:
            if isinstance(operation, ClosingOperation):
                ask = None if silent else OperationAsk(self._asking, operation.name)
                for name, number in (await self._close_operation(operation, bank, replace(context, ask=ask))).items():
                    counts[name] = counts.get(name, 0) + number
        now = replace(run, counts=counts)
        if now != run:
            async with self._store.begin_write() as tx:
                present = await tx.passes.get(run.id)  # its lease was renewed meanwhile
                ours = present is not None and replace(present, lease_until=run.lease_until) == run
                if not ours or not await tx.passes.save(now, origin=run):
                    raise Conflict(f"pass {run.id!r} was taken over or has ended")
        return now

    async def _close_operation(
        self, operation: ClosingOperation, bank: Bank, context: PassContext
    ) -> Mapping[str, int]:
        """Close one operation; if it fails, what was published stays, and the others still close."""
        try:
            return await operation.close(bank, context)
        except (PassPreempted, Conflict, StorageUnavailable):
            raise
        except Exception as error:  # the boundary of operations, which may be anybody's code
            _logger.exception("operation %r has failed at the end of a pass", operation.name)
            self._failed.append(f"{operation.name}: {describe_fault(operation.name, error)}")
            return {}

    async def _retry_leftover(self, run: Pass, bank: Bank, leftover: Leftover) -> Pass:
        """Retry a failed range in halves, to isolate one poisonous episode and save the rest."""
        episodes = await self._fetch_episodes(bank, leftover.first - 1, leftover.last)
        middle = len(episodes) // 2
        halves, left = [episodes], leftover
        if leftover.failures and middle:
            halves, left = [episodes[:middle], episodes[middle:]], replace(leftover, failures=0)
        for half in halves:
            run = await self._work_page(run, bank, half, replace_from=left, upto=run.after)
            left = replace(left, first=half[-1].number + 1) if half else left
        return run

    async def _fetch_episodes(self, bank: Bank, after: int, upto: int) -> list[Episode]:
        async with self._store.begin_read() as tx:
            episodes = await tx.episodes.find_all(bank.id, after=after, now=self._clock.now(), limit=PAGE)
        return [episode for episode in episodes if episode.number <= upto]

    async def _work_page(
        self, run: Pass, bank: Bank, page: Sequence[Episode], *, replace_from: Leftover | None, upto: int,
        full: bool = False,
    ) -> Pass:  # fmt: skip
        view, watermark = await self._build_view(run, bank, page, full=full)
        earlier = len(view.proposed)
        self._again = False
        left: list[Leftover] = []
        done_steps: list[tuple[Operation, Step, Sequence[Change]]] = []
        for operation in self._operations:
            steps, again = await self._plan_steps(operation, view, replace_from)
            left += again
            before, pending = view, None
            for step in steps:
                await self._yield_to_calls()
                # All steps of a batched operation see the same, so that one batch has their questions.
                seen = before if self._asking is not None and operation.name in self._asking.batched else view
                try:
                    changes, again = await self._run_traced_step(operation, step, seen, replace_from)
                except BatchPending as error:
                    pending = error
                    continue
                left += again
                done_steps.append((operation, step, changes))
                view = replace(view, proposed=(*view.proposed, *changes))
            if pending is not None:
                raise pending
        await self._yield_to_calls()
        if self._silent and not self._answered and replace_from is None:  # the provider is at fault, not this step
            raise ProviderUnavailable(self._silent)
        view = replace(view, proposed=view.proposed[earlier:])
        proposed, wrong, again = await self._judge(view, replace_from)
        left += again
        proposed, wrong, again = await self._ask_again(view, done_steps, proposed, wrong, replace_from)
        left += again
        proposed, wrong = fold_edits(view, proposed, wrong)
        async with self._store.begin_write() as tx:
            place = None if replace_from is None else (replace_from.first, replace_from.last)
            known = (await tx.sleep_states.get(bank.id)).leftovers
            others = [leftover for leftover in known if (leftover.first, leftover.last) != place]
            if replace_from is not None and page and page[-1].number < replace_from.last:
                others.append(replace(replace_from, first=page[-1].number + 1))
            spans = {(span.first, span.last): span for span in (*others, *left)}
            done = PageProgress(
                upto=upto, leftovers=sorted(spans.values(), key=lambda span: span.first), full=full,
                watermark=None if self._again else watermark, unread=sum(map(count_unstored, page)),
            )  # fmt: skip
            if self._asking is not None:
                await self._asking.mark_used(tx)
            return await self._context.sleeptime.publisher.publish(tx, run, bank, proposed, done, wrong)

    async def _run_traced_step(
        self, operation: Operation, step: Step, view: PageContext, before: Leftover | None
    ) -> tuple[Sequence[Change], Sequence[Leftover]]:
        with self._context.traces.step_span(operation.name, len(step.episodes)) as span:
            changes, again = await self._run_step(operation, step, view, before, span)
            span.set_attribute("circadia.step.changes", len(changes))
        return changes, again

    async def _judge(
        self, view: PageContext, before: Leftover | None
    ) -> tuple[Sequence[Change], Sequence[str], Sequence[Leftover]]:
        """Return the proposed changes after the rules and the model's verdicts, with what is wrong with each."""
        return await self._verify_claims(view, await self._check_rules(view), before)

    async def _ask_again(
        self, view: PageContext, steps: Sequence[tuple[Operation, Step, Sequence[Change]]],
        judged: Sequence[Change], wrong: Sequence[str], before: Leftover | None,
    ) -> tuple[Sequence[Change], Sequence[str], Sequence[Leftover]]:  # fmt: skip
        """Give each step its refused texts back once, with the reasons, and add what it makes of them (SLEEP-83)."""
        first = JudgedChanges(judged, wrong or ("",) * len(judged))
        gone = first.list_refused_notes() - list_refused_drafts(view)
        left: list[Leftover] = []
        new: list[Change] = []
        for operation, step, changes in steps:
            refused = first.list_refused(changes)
            if not refused or not operation.asks or self._asking is None:
                continue
            await self._yield_to_calls()
            again_view = replace(view, proposed=(*first.list_kept(), *new), drafts={})
            standing = {note.id: note for note in project_notes(again_view)}
            notes = [standing.get(note.id, note) for note in step.notes if note.id not in gone]
            if step.notes and not notes:
                continue
            retried = replace(step, notes=notes, data={**step.data, "refused": refused})
            changes, again = await self._run_traced_step(operation, retried, again_view, before)
            left += again
            known = {change.target for change in (*first.list_settled(), *new)}
            new += [change for change in changes if change.kind is ChangeKind.WRITE_BLOCK or change.target not in known]
        if not new:
            return judged, wrong, left
        more, more_wrong, again = await self._judge(replace(view, proposed=new), before)
        both = first.join(JudgedChanges(more, more_wrong or ("",) * len(more)))
        return both.changes, both.reasons, [*left, *again]

    async def _check_rules(self, view: PageContext) -> Sequence[str]:
        wrong: list[str] = []
        for part in split_rows(view.proposed) if self._context.rules else ():
            rows = await view.look.fetch_episodes({key for change in part for key in source_ids_of(change)})
            wrong += await self._threads.find_violations(part, rows, self._context.rules)
            await self._yield_to_calls()
        return wrong

    async def _verify_claims(
        self, view: PageContext, wrong: Sequence[str], before: Leftover | None
    ) -> tuple[Sequence[Change], Sequence[str], Sequence[Leftover]]:
        """Return the changes with the model's verdicts, their violations, and the leftovers to retry."""
        if self._verify is None or self._asking is None:
            return view.proposed, wrong, ()
        asks = {operation.name for operation in self._operations if operation.asks}
        reasons = list(wrong or ("",) * len(view.proposed))
        at = [number for number, change in enumerate(view.proposed) if change.operation in asks and not reasons[number]]
        written = replace(view, proposed=[view.proposed[number] for number in at])
        judged: Sequence[Change] = ()
        again: Sequence[Leftover] = ()
        for step in self._verify.plan(written):
            with self._context.traces.step_span(self._verify.name, len(step.episodes)) as span:
                judged, again = await self._run_step(self._verify, step, written, before, span)
            if before is None:  # a first failure is not the input's fault: retry it as a whole
                again = [replace(leftover, failures=0) for leftover in again]
        changes = list(view.proposed)
        judged = judged or [mark_missing_verdict(change) for change in written.proposed]
        for number, change in zip(at, judged, strict=False):
            changes[number], reasons[number] = change, refusal_reason(change)
        shortened = {
            one.target for one, other in zip(judged, written.proposed, strict=False) if _has_other_text(one, other)
        }
        for number, change in enumerate(view.proposed):
            if number not in at and (change.after or {}).get("instead") in shortened:
                reasons[number] = "the note in its place says less, as the model judges"
        changes += judged[len(at) :]
        reasons += [""] * (len(changes) - len(reasons))
        await self._yield_to_calls()
        return changes, await self._check_new_texts(view, changes, reasons), again

    async def _check_new_texts(
        self, view: PageContext, changes: Sequence[Change], reasons: Sequence[str]
    ) -> Sequence[str]:
        """Return the reasons with those against texts that the verifier wrote, which no rule has seen."""
        known = {(change.target, (change.after or {}).get("text")) for change in view.proposed}
        new = [
            number
            for number, change in enumerate(changes)
            if not reasons[number] and change.kind is ChangeKind.ADD_NOTE
            and (change.target, (change.after or {}).get("text")) not in known
        ]  # fmt: skip
        checked = await self._check_rules(replace(view, proposed=[changes[number] for number in new]))
        found = dict(zip(new, checked, strict=False))
        return [reason or found.get(number, "") for number, reason in enumerate(reasons)]

    async def _build_view(
        self, run: Pass, bank: Bank, page: Sequence[Episode], *, full: bool
    ) -> tuple[PageContext, BankWatermark]:
        """Return the bank as it is now, with the edits and demotions since the last pass, and their watermark.

        What earlier pages proposed and a person has yet to accept is not in the bank, and is not proposed again.
        """
        async with self._store.begin_read() as tx:
            present = await tx.banks.get(bank.id) or bank
            notes = await self._context.sleeptime.notebook.fetch_newest(tx, present)
            blocks, state = await tx.blocks.find_all(bank.id), await tx.sleep_states.get(bank.id)
            stale = await tx.sleep_states.find_stale(bank.id, 0 if full else state.demotions)
            staged = await tx.passes.find_changes(run.id, state=ChangeState.STAGED) if "staged" in run.counts else ()
            zone_name = await self._context.sleeptime.find_zone(tx, present)
        words = None if self._asking is None else self._context.words  # 70 MB, which only a model's steps need
        zone = None if zone_name == "UTC" else parse_zone(zone_name)
        page = [in_zone(episode, zone) for episode in page]
        now = page[-1].stored_at if page else run.created_at  # the same however often the page is processed
        today = now.astimezone((local_time(page[-1]).tzinfo if page else zone) or UTC)
        view = PageContext(
            bank=bank, now=today, page=page, notes=notes, blocks=blocks, instructions=run.instructions, full=full,
            look=CachedBankReader(self._store, bank, self._context.retrieval, page, zone),
            vector_of=None if words is None else await words.word_vectors(),
            stale=frozenset(key for key, reasons in stale.items() if not all(map(is_repeat_demotion, reasons))),
            proposed=[change for change in staged if change.why != FORGOTTEN],
            edited=() if present.edited_at == state.edited_at else _edited_labels(blocks, state.edited_at),
        )  # fmt: skip
        return view, BankWatermark(demotions=present.demotions, edited_at=present.edited_at)

    async def _plan_steps(
        self, operation: Operation, view: PageContext, before: Leftover | None
    ) -> tuple[Sequence[Step], Sequence[Leftover]]:
        try:
            return await self._threads.plan_steps(operation, view), ()
        except Exception as error:  # the boundary of operations, which may be anybody's code
            _logger.exception("operation %r has failed to plan", operation.name)
            cause = describe_fault(operation.name, error)
        failures = 1 + (0 if before is None else before.failures)
        return (), self._record_failure(operation, Step(name="plan", episodes=view.page), cause, failures)

    async def _run_step(
        self, operation: Operation, step: Step, view: PageContext, before: Leftover | None, span: Span
    ) -> tuple[Sequence[Change], Sequence[Leftover]]:
        failures, waits = 0 if before is None else before.failures, False
        try:
            ask = OperationAsk(self._asking, operation.name)
            changes = await self._threads.propose_changes(operation, step, view, ask)
            self._answered += operation.asks
            return changes, ()
        except ModelAnswerError as error:
            cause = error.cause
            mark_failed(span, "unusable")
            if error.passing and self._patient:
                raise ProviderUnavailable(describe_step(operation, step, cause)) from error
            self._silent = self._silent or (describe_step(operation, step, cause) if error.passing else "")
            failures += 1
        except OverBudget as error:
            cause, waits = str(error), not error.alone
            mark_failed(span, "over_budget")
            failures += error.alone
        except (BatchPending, PassPreempted, Conflict, StorageUnavailable):
            raise
        except Exception as error:  # as above
            _logger.exception("operation %r has failed in a step", operation.name)
            cause = describe_fault(operation.name, error)
            mark_failed(span, "error")
            failures += 1
        return (), self._record_failure(operation, step, cause, failures, waits=waits)

    def _record_failure(
        self, operation: Operation, step: Step, cause: str, failures: int, *, waits: bool = False
    ) -> Sequence[Leftover]:
        """Return the leftovers of a failed step.

        A step without new episodes processes edits and demotions, which are read again until `PATIENCE` is used up, or
        while the step `waits` for room in the budget.
        """
        self._failed.append(describe_step(operation, step, cause))
        self._again = self._again or self._patient or waits or bool(step.episodes)
        if not step.episodes:
            return ()
        first, last = step.episodes[0].number, step.episodes[-1].number
        return (Leftover(first=first, last=last, failures=failures, cause=cause),)


def _has_other_text(one: Change, other: Change) -> bool:
    return (one.after or {}).get("text") != (other.after or {}).get("text")


def _edited_labels(blocks: Sequence[Block], since: datetime | None) -> frozenset[str]:
    """Return the labels of blocks that were written since then, and not by a pass."""
    return frozenset(
        block.label for block in blocks if (since is None or block.at > since) and not block.by.startswith(f"{BY} ")
    )
