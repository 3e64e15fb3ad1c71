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
│   ├── ApprovalRefused         a person has refused this call, or nobody approved it in time
│   ├── ReadTooSlow             the list or sum needs a narrower question
│   └── LimitReached            a limit that the operator set; wait or ask for more
├── RetryLater                  nobody must act; the same request will pass later
│   ├── StillAsleep             the agent sleeps longer than the hold may last
│   ├── AwaitingApproval        nobody has approved the call within the longest hold
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


class ApprovalRefused(CallerError):
    """A person has refused the call, or nobody has approved it in time."""

    code = "approval_refused"


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


class AwaitingApproval(RetryLater):
    """The call waits for a person longer than the longest hold; the same call finds its approval later."""

    code = "awaiting_approval"


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


_CODES: dict[type[CircadiaError], tuple[int, int, int]] = {
    InvalidRequest: (422, -32602, 2),
    Unauthenticated: (401, -32001, 3),
    Forbidden: (403, -32003, 3),
    NotFound: (404, -32004, 4),
    MethodNotAllowed: (405, -32601, 2),
    WebSocketRefused: (426, -32026, 2),
    Conflict: (409, -32009, 5),
    CallDropped: (410, -32010, 5),
    ApprovalRefused: (403, -32030, 5),
    ReadTooSlow: (504, -32016, 8),
    PreconditionFailed: (412, -32012, 5),
    TooLarge: (413, -32013, 2),
    Misdirected: (421, -32021, 3),
    LimitReached: (429, -32029, 6),
    StillAsleep: (503, -32053, 7),
    AwaitingApproval: (503, -32057, 7),
    TargetGone: (503, -32054, 7),
    StorageUnavailable: (503, -32055, 7),
    UpstreamFailed: (502, -32052, 8),
    UpstreamTimedOut: (504, -32056, 8),
    ConfigError: (500, -32603, 9),
    StartError: (500, -32603, 10),
    Unreachable: (503, -32603, 11),
}
"""HTTP status (RFC 9110), JSON-RPC code and exit status of each leaf.

The server's own range of JSON-RPC codes is -32000 to -32099 (JSON-RPC 2.0, section 5.1). Exit status 1 is for
unexpected errors.
"""
HTTP_STATUS = {error: codes[0] for error, codes in _CODES.items()}
JSON_RPC_CODE = {error: codes[1] for error, codes in _CODES.items()}
EXIT_STATUS = {error: codes[2] for error, codes in _CODES.items()}
