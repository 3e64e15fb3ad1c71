"""A pulse as a signed request to a program that runs elsewhere."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import orjson

from circadia.clock import Clock
from circadia.ids import PulseId
from circadia.wake.launchers.base import Launch, LaunchFailed, LaunchResult
from circadia.wake.launchers.environment import EPOCH, PULSE, prompt_bytes
from circadia.wake.launchers.http_post import (
    ANSWER_BYTES,
    HttpPoster,
    PostAnswerLost,
    PostNotSent,
    PostRejected,
    PostResponse,
)
from circadia.wake.launchers.output import redact_tail
from circadia.wake.launchers.shielding import run_shielded
from circadia.wake.launchers.signature import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    signature,
    signing_key,
)

_logger = logging.getLogger(__name__)

_ACCEPTED: Final = 202
_FIRST_PAUSE_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 0.5
"""A receiver that has the request and says nothing for so long counts as at work.

Chosen: who refuses needs a round trip, which takes less than 1 s on more than 97.5 % of connections (RFC 6298, appendix
A), and the agent's first call is held for so long.
"""


class PulseReportSource(Protocol):
    """Where a program that runs elsewhere reports its end, when it does not in the answer itself."""

    async def wait_for_report(self, pulse_id: PulseId, *, epoch: int) -> LaunchResult:
        """Wait for the report of this epoch's run and return it; it is called before the run is asked for.

        A report has ended the pulse by the time that it is returned. One of an earlier epoch must not end a later one.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Message:
    """What is posted, in the form that is signed; a repeat has the same id and body."""

    id: str
    body: bytes


