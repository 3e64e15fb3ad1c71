"""Batch interfaces of providers: questions that nobody waits for, at half the price and within a day (SLEEP-44).

A batch is found again after a kill between its submission and the record of its id: OpenAI's by our key in its
metadata, Anthropic's by the ids of its requests, which it shows once it has ended.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from pydantic import BaseModel

PRICE_SHARE: Final = 0.5
"""What both providers charge of the usual price."""
CLOCKS_APART: Final = timedelta(minutes=2)
"""How far the provider's clock may be from ours."""
SUBMITTED_WITHIN: Final = timedelta(minutes=30)
"""After its reservation a batch is submitted within this time, or not at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRequest:
    """One question of a batch."""

    id: str
    """Ours; the provider repeats it with the answer."""
    body: Mapping[str, Any]
    """The request that the provider's usual interface takes."""
    headers: Mapping[str, str]
    """Headers that this request needs beside the usual ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchAnswer:
    """What came back for one question."""

    body: bytes | None = None
    """The response of the provider's usual interface; none if there is no answer."""
    error: str = ""
    """Why there is none, without the provider's words: they may quote the question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchProgress:
    is_over: bool
    answers: Mapping[str, BatchAnswer]
    """By the ids of the questions, once the batch is over."""


class BatchRefused(Exception):
    """The provider refuses the batch, so nothing is charged; ask through its usual interface."""


class BatchUncertain(Exception):
    """Nobody knows yet whether the provider has the batch; look again later."""


class BatchInterface(Protocol):
    """A provider's batches. Connection errors and statuses of 5xx raise BatchUncertain."""

    async def submit(self, key: str, requests: Sequence[BatchRequest]) -> str:
        """Submit the questions under our key; return the provider's id of the batch.

        Raises BatchRefused, or BatchUncertain: the batch may have been accepted.
        """
        ...

    async def find(self, key: str, ids: Collection[str], since: datetime, known: Collection[str]) -> str | None:
        """Return the id of a batch that was submitted under our key; None if there is none.

        It has some of the questions with these `ids`, and no others. `since` is when they were reserved, and `known`
        are ids of other batches. Raises BatchUncertain.
        """
        ...

    async def fetch(self, batch_id: str) -> BatchProgress:
        """Return how far a batch is. Raises BatchUncertain, or BatchRefused: the provider does not know it."""
        ...


def may_be_ours(created_at: datetime, since: datetime) -> bool:
    """Return whether a batch of this time may be the one that was reserved then."""
    return since - CLOCKS_APART <= created_at <= since + SUBMITTED_WITHIN


def build_lines(requests: Sequence[BatchRequest], endpoint: str) -> bytes:
    """Return OpenAI's input file: a line of JSON for each request."""
    lines = ({"custom_id": each.id, "method": "POST", "url": endpoint, "body": each.body} for each in requests)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


class _Response(BaseModel):
    status_code: int
    body: Any


class _Line(BaseModel):
    custom_id: str
    response: _Response | None = None
    error: Any = None


def read_lines(content: bytes) -> Mapping[str, BatchAnswer]:
    """Return the answers of OpenAI's output or error file, without lines that are broken.

    Of two answers to a question, a response counts. Raises ValueError: every line is broken.
    """
    answers: dict[str, BatchAnswer] = {}
    broken: ValueError | None = None
    for text in filter(None, map(bytes.strip, content.splitlines())):
        try:
            line = _Line.model_validate_json(text)
        except ValueError as error:
            broken = error
            continue
        known = answers.get(line.custom_id)
        if known is not None and known.body is not None:
            continue
        if line.response is not None and line.response.status_code == HTTPStatus.OK and line.error is None:
            answers[line.custom_id] = BatchAnswer(body=json.dumps(line.response.body).encode())
        else:
            status = "unknown" if line.response is None else line.response.status_code
            answers[line.custom_id] = BatchAnswer(error=f"the batch has no answer (status {status})")
    if broken is not None and not answers:
        raise broken
    return answers
