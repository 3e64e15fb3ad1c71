"""Client methods for dreams over memory folders and banks."""

from collections.abc import Sequence

from circadia.client.connection import ApiConnection
from circadia.schemas.dreams import (
    DreamDiffView,
    DreamList,
    DreamRefusalView,
    DreamUndoView,
    DreamView,
    MemoryFolderDetail,
    MemoryFolderList,
)


class DreamCalls:
    """One method per endpoint of dreams."""

    _http: ApiConnection

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
        query = {"status": list(statuses), "type": type, "name": name, "before": before, "limit": str(limit)}
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
        return await self._http.fetch(DreamView, "POST", "dreams", dream, "accept", body={"files": list(files)})

    async def refuse_dream(self, dream: str, *, files: Sequence[str] = ()) -> DreamRefusalView:
        """Drop what a dream over a folder proposes: all, or what concerns these files."""
        return await self._http.fetch(DreamRefusalView, "POST", "dreams", dream, "refuse", body={"files": list(files)})

    async def undo_dream(self, dream: str) -> DreamUndoView:
        """Restore what a dream over a folder has replaced."""
        return await self._http.fetch(DreamUndoView, "POST", "dreams", dream, "undo")

    async def list_memory_folders(self) -> MemoryFolderList:
        return await self._http.fetch(MemoryFolderList, "GET", "memory-folders")

    async def show_memory_folder(self, folder: str) -> MemoryFolderDetail:
        """Return a folder's history, and what its next dream waits for, will read and will cost."""
        return await self._http.fetch(MemoryFolderDetail, "GET", "memory-folders", folder)
