"""What of a request changes from call to call although no answer depends on it, by known programs (ANS-21)."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from circadia.gateway.calls.headers import to_upstream

STORABLE: Final = frozenset(
    {
        b"anthropic-beta", b"anthropic-version", b"openai-beta",  # what the API does
        b"openai-organization", b"openai-project",  # who pays, and which models there are
        b"accept-language",
        b"x-codex-beta-features", b"x-openai-internal-codex-responses-lite",
    }
)  # fmt: skip
"""Headers that may change an answer and contain no secret."""
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
"""Prefixes of headers of SDK telemetry, traces, proxies and browsers."""


class KnownClient(NamedTuple):
    """What a program changes from call to call, although no answer depends on it (ANS-21)."""

    agent: str
    """How its user agent begins."""
    spans: Sequence[str]
    """Volatile spans of its prompts, as in `AnswersSettings.volatile`."""
    headers: frozenset[bytes] = frozenset()


KNOWN_CLIENTS: Final = (
    KnownClient(
        "claude-cli/", (r"/x-anthropic-billing-header:(?: [a-z_]{1,40}=[^;\n]{0,100};)+/", "dates", "ids"),
    ),
    KnownClient(
        "codex", ("dates", "ids"),
        frozenset({
            b"session-id", b"session_id", b"thread-id", b"conversation_id", b"x-codex-window-id",
            b"x-codex-turn-metadata", b"x-codex-turn-state", b"x-codex-installation-id",
        }),
    ),
    KnownClient(
        "opencode/", ("dates", "ids"),
        frozenset({
            b"session-id", b"x-session-id", b"x-session-affinity", b"x-parent-session-id", b"x-opencode-session",
            b"x-opencode-request", b"x-opencode-project", b"x-opencode-client",
        }),
    ),
)  # fmt: skip
NO_CLIENT: Final = KnownClient("", ())


def find_client(user_agent: str) -> KnownClient:
    return next((client for client in KNOWN_CLIENTS if user_agent.startswith(client.agent)), NO_CLIENT)


def answer_changing_headers(
    headers: Iterable[tuple[bytes, bytes]], volatile: Collection[bytes] = ()
) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers that may change the answer, sorted; `volatile` ones only if they are known to change it."""
    return sorted(
        header
        for header in to_upstream(headers)
        if header[0] not in _HARMLESS
        and not header[0].startswith(_HARMLESS_KINDS)
        and (header[0] not in volatile or header[0] in STORABLE)
    )
