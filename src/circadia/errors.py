"""The exception tree: the class says who must act, the message says what happened and what to do.

CircadiaError
├── CallerError                 the caller must change the request
│   ├── InvalidRequest          malformed or out of range
│   ├── Unauthenticated         no token, or one that opens nothing
│   ├── Forbidden               a good token, but not for this door
│   ├── NotFound                no such session, agent, thread, upstream …
│   ├── MethodNotAllowed        the path exists, the method does not
│   ├── Conflict                the state does not allow it now
│   ├── TooLarge                the body is over the limit
│   ├── Misdirected             the Host header is not one of this server's
│   └── LimitReached            a limit of the operator's; wait or ask for more
├── RetryLater                  nobody must act; the same request will pass later
│   ├── StillAsleep             the agent sleeps longer than the hold may last
│   ├── TargetGone              the session, agent or server that the call waited for is gone
│   └── StorageUnavailable      the database does not answer or the disk is full
├── UpstreamFailed              the provider or the MCP server behind the gateway must act
│   └── UpstreamTimedOut        it took longer than its time limit
└── OperatorError               whoever runs the server must act
    ├── ConfigError             the configuration is wrong
    ├── StartError              port, data folder, lock or weights do not allow a start
    └── Unreachable             no server answers where the client asks
"""


class CircadiaError(Exception):
    """Root of all errors that Circadia raises on purpose."""

    code = "error"

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class CallerError(CircadiaError):
    """The caller must change the request."""


class InvalidRequest(CallerError):
    """The request is malformed, or a value is out of range."""

    code = "invalid_request"


class Unauthenticated(CallerError):
    """No token came, or one that opens nothing."""

    code = "unauthenticated"


class Forbidden(CallerError):
    """The token is good, but not for this door."""

    code = "forbidden"


class NotFound(CallerError):
    """There is no such thing, or not for this caller."""

    code = "not_found"


class MethodNotAllowed(CallerError):
    """The path exists; this method on it does not."""

    code = "method_not_allowed"


class Conflict(CallerError):
    """The present state does not allow it."""

    code = "conflict"


class TooLarge(CallerError):
    """The body is over the limit."""

    code = "too_large"


class Misdirected(CallerError):
    """The Host header names no host of this server (the guard against DNS rebinding)."""

    code = "misdirected"


class LimitReached(CallerError):
    """A limit that the operator set is reached."""

    code = "limit_reached"


class RetryLater(CircadiaError):
    """Nobody must act; the same request passes later."""


class StillAsleep(RetryLater):
    """The agent sleeps longer than a hold may last."""

    code = "still_asleep"


class TargetGone(RetryLater):
    """The session or agent is gone, or the server is stopping."""

    code = "ended"


class StorageUnavailable(RetryLater):
    """The database does not answer, or the disk is full."""

    code = "storage_unavailable"


class UpstreamFailed(CircadiaError):
    """The provider or MCP server behind the gateway did not give a usable answer."""

    code = "upstream_failed"


class UpstreamTimedOut(UpstreamFailed):
    """The provider or MCP server behind the gateway took too long."""

    code = "upstream_timed_out"


class OperatorError(CircadiaError):
    """Whoever runs the server must act."""


class ConfigError(OperatorError):
    """The configuration is wrong."""

    code = "config_error"


class StartError(OperatorError):
    """Port, data folder, lock or weights do not allow a start."""

    code = "start_error"


class Unreachable(OperatorError):
    """No server answers where the client asks."""

    code = "unreachable"


HTTP_STATUS: dict[type[CircadiaError], int] = {
    InvalidRequest: 422,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    MethodNotAllowed: 405,
    Conflict: 409,
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
"""Status of each leaf in an HTTP answer (RFC 9110)."""

JSON_RPC_CODE: dict[type[CircadiaError], int] = {
    InvalidRequest: -32602,
    Unauthenticated: -32001,
    Forbidden: -32003,
    NotFound: -32004,
    MethodNotAllowed: -32601,
    Conflict: -32009,
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
"""Code of each leaf in a JSON-RPC error; the range -32000 to -32099 is the server's own (JSON-RPC 2.0, section 5.1)."""

EXIT_STATUS: dict[type[CircadiaError], int] = {
    InvalidRequest: 2,
    Unauthenticated: 3,
    Forbidden: 3,
    NotFound: 4,
    MethodNotAllowed: 2,
    Conflict: 5,
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
"""Exit status of the CLI for each leaf; 1 is left to what nobody foresaw."""
