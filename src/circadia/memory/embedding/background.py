"""Embed rows in the background, by passages, and split long texts that were stored before there were passages.

The queue is every row in the database without a vector of the present embedder, or with a text to split.
"""

import asyncio
import logging
from bisect import bisect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from circadia.clock import Clock, wait_for_event
from circadia.errors import CircadiaError, UpstreamFailed
from circadia.ids import BankId
from circadia.jobs.loops import run_guarded
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.questions import ActiveEmbedder
from circadia.memory.episodes import TOPIC, search_heading, searched_text
from circadia.memory.search.passages import IndexedText, index_text, passage_texts
from circadia.memory.search.vectors import stored_vector
from circadia.records.episode import PASSAGE, Episode
from circadia.records.event import EmbeddingAlert, EmbeddingOverAlert, EventType
from circadia.records.index_entry import Layer
from circadia.records.note import Note
from circadia.stores.base import Episodes, Notes, Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import bank_key
from circadia.stores.signals.base import Signals

BATCH_ROWS: Final = 100
"""Rows embedded together and written in one short transaction."""
BATCH_CHARACTERS: Final = 200_000
"""The same for their texts, some 400 passages."""
GATHER_SECONDS: Final = 0.1
"""Pause after a signal, so that several new rows share one commit."""
EVERY_SECONDS: Final = 30.0
"""Interval for rows that another server has added."""
AGAIN_SECONDS: Final = 3600.0
"""Interval for a pass over all rows, for refused ones and those of a server with another embedder."""
FIRST_PAUSE_SECONDS: Final = 1.0
"""Pause after a failure; doubles with each further failure."""
LONGEST_PAUSE_SECONDS: Final = 300.0
ALERT_AFTER: Final = timedelta(minutes=1)
"""How long the embedder fails before somebody is told."""
EMBEDDER_DOWN: Final = "embedder_down"
"""Kind of the stored alert, which all servers share."""
PLAIN: Final = "a"
"""A text that no embedder refuses."""

_logger = logging.getLogger(__name__)

Row = Episode | Note


