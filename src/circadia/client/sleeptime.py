"""The client's methods on sleep-time compute: passes over banks."""

from collections.abc import Sequence

from circadia.client.connection import ApiConnection
from circadia.client.sleep_answers import (
    ChangeListAnswer,
    NoteAnswer,
    PassAnswer,
    PassChangedAnswer,
    PassDetailAnswer,
    PassListAnswer,
    SleeptimeAnswer,
    SleeptimeStatusAnswer,
)


class SleeptimeCalls:
    """One method for each endpoint of sleep-time compute. Banks are named as in memory's methods."""

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
        wait_seconds: float = 0,
        user: str | None = None,
    ) -> PassAnswer:
        """Ask for a pass over all that waits now, and with `wait_seconds` wait for its end.

        That must be less than the client's own `timeout`. A pass that is `needed` yields to nobody; a `full` one looks
        at the whole bank again.
        """
        body = {
            "dry_run": dry_run, "instructions": instructions, "operations": list(operations), "review": review,
            "full": full, "needed": needed, "wait_seconds": wait_seconds,
        }  # fmt: skip
        return await self._http.call("POST", "banks", bank, "passes", body=body, query={"user": user})

    async def list_passes(
        self,
        bank: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 100,
        user: str | None = None,
    ) -> PassListAnswer:
        """Return passes over a bank, the newest first; the answer's `before` is for the next page."""
        query = {"status": status, "before": before, "limit": str(limit), "user": user}
        return await self._http.call("GET", "banks", bank, "passes", query=query)

    async def show_pass(self, run: str) -> PassDetailAnswer:
        """Return a pass with its record."""
        return await self._http.call("GET", "passes", run)

    async def wait_for_pass(self, run: str, *, timeout_seconds: float | None = None) -> PassDetailAnswer:
        """Wait until a pass has ended, however it ended. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_pass(run), lambda it: it["ended_at"] is not None, timeout_seconds
        )

    async def list_changes(
        self, run: str, *, state: str | None = None, after: int = 0, limit: int = 1000
    ) -> ChangeListAnswer:
        """Return what a pass changed or proposes, in order; the answer's `after` is for the next page."""
        query = {"state": state, "after": str(after), "limit": str(limit)}
        return await self._http.call("GET", "passes", run, "changes", query=query)

    async def undo_pass(self, run: str) -> PassChangedAnswer:
        """Take back all that a pass did."""
        return await self._http.call("POST", "passes", run, "undo")

    async def accept_pass(self, run: str, *, numbers: Sequence[int] = ()) -> PassChangedAnswer:
        """Publish what of a pass waits for a person, all of it or the changes of these numbers."""
        return await self._http.call("POST", "passes", run, "accept", body={"numbers": list(numbers)})

    async def refuse_pass(self, run: str, *, numbers: Sequence[int] = ()) -> PassChangedAnswer:
        """Refuse what of a pass waits for a person, all of it or the changes of these numbers."""
        return await self._http.call("POST", "passes", run, "refuse", body={"numbers": list(numbers)})

    async def cancel_pass(self, run: str) -> PassAnswer:
        """End a pass."""
        return await self._http.call("POST", "passes", run, "cancel")

    async def explain_note(self, bank: str, note: str, *, user: str | None = None) -> NoteAnswer:
        """Return a note with the episodes that it rests on, and what passes did to it."""
        return await self._http.call("GET", "banks", bank, "notes", note, query={"user": user})

    async def show_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusAnswer:
        """Return how sleep-time work stands in a bank, and why a pass would begin now or not."""
        return await self._http.call("GET", "banks", bank, "sleeptime", query={"user": user})

    async def pause_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusAnswer:
        """Let no more pass begin over a bank."""
        return await self._http.call("POST", "banks", bank, "sleeptime", "pause", query={"user": user})

    async def resume_sleeptime(self, bank: str, *, user: str | None = None) -> SleeptimeStatusAnswer:
        """Let passes begin again."""
        return await self._http.call("POST", "banks", bank, "sleeptime", "resume", query={"user": user})

    async def show_sleeptime_of_all(self, *, limit: int = 100) -> SleeptimeAnswer:
        """Return how it stands in all banks that have a backlog or a pass that has not ended."""
        return await self._http.call("GET", "sleeptime", query={"limit": str(limit)})
