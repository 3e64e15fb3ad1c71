"""One step of a loop that must go on after a failure."""

import logging
from collections.abc import Awaitable, Callable

from circadia.errors import CircadiaError, Conflict

_logger = logging.getLogger(__name__)


async def run_guarded(name: str, step: Callable[[], Awaitable[None]]) -> bool:
    """Run the step, log its failure under `name`, and return whether it succeeded."""
    try:
        await step()
    except Conflict as error:  # another process was first
        _logger.debug("%s: %s", name, error)
    except CircadiaError as error:
        _logger.warning("%s waits: %s", name, error)
    except Exception:  # the next try may pass, and nobody else does this work
        _logger.exception("%s failed in a step", name)
    else:
        return True
    return False
