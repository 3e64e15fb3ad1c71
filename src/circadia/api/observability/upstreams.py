"""The providers behind the gateway."""

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.schemas.upstreams import UpstreamList, UpstreamView

router = noun_router("upstreams")


@router.get("/upstreams")
async def list_upstreams(who: Who, parts: Parts) -> UpstreamList:
    """List the providers of the configuration, with what an agent's environment needs to reach them. Operator only."""
    require_operator(who)
    return UpstreamList(upstreams=[UpstreamView.of(name, each) for name, each in parts.settings.upstreams.items()])
