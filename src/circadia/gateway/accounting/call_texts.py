"""Keeps the beginnings of requests and answers, without secrets, where the section `calls` says so (UI-17)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from circadia.clock import Clock
from circadia.gateway.accounting.write_behind import BacklogSpool, WriteBehindQueue
from circadia.gateway.dialects.meters import AnswerContent
from circadia.memory.redaction import redact
from circadia.records.call import Call, CallText
from circadia.settings.server import CallsSettings
from circadia.stores.base import Store

BOUND: Final = 500
"""Texts kept while the database is unavailable; about 70 MB of the longest."""
_BATCH: Final = 50
_MARGIN: Final = 8 * 2**10
"""Bytes read beyond those that are kept: a secret that begins before the end is whole, and so is found."""


class CallTextQueue(WriteBehindQueue[CallText]):
    def __init__(self, clock: Clock, store: Store, spool: BacklogSpool[CallText], settings: CallsSettings) -> None:
        super().__init__(clock, store, spool, what="texts of calls", bound=BOUND, batch=_BATCH)
        self._most = settings.max_text_bytes
        self.kept_bytes: Final = self._most + _MARGIN if settings.keep_texts else 0
        """How much of a request and of an error is to be kept for `keep`; 0 keeps nothing."""

    def keep(self, call: Call, request: bytes, content: AnswerContent | None, error: bytes) -> None:
        """Queue what a call has sent, and what it got."""
        answer = "" if content is None else "\n".join(filter(None, (content.text, *content.calls)))
        self.put(CallText(
            id=call.id, at=call.at, request=request.decode(errors="replace"),
            response=(answer or error.decode(errors="replace"))[: self.kept_bytes],
        ))  # fmt: skip

    def prepare_spool(self, entries: Sequence[CallText]) -> Sequence[CallText]:
        return [
            replace(text, request=self._clean(text.request), response=self._clean(text.response)) for text in entries
        ]

    async def write(self, batch: Sequence[CallText]) -> None:
        texts = await asyncio.to_thread(self.prepare_spool, batch)
        async with self._store.begin_write() as tx:
            await self.mark_written(tx)
            await tx.calls.keep_texts(texts)

    def _clean(self, text: str) -> str:
        """Return a text without secrets, cut to its bound; PostgreSQL stores no NUL."""
        clean = redact(text).replace("\0", "\ufffd").encode("utf-8", "replace")
        return clean[: self._most].decode(errors="ignore")