class WebhookLauncher:
    """Posts the pulse to a URL, signed as Standard Webhooks 1.0 says.

    The answer ends the pulse: a 2xx, with `{"status": "succeeded" | "failed", "detail": …}` if it has more to say. Or
    it is 202: then the program reports the end later, and `run` waits for that. 429 and 503 with `Retry-After` are
    tried again, as is a refused connection, since nothing can have run. Any other 3xx or 4xx says that nothing ran.
    Where it cannot be known whether something ran (5xx, a lost connection), the pulse counts as run, and as failed.
    A receiver that lets the request wait for its answer is taken to run the agent, whose calls need the pulse started.

    A program elsewhere cannot be killed: it is asked to stop (`type` is `pulse.stop`), and its token dies.
    """

    kind = "webhook"

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        reports: PulseReportSource,
        clock: Clock,
        allowed_networks: Sequence[str] = (),
        connect_timeout_seconds: float = 10.0,
        answer_timeout_seconds: float | None = None,
        retries: int = 3,
        retry_max_seconds: float = 30.0,
        grace_seconds: float = 10.0,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """Keep what each request needs; the settings of the same names say what they mean.

        Raises:
            ConfigError: the secret is no base64 of 24 to 64 bytes.
        """
        self._post = HttpPoster(url, allowed_networks=allowed_networks, connect_timeout_seconds=connect_timeout_seconds)
        self._key = signing_key(secret)
        self._reports = reports
        self._clock = clock
        self._answer_timeout_seconds = answer_timeout_seconds
        self._retries = retries
        self._retry_max_seconds = retry_max_seconds
        self._grace_seconds = grace_seconds
        self._quiet_seconds = quiet_seconds

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        """Ask for the run and wait for its end."""
        message = _start_message(launch)
        # Listens before it asks: the report can overtake the answer.
        report = asyncio.ensure_future(self._reports.wait_for_report(launch.pulse_id, epoch=launch.epoch))
        begun = False

        async def begin() -> None:
            nonlocal begun
            if not begun and not report.done():  # else the report has started the pulse, and ended it
                await started()
            begun = True

        try:
            try:
                answer = await self._send_with_retries(message, launch.timeout_seconds, begin)
            except PostAnswerLost as error:
                await begin()
                return LaunchResult(succeeded=False, detail=f"{error}; it may have run")
            await begin()
            ended = await report if answer.status == _ACCEPTED else _parse_end(answer)
        except LaunchFailed:
            raise
        except BaseException:
            await run_shielded(self._stop(launch.pulse_id, launch.epoch + 1))
            raise
        finally:
            report.cancel()
            await asyncio.gather(report, return_exceptions=True)
        return LaunchResult(succeeded=ended.succeeded, detail=redact_tail(ended.detail, (launch.token,)))

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Ask what runs of earlier epochs to stop; one that cannot be reached is left to its dead token."""
        if below_epoch > 1:
            await run_shielded(self._stop(pulse_id, below_epoch))

    async def _send_with_retries(
        self, message: _Message, timeout_seconds: float, begin: Callable[[], Awaitable[None]]
    ) -> PostResponse:
        """Return the answer that says that something runs or ran; `begin` is called when it stays away.

        Raises:
            LaunchFailed: nothing ran. PostAnswerLost: nobody knows.
        """
        answer_seconds = self._answer_timeout_seconds or timeout_seconds
        for attempt in range(self._retries + 1):
            pause = _FIRST_PAUSE_SECONDS * 2**attempt
            try:
                answer = await self._send_once(message, answer_seconds, begin)
            except PostRejected as error:
                raise LaunchFailed(str(error)) from error
            except PostNotSent as error:
                problem = str(error)
            else:
                if 200 <= answer.status < 300:
                    return answer
                problem = _describe_problem(self._post.shown, answer)
                if answer.retry_after_seconds is None:
                    if answer.status >= 500:
                        raise PostAnswerLost(problem)
                    raise LaunchFailed(problem)
                pause = answer.retry_after_seconds
            if attempt == self._retries or pause > self._retry_max_seconds:
                raise LaunchFailed(f"{problem} ({attempt + 1} of {self._retries + 1} tries)")
            await self._clock.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _send_once(
        self, message: _Message, answer_seconds: float, begin: Callable[[], Awaitable[None]]
    ) -> PostResponse:
        """Post once and return the answer; call `begin` when the receiver has it all and is quiet."""
        written = asyncio.Event()
        sending = asyncio.ensure_future(
            self._post.send(self._headers(message), message.body, answer_seconds, written=written.set)
        )
        waiting = asyncio.ensure_future(written.wait())
        try:
            await asyncio.wait((sending, waiting), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((sending,), timeout=self._quiet_seconds)
            if not sending.done():
                await begin()
            return await sending
        finally:
            sending.cancel()
            waiting.cancel()
            await asyncio.gather(sending, waiting, return_exceptions=True)

    async def _stop(self, pulse_id: PulseId, below_epoch: int) -> None:
        """Ask, once and without a promise, that runs before the epoch end."""
        content = {"type": "pulse.stop", "pulse": pulse_id, "below_epoch": below_epoch}
        message = _Message(id=f"{pulse_id}-{below_epoch}-stop", body=orjson.dumps(content))
        try:
            async with asyncio.timeout(self._grace_seconds):
                await self._post.send(self._headers(message), message.body, self._grace_seconds)
        except (PostRejected, PostNotSent, PostAnswerLost, TimeoutError) as error:
            _logger.warning("pulse %s could not be asked to stop: %s", pulse_id, error or "no answer in time")

    def _headers(self, message: _Message) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        return {
            "content-type": "application/json",
            ID_HEADER: message.id,
            TIMESTAMP_HEADER: str(timestamp),
            SIGNATURE_HEADER: signature(self._key, message.id, timestamp, message.body),
        }


def _start_message(launch: Launch) -> _Message:
    """Return what asks for a run.

    Raises:
        LaunchFailed: the prompt cannot be sent whole.
    """
    prompt_bytes(launch)
    content = {
        "type": "pulse.start",
        "pulse": launch.pulse_id,
        "attempt": launch.attempt,
        "epoch": launch.epoch,
        "agent": launch.agent,
        "prompt": launch.prompt,
        "token": launch.token,
        "environment": {**launch.environment, PULSE: launch.pulse_id, EPOCH: str(launch.epoch)},
        "timeout_seconds": launch.timeout_seconds,
    }
    return _Message(id=f"{launch.pulse_id}-{launch.epoch}", body=orjson.dumps(content))


def _describe_problem(url: str, answer: PostResponse) -> str:
    if 300 <= answer.status < 400:
        return f"{url} answered {answer.status}; redirects are not followed: set the address that it leads to"
    said = answer.text[:500]
    return f"{url} answered {answer.status}" + (f": {said}" if said else "")


def _parse_end(answer: PostResponse) -> LaunchResult:
    """Return what a 2xx other than 202 says; one without a status says that all went well."""
    content: object = None
    if answer.text.startswith("{"):  # else it is a word such as `ok`, or a page
        try:
            content = json.loads(answer.text)  # takes the half of a character that a cut text of JavaScript ends with
        except (ValueError, RecursionError):
            detail = f"its answer is longer than {ANSWER_BYTES} bytes, or no JSON, so nobody knows how it ended"
            return LaunchResult(succeeded=False, detail=f"{detail}: {answer.text[:200]}")
    if not isinstance(content, Mapping) or "status" not in content:
        return LaunchResult(succeeded=True, detail=f"HTTP {answer.status}")
    said = cast("Mapping[str, Any]", content)
    detail = str(said.get("detail") or f"HTTP {answer.status}")
    if said["status"] not in ("succeeded", "failed"):
        return LaunchResult(succeeded=False, detail=f"it answered with the unknown status {said['status']!r}: {detail}")
    return LaunchResult(succeeded=said["status"] == "succeeded", detail=detail)
