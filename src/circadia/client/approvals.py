"""Client methods for approvals, what waits for a person and the decision, and for the rest of a streamed answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from circadia.client.connection import ApiConnection
from circadia.records.approval import ApprovalStatus
from circadia.schemas.approvals import ApprovalList, ApprovalView


class ApprovalCalls:
    """One method per endpoint of approvals."""

    _http: ApiConnection

    async def list_approvals(
        self, *, status: str | None = None, agent: str | None = None, before: str | None = None, limit: int = 100
    ) -> ApprovalList:
        """Return the calls that needed a person's approval, newest first; `before` is for the next page."""
        query = {"status": status, "agent": agent, "before": before, "limit": limit}
        return await self._http.fetch(ApprovalList, "GET", "approvals", query=query)

    async def show_approval(self, approval: str) -> ApprovalView:
        return await self._http.fetch(ApprovalView, "GET", "approvals", approval)

    async def wait_for_approval(self, approval: str, *, timeout_seconds: float | None = None) -> ApprovalView:
        """Wait until somebody has decided, or nobody has in time. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_approval(approval), lambda it: it.status is not ApprovalStatus.PENDING, timeout_seconds
        )

    async def approve_call(self, approval: str, reason: str = "") -> ApprovalView:
        """Let a call pass that waits for approval, once. Raises Conflict: it is decided, or has expired."""
        return await self._http.fetch(ApprovalView, "POST", "approvals", approval, "approve", body={"reason": reason})

    async def refuse_call(self, approval: str, reason: str) -> ApprovalView:
        """Refuse a call; its agent gets the reason. Raises Conflict: it is decided, or has expired."""
        return await self._http.fetch(ApprovalView, "POST", "approvals", approval, "refuse", body={"reason": reason})

    async def resume_answer(self, call: str, *, after: int = 0) -> AsyncGenerator[bytes]:
        """Yield the rest of a streamed model answer, behind `after` events, in chunks of any size.

        `call` is the answer's header `x-circadia-call`; the client needs the token that made the call.
        """
        async with aclosing(self._http.chunks("calls", call, "answer", query={"after": after})) as chunks:
            async for chunk in chunks:
                yield chunk
