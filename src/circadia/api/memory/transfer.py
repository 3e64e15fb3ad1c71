"""Export and import of a bank as JSON Lines (MEM-16)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Annotated, Final

from fastapi import Query, Request
from starlette.responses import StreamingResponse

from circadia.agents.access import require_operator
from circadia.api.memory.banks import User
from circadia.api.parts import Parts, Who, noun_router
from circadia.errors import StorageUnavailable
from circadia.memory.transfer.importer import read_lines
from circadia.memory.transfer.lines import export_lines
from circadia.records.agent import MOST_COUNTED
from circadia.schemas.banks import ImportedView

router = noun_router("memory-transfer")

IN_MEMORY: Final = 8 * 2**20
"""Bytes of an export kept in memory for a slow reader; the rest goes to a temporary file."""
CHUNK: Final = 2**16
_LINES: Final = "application/x-ndjson"
_BYTES: Final = "application/octet-stream"
_BYTES_CONTENT: Final = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}


class LinesResponse(StreamingResponse):
    media_type = _LINES


@router.get(
    "/banks/{bank}/export",
    status_code=200,
    response_class=LinesResponse,
    responses={200: {"content": {_LINES: {"schema": {"type": "string"}}, **_BYTES_CONTENT}}},
)
async def export_bank(bank: str, request: Request, who: Who, parts: Parts, user: User = None) -> LinesResponse:
    """Export a bank as JSON Lines, in its current state. Operator only.

    The first line is the bank with the format version; then come episodes, notes and all versions of blocks; the last
    line counts them. Vectors are not included. If `Accept` is `application/octet-stream`, so is the media type.
    """
    require_operator(who)
    spooled: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  the stream closes it
    try:
        async with parts.store.begin_read() as tx:  # consistent; a slow reader must not keep the transaction open
            found_bank = await parts.memory.banks.get(tx, bank, user)
            async with aclosing(export_lines(tx, found_bank, parts.clock.now())) as lines:
                async for chunk in lines:
                    spooled.write(chunk)
        spooled.seek(0)  # flushes the buffer
    except BaseException as error:
        with suppress(OSError):  # close flushes again
            spooled.close()
        if isinstance(error, OSError):
            message = f"the export does not fit in {gettempdir()!r}: {error.strerror}; make room there, or set TMPDIR"
            raise StorageUnavailable(message, retry_after_seconds=30) from error
        raise
    return LinesResponse(
        _read_chunks(spooled), media_type=_BYTES if request.headers.get("accept") == _BYTES else _LINES
    )


async def _read_chunks(spooled: "SpooledTemporaryFile[bytes]") -> AsyncGenerator[bytes]:
    with spooled:
        while chunk := spooled.read(CHUNK):
            yield chunk


@router.post(
    "/banks/{bank}/import",
    openapi_extra={"requestBody": {"required": True, "description": "JSON Lines.", "content": _BYTES_CONTENT}},
)
async def import_lines(
    bank: str,
    request: Request,
    who: Who,
    parts: Parts,
    first_line: Annotated[
        int,
        Query(ge=1, le=MOST_COUNTED, description="Number of the first line in the source file, for error messages."),
    ] = 1,
) -> ImportedView:
    """Import lines of an export, all or none. Operator only.

    The import skips rows that the bank already has, by id or key. The bank's line creates the bank if it does not
    exist.
    """
    require_operator(who)
    lines = read_lines(await request.body(), first_line)
    async with parts.store.begin_write() as tx:
        imported = await parts.memory.intake.add_lines(tx, bank, lines, by=who.name)
    return ImportedView.of(imported)
