"""Client methods for sleep-time compute: passes over banks, and dreams over memory folders and banks."""

from collections.abc import Sequence

from circadia.client.connection import ApiConnection, Time
from circadia.schemas.banks import StoredEpisodeView
from circadia.schemas.dreams import (
    DreamDiffView,
    DreamList,
    DreamRefusalView,
    DreamUndoView,
    DreamView,
    MemoryFolderDetail,
    MemoryFolderList,
)
from circadia.schemas.passes import (
    ChangeList,
    NoteDetail,
    NotePage,
    PassChangeResult,
    PassDetail,
    PassEstimateView,
    PassList,
    PassPage,
    PassView,
    SleeptimeStatusView,
    SleeptimeView,
)


class SleeptimeCalls:
    """One method per endpoint of passes and dreams. Banks are given as in the memory methods."""

    _http: ApiConnection

    async def run_pass(
        self,
        bank: str,
        *,
        dry_run: bool = False,
        instructions: str = "",
        operations: Sequence[str] = (),
        review: bool = False,
        full: bool = False,
        needed: bool = False,
        budget_tokens: int | None = None,
        wait_seconds: float = 0,
        user: str | None = None,
    ) -> PassView:
        """Request a pass over the backlog; with `wait_seconds`, wait for its end.

        `wait_seconds` must be less than the client's `timeout`. A `needed` pass has priority over everything else; a
        `full` one reviews the whole bank again. One with `budget_tokens` spends at most these, whatever the bank's own
        limits are, and runs to the end.
        """
        body = {
            "dry_run": dry_run, "instructions": instructions, "operations": operations, "review": review,
            "full": full, "needed": needed, "budget_tokens": budget_tokens, "wait_seconds": wait_seconds,
        }  # fmt: skip
        return await self._http.fetch(PassView, "POST", "banks", bank, "passes", body=body, query={"user": user})

    async def list_passes(
        self,
        bank: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 100,
        user: str | None = None,
    ) -> PassList:
        """Return passes over a bank, newest first; `before` is for the next page."""
        query = {"status": status, "before": before, "limit": limit, "user": user}
        return await self._http.fetch(PassList, "GET", "banks", bank, "passes", query=query)

    async def list_passes_of_all(
        self, *, statuses: Sequence[str] = (), since: Time | None = None, before: str | None = None, limit: int = 100
    ) -> PassPage:
        """Return passes over all banks, newest request first; `before` is for the next page."""
        query = {"status": statuses, "since": since, "before": before, "limit": limit}
        return await self._http.fetch(PassPage, "GET", "passes", query=query)

    async def show_pass(self, run: str) -> PassDetail:
        return await self._http.fetch(PassDetail, "GET", "passes", run)

    async def wait_for_pass(self, run: str, *, timeout_seconds: float | None = None) -> PassDetail:
        """Wait until a pass has ended, however it ended. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_pass(run), lambda it: it.ended_at is not None, timeout_seconds
        )

    async def list_changes(
        self, run: str, *, state: str | None = None, after: int = 0, limit: int = 1000
    ) -> ChangeList:
        """Return the changes that a pass made or proposes, in order; `after` is for the next page."""
        query = {"state": state, "after": after, "limit": limit}
        return await self._http.fetch(ChangeList, "GET", "passes", run, "changes", query=query)

    async def undo_pass(self, run: str, *, numbers: Sequence[int] = ()) -> PassChangeResult:
        """Undo changes of a pass: all, or those with these numbers."""
        return await self._http.fetch(PassChangeResult, "POST", "passes", run, "undo", body={"numbers": numbers})

    async def accept_pass(self, run: str, *, numbers: Sequence[int] = ()) -> PassChangeResult:
        """Publish waiting changes of a pass: all, or those with these numbers."""
        return await self._http.fetch(PassChangeResult, "POST", "passes", run, "accept", body={"numbers": numbers})

    async def refuse_pass(self, run: str, *, numbers: Sequence[int] = ()) -> PassChangeResult:
        """Refuse waiting changes of a pass: all, or those with these numbers."""
        return await self._http.fetch(PassChangeResult, "POST", "passes", run, "refuse", body={"numbers": numbers})

    async def cancel_pass(self, run: str) -> PassView:
        return await self._http.fetch(PassView, "POST", "passes", run, "cancel")

    async def list_notes(
        self, bank: str, *, state: str | None = None, after: int = 0, limit: int = 100, user: str | None = None
    ) -> NotePage:
        """Return a bank's notes, newest first; `state` is `live` or `retired`, `after` is for the next page."""
        query = {"state": state, "after": after, "limit": limit, "user": user}
        return await self._http.fetch(NotePage, "GET", "banks", bank, "notes", query=query)

    async def explain_note(self, bank: str, note: str, *, user: str | None = None) -> NoteDetail:
        """Return a note with its source episodes and the changes that passes made to it."""
        return await self._http.fetch(NoteDetail, "GET", "banks", bank, "notes", note, query={"user": user})

    async def promote_note(self, bank: str, note: str, *, to: str, user: str | None = None) -> StoredEpisodeView:
        """Copy a note into another bank, once; the copy is forgotten with the note."""
        return await self._http.fetch(
            StoredEpisodeView, "POST", "banks", bank, "notes", note, "promote", query={"user": user}, body={"to": to}
        )

    async def show_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusView:
        """Return the sleep-time status of a bank, and why a pass would begin now or not."""
        return await self._http.fetch(SleeptimeStatusView, "GET", "banks", bank, "sleeptime", query={"user": user})

    async def estimate_pass(self, bank: str, *, user: str | None = None) -> PassEstimateView:
        """Return about what a pass over all that waits in a bank takes."""
        return await self._http.fetch(
            PassEstimateView, "GET", "banks", bank, "sleeptime", "estimate", query={"user": user}
        )

    async def pause_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusView:
        """Stop new passes over a bank."""
        return await self._http.fetch(
            SleeptimeStatusView, "POST", "banks", bank, "sleeptime", "pause", query={"user": user}
        )

    async def resume_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusView:
        """Allow passes again."""
        return await self._http.fetch(
            SleeptimeStatusView, "POST", "banks", bank, "sleeptime", "resume", query={"user": user}
        )

    async def show_sleeptime_of_all(self, *, limit: int = 100) -> SleeptimeView:
        """Return the status of all banks with a backlog or an open pass."""
        return await self._http.fetch(SleeptimeView, "GET", "sleeptime", query={"limit": limit})

    async def run_dream(
        self, *, folder: str | None = None, bank: str | None = None, instructions: str = "", mode: str | None = None
    ) -> DreamView:
        """Begin a dream over a folder of section `dreams`, or over a bank, which makes a new bank."""
        named = {"folder": folder, "bank": bank}
        body = {
            "inputs": [{"type": kind, "name": name} for kind, name in named.items() if name is not None],
            "instructions": instructions, "mode": mode,
        }  # fmt: skip
        return await self._http.fetch(DreamView, "POST", "dreams", body=body)

    async def list_dreams(
        self,
        *,
        statuses: Sequence[str] = (),
        type: str | None = None,
        name: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> DreamList:
        """Return dreams, newest first; `before` is for the next page."""
        query = {"status": statuses, "type": type, "name": name, "before": before, "limit": limit}
        return await self._http.fetch(DreamList, "GET", "dreams", query=query)

    async def show_dream(self, dream: str) -> DreamView:
        return await self._http.fetch(DreamView, "GET", "dreams", dream)

    async def wait_for_dream(self, dream: str, *, timeout_seconds: float | None = None) -> DreamView:
        """Wait until a dream has ended, however it ended. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_dream(dream), lambda it: it.ended_at is not None, timeout_seconds
        )

    async def cancel_dream(self, dream: str) -> DreamView:
        return await self._http.fetch(DreamView, "POST", "dreams", dream, "cancel")

    async def show_dream_diff(self, dream: str) -> DreamDiffView:
        return await self._http.fetch(DreamDiffView, "GET", "dreams", dream, "diff")

    async def accept_dream(self, dream: str, *, files: Sequence[str] = ()) -> DreamView:
        """Write what a dream over a folder proposes: all, or what concerns these files."""
        return await self._http.fetch(DreamView, "POST", "dreams", dream, "accept", body={"files": files})

    async def refuse_dream(self, dream: str, *, files: Sequence[str] = ()) -> DreamRefusalView:
        """Drop what a dream over a folder proposes: all, or what concerns these files."""
        return await self._http.fetch(DreamRefusalView, "POST", "dreams", dream, "refuse", body={"files": files})

    async def undo_dream(self, dream: str) -> DreamUndoView:
        """Restore what a dream over a folder has replaced."""
        return await self._http.fetch(DreamUndoView, "POST", "dreams", dream, "undo")

    async def list_memory_folders(self) -> MemoryFolderList:
        return await self._http.fetch(MemoryFolderList, "GET", "memory-folders")

    async def show_memory_folder(self, folder: str) -> MemoryFolderDetail:
        """Return a folder's history, and what its next dream waits for, will read and will cost."""
        return await self._http.fetch(MemoryFolderDetail, "GET", "memory-folders", folder)
