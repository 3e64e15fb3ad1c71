"""Members of the cluster in answers."""

from datetime import datetime

from pydantic import Field

from circadia.records.member import Role
from circadia.schemas.view import View


class MemberView(View):
    """A server process on the shared database."""

    id: str = Field(description="Unique id.", examples=["exe_0cwd…"])
    role: Role = Field(description="`gateway` serves calls, `worker` runs pulses and passes, `all` does both.")
    version: str = Field(description="Version of Circadia.")
    host: str = Field(description="Name of its machine.")
    address: str = Field(description="URL at which its own machine reaches it.")
    config_check: str | None = Field(
        description="Digits that are the same at servers with the same configuration; null before version 0.2."
    )
    started_at: datetime = Field(description="Time of its start.")
    lease_until: datetime = Field(description="It counts as dead from then on, unless it renews its lease.")
    connections: int = Field(description="Maximum number of its connections to PostgreSQL.")
    holds: int = Field(description="Calls that it holds.")
    running: int = Field(description="Pulses and passes that it runs.")
    leads: bool = Field(description="Whether it does the work that one process at a time does.")


class Cluster(View):
    """The live members."""

    members: list[MemberView] = Field(description="Oldest first; none on SQLite, where one process is all there is.")
    conflicts: list[str] = Field(
        description="What is wrong with them together, such as two servers with one name or different configurations."
    )
