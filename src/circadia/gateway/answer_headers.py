"""Which headers of a call an answer may depend on.

Each one that goes upstream does, unless it is known to say only how, by whom or on which way the call comes. Few are
known to hold no secret, so that they may be written down.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from circadia.gateway.headers import to_upstream

_STORABLE: Final = frozenset(
    {
        b"anthropic-beta", b"anthropic-version", b"openai-beta",  # what the API does
        b"openai-organization", b"openai-project",  # who pays, and which models there are
        b"accept-language",
    }
)  # fmt: skip
"""Headers that may change an answer and have no secret in them."""
_HARMLESS: Final = frozenset(
    {
        b"accept", b"accept-charset", b"cache-control", b"content-type", b"date", b"dnt", b"max-forwards", b"origin",
        b"pragma", b"priority", b"referer", b"upgrade-insecure-requests", b"user-agent", b"via",  # transport
        b"anthropic-dangerous-direct-browser-access", b"http-referer", b"x-app", b"x-title", b"x-goog-api-client",
        b"x-requested-with", b"x-ms-useragent", b"originator", b"x-claude-code-session-id",  # which program calls
        b"idempotency-key", b"x-idempotency-key", b"x-client-request-id", b"x-ms-client-request-id", b"x-request-id",
        b"request-id", b"x-correlation-id", b"correlation-id", b"x-request-start",  # which call it is
        b"baggage", b"b3", b"sentry-trace", b"traceparent", b"tracestate", b"uber-trace-id", b"x-amzn-trace-id",
        b"x-cloud-trace-context", b"x-trace-id", b"x-span-id", b"elastic-apm-traceparent", b"newrelic",  # traces
        b"true-client-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-original-forwarded-for",
        b"cdn-loop", b"x-scheme",  # proxies on the way
    }
)  # fmt: skip
_HARMLESS_KINDS: Final = (
    b"x-stainless-", b"x-circadia-", b"x-forwarded-", b"x-b3-", b"x-datadog-", b"x-envoy-", b"cf-", b"sec-",
    b"x-amz-cf-", b"x-azure-", b"x-vercel-", b"fly-",
)  # fmt: skip
"""How names begin of the telemetry of SDKs, of traces, proxies and browsers."""


def answer_changing_headers(
    headers: Iterable[tuple[bytes, bytes]], volatile: Collection[bytes] = ()
) -> Sequence[tuple[bytes, bytes]]:
    """Return those of a caller's headers that may change the answer, in an order of their own.

    Those that are declared `volatile` do not, unless they are known to.
    """
    return sorted(
        header
        for header in to_upstream(headers)
        if header[0] not in _HARMLESS
        and not header[0].startswith(_HARMLESS_KINDS)
        and (header[0] not in volatile or header[0] in _STORABLE)
    )


def are_headers_storable(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether all of them may be written down; without one of them nothing must be asked ahead."""
    return all(name in _STORABLE for name, _ in headers)
