"""The cluster: which server processes share the database."""

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.member import find_conflicts
from circadia.schemas.cluster import Cluster, MemberView

router = noun_router("cluster")


@router.get("/cluster")
async def show_cluster(who: Who, parts: Parts) -> Cluster:
    """List the live servers on this database. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        members = await tx.members.find_all(parts.clock.now())
    conflicts = find_conflicts(members)
    return Cluster(members=[MemberView.of(member) for member in members], conflicts=list(conflicts))
