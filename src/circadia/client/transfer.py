"""The client's methods that export and import banks."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypedDict

from circadia.client.connection import ApiConnection


class ImportedAnswer(TypedDict):
    """What an import has brought."""

    bank: str
    episodes: int
    notes: int
    versions: int
    known: int


class TransferCalls:
    """One method for each endpoint."""

    _http: ApiConnection

    async def export_bank(self, bank: str, *, user: str | None = None) -> AsyncGenerator[bytes]:
        """Yield an export of a bank: JSON Lines, in pieces that end anywhere. Its last line is of type `end`."""
        async with aclosing(self._http.chunks("banks", bank, "export", query={"user": user})) as chunks:
            async for chunk in chunks:
                yield chunk

    async def import_lines(self, bank: str, lines: bytes, *, first_line: int = 1) -> ImportedAnswer:
        """Import lines of an export, at most 1,000: all or none. A repeated import doubles nothing.

        `first_line` is the number that the first of them has where they come from; errors count from it.
        """
        query = {"first_line": str(first_line)}
        return await self._http.call("POST", "banks", bank, "import", lines=lines, query=query)
