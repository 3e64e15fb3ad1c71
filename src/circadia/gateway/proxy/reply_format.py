"""Replies of the model door: errors in the provider's shape, keep-alives that the provider's SDK accepts."""

from circadia.errors import HTTP_STATUS, CallDropped, CircadiaError, InvalidRequest, LimitReached, RetryLater
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.hold.reply import OPENED_JSON, OPENED_STREAM, method_headers

LONGEST_RETRY_AFTER = 60.0
"""Seconds; openai-python ignores a longer `Retry-After` and uses its own."""


class ModelReplyFormat:
    def __init__(self, dialect: Dialect, *, streamed: bool, counts_events: bool = False) -> None:
        """`counts_events` tells that the caller takes nothing else for a sign of life."""
        self._dialect = dialect
        self._streamed = streamed
        self._keep_alive = (
            (dialect.keep_alive_event if counts_events else dialect.keep_alive_bytes) if streamed else b" "
        )
        self.opening = OPENED_STREAM if streamed else OPENED_JSON

    def build_keep_alive(self) -> bytes:
        """Return bytes that an SSE parser drops, an event that its reader drops, or a space before the JSON."""
        return self._keep_alive

    def error_response(self, error: CircadiaError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return the error in the provider's shape, with the retry headers that its SDKs read."""
        status = 400 if isinstance(error, InvalidRequest) else HTTP_STATUS[type(error)]
        headers = [(b"content-type", b"application/json"), (b"x-circadia-error", error.code.encode())]
        headers += method_headers(error)
        after = error.retry_after_seconds
        if isinstance(error, RetryLater | LimitReached):
            passes_soon = isinstance(error, RetryLater) or (after is not None and after <= LONGEST_RETRY_AFTER)
            headers.append((b"x-should-retry", b"true" if passes_soon else b"false"))
            seconds = min(after if after is not None else 5.0, LONGEST_RETRY_AFTER) if passes_soon else after or 60.0
            headers.append((b"retry-after", b"%d" % max(1, round(seconds))))
        elif isinstance(error, CallDropped):
            headers.append((b"x-should-retry", b"false"))
        return status, headers, self._dialect.error(status, error.code, error.message)

    def in_band_error(self, error: CircadiaError) -> bytes | None:
        """Return the provider's error event; None for a buffered answer, unless a broken one would be sent again."""
        build = self._dialect.error_event if self._streamed else self._dialect.error
        if not self._streamed and not isinstance(error, CallDropped):
            return None
        return build(HTTP_STATUS[type(error)], error.code, error.message)