class BackgroundEmbedder:
    """Embeds rows that have no vector of the present embedder, batch by batch, until cancelled.

    Searches also read the previous embedder's vectors until none is left. The transaction that replaces a bank's last
    ones makes its index reload; a process that dies earlier leaves some for the next one.
    """

    def __init__(
        self, clock: Clock, store: Store, signals: Signals, embedder: Embedder, previous: ActiveEmbedder | None = None,
        taken_in: Callable[[Collection[BankId]], Awaitable[None]] | None = None, events: EventLog | None = None,
    ) -> None:  # fmt: skip
        """`taken_in` receives the banks with newly embedded rows; alerts go to `events`."""
        self._clock = clock
        self._store = store
        self._signals = signals
        self._embedder = embedder
        self._previous = previous
        self._some = asyncio.Event()
        self._pause = 0.0
        self._after = dict.fromkeys(Layer, 0)
        self._again_at = 0.0
        self._whole = True
        """Whether this pass visits all rows, not only those without a vector."""
        self._strange: set[str] = set()
        """Other embedders met in this pass over all rows."""
        self._left = False
        """Whether a refused row keeps its old vector."""
        self._changed: set[BankId] = set()
        """Banks with replaced vectors that have more to replace."""
        self._anew = 0
        """Banks whose vectors were all replaced in this pass."""
        self._taken_in = taken_in
        self._new: set[BankId] = set()
        """Banks not yet passed to `taken_in`."""
        self._one = asyncio.Lock()
        self._events = events
        self.embedded = 0
        """Rows embedded since the start."""
        self.refused = 0
        """Rows that the embedder refused since the start, each time they were tried."""
        self.failures = 0
        """Failures in a row."""
        self._failing_since: datetime | None = None
        self._error = ""
        self._alerted: bool | None = None
        """Whether an alert is stored; none before that is known."""

    async def run(self) -> None:
        stop = self._signals.listen(TOPIC, lambda _, __: self._some.set())
        try:
            await self._warm_up()
            while True:
                self._some.clear()
                seconds = await self._catch_up_safely()
                await run_guarded("the alert on embedding", self._report)
                await self._wait(seconds)
        finally:
            stop()

    async def _warm_up(self) -> None:
        """Have the embedder load before somebody's question waits for it, if there is a bank."""
        try:
            async with self._store.begin_read() as tx:
                some = await tx.banks.find_all(limit=1)
            if some:
                await self._embedder.embed([PLAIN])
        except CircadiaError as error:  # reported again when there is something to embed
            _logger.debug("the embedder is not ready: %s", error)

    async def _catch_up_safely(self) -> float:
        """Embed what is due; return the seconds to wait, more after each failure."""
        try:
            await self.catch_up()
        except CircadiaError as error:
            self._note_failure(error.message)
            self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
            if self._pause == FIRST_PAUSE_SECONDS:
                _logger.warning("texts cannot be embedded and are found by their words alone for now: %s", error)
            return min(max(self._pause, error.retry_after_seconds or 0.0), LONGEST_PAUSE_SECONDS)
        except Exception:  # nobody else does this work
            _logger.exception("embedding failed; it continues in a few minutes")
            self._note_failure("internal error; see the log")
            self._pause = LONGEST_PAUSE_SECONDS
            return self._pause
        if self._pause:
            _logger.info("texts are embedded again, by %s", self._embedder.name)
        self._pause, self.failures, self._failing_since = 0.0, 0, None
        return EVERY_SECONDS

    def _note_failure(self, error: str) -> None:
        self.failures += 1
        self._failing_since = self._failing_since or self._clock.now()
        self._error = error

    async def _report(self) -> None:
        """Record an alert once embedding has failed for a while, and when it works again (SLEEP-88)."""
        failing = self._failing_since is not None
        late = self._failing_since is None or self._clock.now() - self._failing_since >= ALERT_AFTER
        if self._events is None or failing == self._alerted or not late:
            return
        async with self._store.begin_read() as tx:
            alerted = bool(await tx.alerts.find_alert_times(EMBEDDER_DOWN))
        if alerted != failing:
            async with self._store.begin_write() as tx:
                alerted = bool(await tx.alerts.find_alert_times(EMBEDDER_DOWN))  # another server may be first
                if failing and not alerted:
                    await tx.alerts.record_alert(EMBEDDER_DOWN, "", self._clock.now())
                    alert = EmbeddingAlert(cause="embedding", detail=self._error)
                    await self._events.record(tx, EventType.ALERT, alert)
                elif alerted and not failing:
                    await tx.alerts.clear_alert(EMBEDDER_DOWN, "")
                    await self._events.record(tx, EventType.ALERT, EmbeddingOverAlert(cause="embedding_over"))
        self._alerted = failing

    async def _wait(self, seconds: float) -> None:
        """Wait for the time or, unless a failure made this a pause, for a signal."""
        if self._pause:
            await self._clock.sleep(seconds)
            return
        await wait_for_event(self._clock, self._some, seconds)
        if self._some.is_set():
            await self._clock.sleep(GATHER_SECONDS)

    async def catch_up(self) -> None:
        """Embed all due rows. Raises UpstreamFailed, StorageUnavailable: the next call continues from there."""
        async with self._one:
            await self._catch_up()

    async def _catch_up(self) -> None:
        if self._clock.monotonic() >= self._again_at:
            self._after = dict.fromkeys(Layer, 0)
            self._whole, self._strange, self._left = True, set(), False
            self._changed.clear()
            self._again_at = self._clock.monotonic() + AGAIN_SECONDS
        for layer in Layer:
            while await self._embed_batch(layer) == BATCH_ROWS:
                pass
        new, self._new = self._new, set()
        if self._taken_in is not None and new:
            await self._taken_in(new)
        self._whole = False
        if self._anew:
            _logger.info("replaced all vectors of %s in %d banks", ", ".join(self._strange) or "long texts", self._anew)
            self._anew = 0
        if self._previous is not None:
            self._previous.needed = self._left

    async def _embed_batch(self, layer: Layer) -> int:
        """Embed the next rows and return their number; refused rows are skipped until the next pass over all rows."""
        name = await self._embedder_name()
        async with self._store.begin_read() as tx:
            rows = await _rows_of_layer(tx, layer).find_lacking_vector(
                name if self._whole else None, after=self._after[layer], limit=BATCH_ROWS
            )  # fmt: skip
        for part in _group_rows(rows):
            await self._embed_part(layer, part, name)
        return len(rows)

    async def _embed_part(self, layer: Layer, rows: Sequence[Row], name: str) -> None:
        split = await split_rows(rows)
        texts = {row.number: _texts_to_embed(row, split.get(row.number)) for row in rows}
        self._note_other_embedders(rows)
        vectors = await self._embed_rows(rows, texts)
        if vectors:
            async with self._store.begin_write(*(bank_key(row.bank_id) for row in rows)) as tx:
                await tx.episodes.save_passages({number: text for number, text in split.items() if number in vectors})
                await _rows_of_layer(tx, layer).save_vectors(vectors, name)
                await self._reload_indexes(
                    tx, layer, [row for row in rows if row.embedder or row.number in split], vectors, name
                )
            self._new |= {row.bank_id for row in rows}
            self.embedded += len(vectors)
        refused = [row for row in rows if row.number not in vectors]
        if refused:
            refusal = f"{name} refuses {len(refused)} of {len(rows)} texts, the first is {layer} {refused[0].id}"
            _logger.warning("%s; searches find them by their words", refusal)
            self.refused += len(refused)
        self._left = self._left or any(row.embedder not in (None, name) for row in refused)
        self._after[layer] = rows[-1].number

    async def _reload_indexes(
        self, tx: Tx, layer: Layer, replaced: Sequence[Row], vectors: Mapping[int, bytes], name: str
    ) -> None:
        """Make the indexes of banks load again whose last rows have been replaced."""
        self._changed |= {row.bank_id for row in replaced if row.number in vectors}
        for bank_id in self._changed & {row.bank_id for row in replaced}:
            if not await _rows_of_layer(tx, layer).has_outdated_vector(bank_id, name, after=replaced[-1].number):
                await tx.banks.bump_generation(bank_id)
                self._changed.discard(bank_id)
                self._anew += 1

    def _note_other_embedders(self, rows: Sequence[Row]) -> None:
        strange = {row.embedder for row in rows if row.embedder is not None} - self._strange - {self._embedder.name}
        if strange:
            self._strange |= strange
            _logger.info("replacing vectors of %s by %s", ", ".join(sorted(strange)), self._embedder.name)
            if self._previous is not None:
                self._previous.needed = True

    async def _embed_rows(self, rows: Sequence[Row], texts: Mapping[int, Sequence[str]]) -> Mapping[int, bytes]:
        """Return the vectors of the texts by row number, one after the other, without refused rows.

        Raises UpstreamFailed: the embedder fails on any text.
        """
        try:
            vectors = await self._embedder.embed([text for row in rows for text in texts[row.number]])
        except UpstreamFailed as error:
            if error.retry_after_seconds is not None:
                raise
            await self._embedder.embed([PLAIN])
            if len(rows) == 1:
                return {}
            half = len(rows) // 2
            return {**await self._embed_rows(rows[:half], texts), **await self._embed_rows(rows[half:], texts)}
        each = iter(vectors)
        return {row.number: b"".join(stored_vector(next(each)) for _ in texts[row.number]) for row in rows}

    async def _embedder_name(self) -> str:
        try:
            return self._embedder.name
        except UpstreamFailed:  # until it has embedded something
            await self._embedder.embed([PLAIN])
            return self._embedder.name


