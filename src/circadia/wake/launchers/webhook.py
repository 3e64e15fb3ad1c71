"""Launcher that runs a pulse as a signed request to an external program."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from circadia.clock import Clock
from circadia.ids import PulseId
from circadia.output_tail import redact_tail
from circadia.settings.launchers import WebhookLauncherSettings
from circadia.wake.launchers.base import (
    EPOCH,
    PULSE,
    Launch,
    LaunchFailed,
    LaunchResult,
    PulseReports,
    prompt_bytes,
    run_shielded,
)
from circadia.wake.launchers.http_post import (
    ANSWER_BYTES,
    HttpPoster,
    PostAnswerLost,
    PostNotSent,
    PostRejected,
    PostResponse,
)
from circadia.wake.webhook_signatures import sign, signing_key

_logger = logging.getLogger(__name__)

_ACCEPTED: Final = 202
_FIRST_PAUSE_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 0.5
"""Silence of a receiver, after it has the whole request, that counts as being at work.

Chosen: a refusal needs a round trip, less than 1 s on more than 97.5 % of connections (RFC 6298, appendix A), and the
agent's first call waits this long.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Message:
    """A message in its signed form; a repeat has the same id and body."""

    id: str
    body: bytes


class WebhookLauncher:
    """Posts the pulse to a URL, signed by Standard Webhooks 1.0.

    The answer ends the pulse: a 2xx, optionally with `{"status": "succeeded" | "failed", "detail": …}`. After a 202,
    `run` waits for a later report of the end. 429 and 503 with `Retry-After` are retried, as is a refused connection,
    since nothing can have run. Any other 3xx or 4xx means that nothing ran. Where nobody knows whether something ran
    (5xx, a lost connection), the pulse counts as run and failed. A receiver that keeps the request waiting is taken to
    run the agent, whose calls need a started pulse. With `resumes` a run may end as `suspended`, and goes on with a
    request of the type `pulse.resume`.

    An external program cannot be killed: it gets a stop request (`type` is `pulse.stop`), and its token dies.
    """

    kind = "webhook"

    def __init__(
        self,
        settings: WebhookLauncherSettings,
        *,
        secret: str,
        reports: PulseReports,
        clock: Clock,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        """Raises ConfigError unless the secret is base64 of 24 to 64 bytes."""
        self._post = HttpPoster(
            settings.url,
            allowed_networks=settings.allowed_networks,
            connect_timeout_seconds=settings.connect_timeout_seconds,
        )
        self._settings = settings
        self._key = signing_key(secret)
        self._reports = reports
        self._clock = clock
        self._quiet_seconds = quiet_seconds

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        message = _start_message(launch, resumes=self._settings.resumes)
        # Wait for the report first: it can overtake the answer.
        report = asyncio.ensure_future(self._reports.wait_for_report(launch.pulse_id, epoch=launch.epoch))
        has_begun = False

        async def begin() -> None:
            nonlocal has_begun
            if not has_begun and not report.done():  # else the report has started and ended the pulse
                await started()
            has_begun = True

        try:
            try:
                answer = await self._send_with_retries(message, launch.timeout_seconds, begin)
            except PostAnswerLost as error:
                await begin()
                return LaunchResult(succeeded=False, detail=f"{error}; it may have run")
            await begin()
            ended = await report if answer.status == _ACCEPTED else _parse_end(answer, resumes=self._settings.resumes)
        except LaunchFailed:
            raise
        except BaseException:
            await run_shielded(self._stop(launch.pulse_id, launch.epoch + 1))
            raise
        finally:
            report.cancel()
            await asyncio.gather(report, return_exceptions=True)
        return replace(ended, detail=redact_tail(ended.detail, (launch.token,)))

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Ask runs of earlier epochs to stop, unless they are resumed; one out of reach has a dead token."""
        if below_epoch > 1 and not self._settings.resumes:
            await run_shielded(self._stop(pulse_id, below_epoch))

    async def _send_with_retries(
        self, message: _Message, timeout_seconds: float, begin: Callable[[], Awaitable[None]]
    ) -> PostResponse:
        """Return the answer of a program that runs or ran; call `begin` if the answer takes long.

        Raises:
            LaunchFailed: nothing ran. PostAnswerLost: nobody knows whether something ran.
        """
        answer_seconds = self._settings.answer_timeout_seconds or timeout_seconds
        for attempt in range(self._settings.retries + 1):
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
            if attempt == self._settings.retries or pause > self._settings.retry_max_seconds:
                raise LaunchFailed(f"{problem} ({attempt + 1} of {self._settings.retries + 1} tries)")
            await self._clock.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _send_once(
        self, message: _Message, answer_seconds: float, begin: Callable[[], Awaitable[None]]
    ) -> PostResponse:
        """Post once and return the answer; call `begin` when the receiver has it all and is silent."""
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
        """Ask runs before the epoch to stop, once and without a guarantee."""
        content = {"type": "pulse.stop", "pulse": pulse_id, "below_epoch": below_epoch}
        message = _Message(id=f"{pulse_id}-{below_epoch}-stop", body=orjson.dumps(content))
        try:
            async with asyncio.timeout(self._settings.grace_seconds):
                await self._post.send(self._headers(message), message.body, self._settings.grace_seconds)
        except (PostRejected, PostNotSent, PostAnswerLost, TimeoutError) as error:
            _logger.warning("pulse %s could not be asked to stop: %s", pulse_id, error or "no answer in time")

    def _headers(self, message: _Message) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        return {"content-type": "application/json", **sign(self._key, message.id, timestamp, message.body)}


def _start_message(launch: Launch, *, resumes: bool) -> _Message:
    """Return the message that requests a run. Raises LaunchFailed if the prompt cannot be sent whole."""
    prompt_bytes(launch)
    content = {
        "type": "pulse.resume" if resumes and launch.epoch > 1 else "pulse.start",
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
    excerpt = answer.text[:500]
    return f"{url} answered {answer.status}" + (f": {excerpt}" if excerpt else "")


def _parse_end(answer: PostResponse, *, resumes: bool) -> LaunchResult:
    """Return the result in a 2xx other than 202; success is the default."""
    content: object = None
    if answer.text.startswith("{"):  # else it is a word such as `ok`, or a page
        try:
            content = json.loads(answer.text)  # accepts a lone surrogate, which a text cut by JavaScript may end with
        except (ValueError, RecursionError):
            detail = f"its answer is longer than {ANSWER_BYTES} bytes or not JSON, so its result is unknown"
            return LaunchResult(succeeded=False, detail=f"{detail}: {answer.text[:200]}")
    if not isinstance(content, Mapping) or "status" not in content:
        return LaunchResult(succeeded=True, detail=f"HTTP {answer.status}")
    fields = cast("Mapping[str, Any]", content)
    detail = str(fields.get("detail") or f"HTTP {answer.status}")
    if resumes and fields["status"] == "suspended":
        return LaunchResult(succeeded=True, suspended=True, detail=detail)
    if fields["status"] not in ("succeeded", "failed"):
        return LaunchResult(
            succeeded=False, detail=f"it answered with the unknown status {fields['status']!r}: {detail}"
        )
    return LaunchResult(succeeded=fields["status"] == "succeeded", detail=detail)
