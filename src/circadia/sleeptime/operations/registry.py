"""Which operations a pass does, in their order. A new one is a file here, a name in the settings and a line below."""

from collections.abc import Mapping, Sequence

from circadia.errors import InvalidRequest
from circadia.settings.sleeptime import Operation as Name
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.sleeptime.operation import Operation
from circadia.sleeptime.operations.collect import Collect
from circadia.sleeptime.operations.compress import Compress
from circadia.sleeptime.operations.consolidate import Consolidate
from circadia.sleeptime.operations.contradictions import Contradictions
from circadia.sleeptime.operations.dedupe import Dedupe
from circadia.sleeptime.operations.extract import Extract
from circadia.sleeptime.operations.reflect import Reflect
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.operations.rethink import Rethink


def chosen(policy: SleepPolicySettings, model: bool, wanted: Sequence[str]) -> Sequence[Operation]:
    """Return what a pass over a bank of this policy does: all that is on, or what is `wanted` of it.

    Raises:
        InvalidRequest: what is wanted is none, or is switched off.
    """
    every: Mapping[Name, Operation] = {
        "consolidate": Consolidate() if model else Extract(),
        "contradictions": Contradictions(),
        "reflect": Reflect(),
        "compress": Compress(),
        "dedupe": Dedupe(),
        "collect": Collect(),
        "rethink": Rethink(max_rethinks=policy.max_rethinks),
        "reindex": Reindex(views=policy.views),
    }
    on = {name: each for name, each in every.items() if policy.does(name)}
    for name in wanted:
        if name not in on:
            raise InvalidRequest(f"there is no operation {name!r} that is on; choose from {', '.join(on)}")
    return [each for name, each in on.items() if (not wanted or name in wanted) and (model or not each.asks)]
