"""Export and import of a bank, as JSON Lines (MEM-16)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from circadia.agents.access import require_operator
from circadia.api.memory.banks import User
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.policies import MOST_COUNTED
from circadia.errors import StorageUnavailable
from circadia.memory.transfer.export import export_lines
from circadia.memory.transfer.importer import read_lines

router = noun_router("memory transfer")

IN_MEMORY: Final = 8 * 2**20
"""Bytes of an export that wait in memory for a slow reader; more wait in a temporary file."""
CHUNK: Final = 2**16
_MEDIA_TYPE: Final = "application/x-ndjson"


class ImportedView(BaseModel):
    """What an import has brought."""

    bank: str = Field(description="The bank's name.")
    episodes: int = Field(description="Episodes that are new.")
    notes: int = Field(description="Notes that are new.")
    versions: int = Field(description="Versions of blocks that are new.")
    known: int = Field(description="Lines that say what the bank had already.")


class LinesResponse(StreamingResponse):
    """JSON Lines."""

    media_type = _MEDIA_TYPE


@router.get(
    "/banks/{b}/export",
    status_code=200,
    response_class=LinesResponse,
    responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def export_bank(b: str, who: Who, parts: Parts, user: User = None) -> LinesResponse:
    """Export a bank as JSON Lines, as it is at this moment. The operator only.

    The first line is the bank, with the version of the format; then come episodes, notes and all versions of blocks;
    the last line counts them. Vectors are not in it.
    """
    require_operator(who)
    spooled: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  the stream closes it
    try:
        async with parts.store.begin_read() as tx:  # one state; a slow reader must not keep the transaction open
            bank = await parts.memory.banks.get(tx, b, user)
            async with aclosing(export_lines(tx, bank, parts.clock.now())) as lines:
                async for chunk in lines:
                    spooled.write(chunk)
        spooled.seek(0)  # which writes what waits
    except BaseException as error:
        with suppress(OSError):  # it tries once more to write what waits
            spooled.close()
        if isinstance(error, OSError):
            told = f"the export does not fit in {gettempdir()!r}: {error.strerror}; make room there, or set TMPDIR"
            raise StorageUnavailable(told, retry_after_seconds=30) from error
        raise
    return LinesResponse(_read_chunks(spooled))


async def _read_chunks(spooled: "SpooledTemporaryFile[bytes]") -> AsyncGenerator[bytes]:
    with spooled:
        while chunk := spooled.read(CHUNK):
            yield chunk


@router.post(
    "/banks/{b}/import",
    openapi_extra={"requestBody": {"required": True, "content": {_MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def import_lines(
    b: str,
    request: Request,
    who: Who,
    parts: Parts,
    first_line: Annotated[
        int, Query(ge=1, le=MOST_COUNTED, description="What number the first line has where it comes from.")
    ] = 1,
) -> ImportedView:
    """Import lines of an export: all, or none if one of them cannot be taken. The operator only.

    What the bank has already, by id or key, is not doubled. The bank's line makes the bank if there is none.
    """
    require_operator(who)
    lines = read_lines(await request.body(), first_line)
    async with parts.store.begin_write() as tx:
        taken = await parts.memory.intake.add_lines(tx, b, lines, by=who.name)
    return ImportedView(
        bank=taken.bank, episodes=taken.episodes, notes=taken.notes, versions=taken.versions, known=taken.known
    )
