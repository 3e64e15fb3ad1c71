"""The exception tree: the class says who must act, the message says what happened and what to do.

CircadiaError
├── CallerError                 the caller must change the request
│   ├── InvalidRequest          malformed or out of range
│   ├── Unauthenticated         no token, or an unknown one
│   ├── Forbidden               a valid token without access to this
│   ├── NotFound                no such session, agent, thread, upstream …
│   ├── MethodNotAllowed        the path exists, the method does not
│   ├── WebSocketRefused        the path takes plain requests
│   ├── Conflict                the current state does not allow it
│   ├── PreconditionFailed      the settings have changed since the caller read them
│   ├── TooLarge                the body is over the limit
│   ├── Misdirected             the Host header names another server
│   ├── CallDropped             an operator has ended this held call
│   ├── ReadTooSlow             the list or sum needs a narrower question
│   └── LimitReached            a limit that the operator set; wait or ask for more
├── RetryLater                  nobody must act; the same request will pass later
│   ├── StillAsleep             the agent sleeps longer than the hold may last
│   ├── TargetGone              the session, agent or server that the call waited for is gone
│   └── StorageUnavailable      the database does not answer or the disk is full
├── UpstreamFailed              the provider or the MCP server behind the gateway must act
│   └── UpstreamTimedOut        it exceeded its time limit
└── OperatorError               whoever runs the server must act
    ├── ConfigError             the configuration is wrong
    ├── StartError              port, data folder, lock or weights do not allow a start
    └── Unreachable             no server answers at the client's address
"""

from collections.abc import Sequence


class CircadiaError(Exception):
    """Base class of all errors that Circadia raises on purpose."""

    code = "error"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class CallerError(CircadiaError):
    """The caller must change the request."""


class InvalidRequest(CallerError):
    code = "invalid_request"


class Unauthenticated(CallerError):
    code = "unauthenticated"


class Forbidden(CallerError):
    code = "forbidden"


class NotFound(CallerError):
    """The object does not exist, or this caller may not see it."""

    code = "not_found"


class MethodNotAllowed(CallerError):
    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: Sequence[str] = (), retry_after_seconds: float | None = None) -> None:
        """`allow` are the methods that the path has, where the server refuses; a client has them not."""
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.allow = tuple(allow)


class WebSocketRefused(CallerError):
    """The caller asks for a WebSocket where there are plain requests; clients then use these."""

    code = "websocket_refused"


class Conflict(CallerError):
    code = "conflict"


class PreconditionFailed(CallerError):
    """What the caller wants to change is no longer as the caller has read it."""

    code = "precondition_failed"


class TooLarge(CallerError):
    code = "too_large"


class Misdirected(CallerError):
    """The Host header names no host of this server (the guard against DNS rebinding)."""

    code = "misdirected"


class CallDropped(CallerError):
    """An operator has ended the held call; a repeat would be held again."""

    code = "dropped"


class ReadTooSlow(CallerError):
    """A read for an operator took longer than it may; others must not wait for it."""

    code = "read_too_slow"


class LimitReached(CallerError):
    code = "limit_reached"


class RetryLater(CircadiaError):
    """Nobody must act; the same request passes later."""


class StillAsleep(RetryLater):
    """The agent sleeps longer than the longest hold."""

    code = "still_asleep"


class TargetGone(RetryLater):
    """The session or agent is gone, or the server is stopping."""

    code = "ended"


class StorageUnavailable(RetryLater):
    code = "storage_unavailable"


class UpstreamFailed(CircadiaError):
    """The provider or MCP server behind the gateway gave no usable answer."""

    code = "upstream_failed"


class UpstreamTimedOut(UpstreamFailed):
    code = "upstream_timed_out"


class OperatorError(CircadiaError):
    """The operator of the server must act."""


class ConfigError(OperatorError):
    code = "config_error"


class StartError(OperatorError):
    code = "start_error"


class Unreachable(OperatorError):
    code = "unreachable"


HTTP_STATUS: dict[type[CircadiaError], int] = {
    InvalidRequest: 422,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    MethodNotAllowed: 405,
    WebSocketRefused: 426,
    Conflict: 409,
    CallDropped: 410,
    ReadTooSlow: 504,
    PreconditionFailed: 412,
    TooLarge: 413,
    Misdirected: 421,
    LimitReached: 429,
    StillAsleep: 503,
    TargetGone: 503,
    StorageUnavailable: 503,
    UpstreamFailed: 502,
    UpstreamTimedOut: 504,
    ConfigError: 500,
    StartError: 500,
    Unreachable: 503,
}
"""HTTP status of each leaf (RFC 9110)."""

JSON_RPC_CODE: dict[type[CircadiaError], int] = {
    InvalidRequest: -32602,
    Unauthenticated: -32001,
    Forbidden: -32003,
    NotFound: -32004,
    MethodNotAllowed: -32601,
    WebSocketRefused: -32026,
    Conflict: -32009,
    CallDropped: -32010,
    ReadTooSlow: -32016,
    PreconditionFailed: -32012,
    TooLarge: -32013,
    Misdirected: -32021,
    LimitReached: -32029,
    StillAsleep: -32053,
    TargetGone: -32054,
    StorageUnavailable: -32055,
    UpstreamFailed: -32052,
    UpstreamTimedOut: -32056,
    ConfigError: -32603,
    StartError: -32603,
    Unreachable: -32603,
}
"""JSON-RPC code of each leaf; -32000 to -32099 is the server's own range (JSON-RPC 2.0, section 5.1)."""

EXIT_STATUS: dict[type[CircadiaError], int] = {
    InvalidRequest: 2,
    Unauthenticated: 3,
    Forbidden: 3,
    NotFound: 4,
    MethodNotAllowed: 2,
    WebSocketRefused: 2,
    Conflict: 5,
    CallDropped: 5,
    ReadTooSlow: 8,
    PreconditionFailed: 5,
    TooLarge: 2,
    Misdirected: 3,
    LimitReached: 6,
    StillAsleep: 7,
    TargetGone: 7,
    StorageUnavailable: 7,
    UpstreamFailed: 8,
    UpstreamTimedOut: 8,
    ConfigError: 9,
    StartError: 10,
    Unreachable: 11,
}
"""CLI exit status of each leaf; 1 is for unexpected errors."""
