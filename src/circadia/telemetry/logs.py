"""Logging to standard error, one line per record, with secrets redacted."""

import logging
import re
from collections.abc import Iterable
from typing import Final

_TOKEN: Final = re.compile(
    r"circadia-(?:agent|admin|pulse)-[A-Za-z0-9_-]{8,}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}|sk-[A-Za-z0-9_-]{8,}"
)


class RedactingFormatter(logging.Formatter):
    """Formats a record, then redacts tokens and the given secrets, tracebacks included."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._secrets = [secret for secret in secrets if len(secret) >= 4]

    def format(self, record: logging.LogRecord) -> str:
        text = _TOKEN.sub("[redacted]", super().format(record))
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's complaint about answers that the gateway breaks off on purpose (GATE-48)."""
    record.name = "uvicorn"  # its logger is called `uvicorn.error`, also where nothing is wrong
    return "returned without completing response" not in record.getMessage()


def set_up_logs(secrets: Iterable[str], *, level: int = logging.INFO) -> None:
    """Send all logs to standard error, redacted; called once by the serving process."""
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter(secrets))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    for quiet in ("mcp", "uvicorn.access", "aiohttp.access", "alembic", "asyncio"):
        logging.getLogger(quiet).setLevel(logging.WARNING)