def _rows_of_layer(tx: Tx, layer: Layer) -> Episodes | Notes:
    return tx.episodes if layer is Layer.EPISODES else tx.notes


def _group_rows(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in groups of at most `BATCH_CHARACTERS`, unless a single row has more."""
    while rows:
        upto = bisect(list(accumulate(len(row.text) for row in rows)), BATCH_CHARACTERS) or 1
        yield rows[:upto]
        rows = rows[upto:]


def _texts_to_embed(row: Row, split: IndexedText | None) -> Sequence[str]:
    if not isinstance(row, Episode):
        return (row.text,)
    texts = passage_texts(row.text, row.passages if split is None else split.passages)
    return [searched_text(row.at, row.speaker, text) for text in texts]


async def split_rows(rows: Sequence[Row]) -> Mapping[int, IndexedText]:
    """Return what an index keeps of those that have a long text without passages, by number."""
    return {
        row.number: await index_text(search_heading(row.at, row.speaker), row.text, row.trust)
        for row in rows
        if isinstance(row, Episode) and row.passages is None and len(row.text) > PASSAGE
    }


class BackgroundSplitter:
    """Splits long texts that were stored before there were passages, where there is no embedder."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    async def run(self) -> None:
        while True:
            try:
                await self.catch_up()
            except CircadiaError as error:
                _logger.warning("long texts are not split for now: %s", error)
            await self._clock.sleep(AGAIN_SECONDS)

    async def catch_up(self) -> None:
        """Split all due texts. Raises StorageUnavailable: the next call continues from there."""
        after = 0
        while True:
            async with self._store.begin_read() as tx:
                rows = await tx.episodes.find_unsplit(after=after, limit=BATCH_ROWS)
            if not rows:
                return
            split = await split_rows(rows)
            banks = {row.bank_id for row in rows}
            async with self._store.begin_write(*map(bank_key, banks)) as tx:
                await tx.episodes.save_passages(split)
                for bank_id in banks:
                    await tx.banks.bump_generation(bank_id)
            after = rows[-1].number
