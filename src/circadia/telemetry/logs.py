"""Logging to standard error, as lines of text or JSON, with secrets redacted."""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

_TOKEN: Final = re.compile(
    r"circadia-(?:agent|admin|pulse)-[A-Za-z0-9_-]{8,}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}|sk-[A-Za-z0-9_-]{8,}"
)


class RedactingFormatter(logging.Formatter):
    """Formats a record as a line of text, then redacts tokens and the given secrets, tracebacks included."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._secrets = [secret for secret in secrets if len(secret) >= 4]

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))

    def redact(self, text: str) -> str:
        text = _TOKEN.sub("[redacted]", text)
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


class JsonFormatter(RedactingFormatter):
    """Formats a record as one JSON object on a line: time, level, logger, message, traceback, and its own `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.redact(record.getMessage()),
        }
        if record.exc_info:
            document["exception"] = self.redact(self.formatException(record.exc_info))
        fields: Mapping[str, object] = getattr(record, "fields", {})
        document |= {name: self.redact(value) if isinstance(value, str) else value for name, value in fields.items()}
        return json.dumps(document, ensure_ascii=False)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's complaint about answers that the gateway breaks off on purpose (GATE-48)."""
    record.name = "uvicorn"  # its logger is called `uvicorn.error`, also where nothing is wrong
    return "returned without completing response" not in record.getMessage()


def set_up_logs(secrets: Iterable[str], *, form: Literal["text", "json"] = "text", level: int = logging.INFO) -> None:
    """Send all logs to standard error, redacted; called once by the serving process."""
    handler = logging.StreamHandler()
    handler.setFormatter((JsonFormatter if form == "json" else RedactingFormatter)(secrets))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    for quiet in ("mcp", "uvicorn.access", "aiohttp.access", "alembic", "asyncio"):
        logging.getLogger(quiet).setLevel(max(level, logging.WARNING))
