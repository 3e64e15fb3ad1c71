"""Which operations a pass does, in their order. A new one is a file here, a name in the settings and a line below."""

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
    """Return what a pass over a bank of this policy does: all that is on, or what is `wanted` of it.

    The user's `own` come after those that find out what holds, and before the blocks are rewritten.

    Raises:
        InvalidRequest: what is wanted is none, or is switched off.
    """
    every: Mapping[Name | str, Operation] = {
        "consolidate": Consolidate() if model else Extract(),
        "contradictions": Contradictions(),
        "reflect": Reflect(),
        "compress": Compress(),
        "dedupe": Dedupe(),
        "collect": Collect(unused_days=policy.unused_days),
        **{each.name: each for each in own},
        "rethink": Rethink(max_rethinks=policy.max_rethinks),
        "reindex": Reindex(views=policy.views),
        "precompute": Precompute(),
    }
    on = {name: each for name, each in every.items() if policy.is_operation_enabled(name)}
    for name in wanted:
        if name not in on:
            raise InvalidRequest(f"there is no operation {name!r} that is on; choose from {', '.join(on)}")
    return [each for name, each in on.items() if (not wanted or name in wanted) and (model or not each.asks)]


def load_own_operations(own: Mapping[str, str]) -> Sequence[Operation]:
    """Import the user's own operations, given by name as `package.module:Class`.

    Raises:
        ConfigError: there is no such module or class, or it is no operation.
    """
    return [_load_operation(name, place) for name, place in own.items()]


def _load_operation(name: str, place: str) -> Operation:
    where = f"sleeptime.own_operations.{name}: {place!r}"
    module_name, _, class_name = place.partition(":")
    try:
        made = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        _logger.exception("%s cannot be loaded", where)
        raise ConfigError(f"{where} cannot be loaded ({type(error).__name__}: {error})") from error
    lacking = [each for each in ("name", "asks", "plan", "propose") if not hasattr(made, each)]
    if lacking or made.name != name:
        what = f"has no {lacking[0]!r}" if lacking else f"calls itself {made.name!r}"
        raise ConfigError(f"{where} {what}; `sleeptime/proposals/operation.py` tells what an operation is")
    return made
