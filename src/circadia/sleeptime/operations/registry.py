"""The operations of a pass, in order. A new one needs a file here, a name in the settings and a line below."""

import importlib
import logging
from collections.abc import Mapping, Sequence

from circadia.errors import ConfigError, InvalidRequest
from circadia.settings.sleeptime import Operation as Name
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.operations.collect import Collect
from circadia.sleeptime.operations.compress import Compress
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.dedupe import Dedupe
from circadia.sleeptime.operations.extract import Extract
from circadia.sleeptime.operations.precompute import Precompute
from circadia.sleeptime.operations.reflect import Reflect
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.operations.rethink import Rethink
from circadia.sleeptime.proposals.operation import Operation

_logger = logging.getLogger(__name__)


def choose_operations(
    policy: SleepPolicySettings, model: bool, wanted: Sequence[str], own: Sequence[Operation] = ()
) -> Sequence[Operation]:
    """Return the operations of a pass under this policy: all that are on, or those in `wanted`. Raises InvalidRequest.

    The user's `own` run after those that establish what holds, and before the blocks are rewritten.
    """
    every: Mapping[Name | str, Operation] = {
        "consolidate": Consolidate() if model else Extract(),
        "contradictions": Contradictions(),
        "reflect": Reflect(),
        "compress": Compress(),
        "dedupe": Dedupe(is_judged=policy.verify == "model"),
        "collect": Collect(unused_days=policy.unused_days),
        **{operation.name: operation for operation in own},
        "rethink": Rethink(max_rethinks=policy.max_rethinks),
        "reindex": Reindex(),
        "precompute": Precompute(),
    }
    on = {name: operation for name, operation in every.items() if policy.is_operation_enabled(name)}
    for name in wanted:
        if name not in on:
            raise InvalidRequest(f"operation {name!r} is unknown or off; choose from {', '.join(on)}")
    return [
        operation for name, operation in on.items() if (not wanted or name in wanted) and (model or not operation.asks)
    ]


def load_own_operations(own: Mapping[str, str]) -> Sequence[Operation]:
    """Import the user's own operations, given by name as `package.module:Class`. Raises ConfigError."""
    return [_load_operation(name, place) for name, place in own.items()]


def _load_operation(name: str, place: str) -> Operation:
    where = f"sleeptime.own_operations.{name}: {place!r}"
    module_name, _, class_name = place.partition(":")
    try:
        operation = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        _logger.exception("%s cannot be loaded", where)
        raise ConfigError(f"{where} cannot be loaded ({type(error).__name__}: {error})") from error
    lacking = [attribute for attribute in ("name", "asks", "plan", "propose") if not hasattr(operation, attribute)]
    if lacking or operation.name != name:
        what = f"has no {lacking[0]!r}" if lacking else f"calls itself {operation.name!r}"
        raise ConfigError(f"{where} {what}; `sleeptime/proposals/operation.py` describes what an operation needs")
    return operation
