"""What all sections share: no unknown keys, no change after reading."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

OsUserName = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*|\d+:\d+)$")]
"""An operating-system user: a name, or `uid:gid`."""
USER_DESCRIPTION: Final = (
    "User of this machine that the program runs as, a name or `uid:gid`; needs a server that runs as root. Without it "
    "the program runs as the server's own user and can read the server's files."
)


class Section(BaseModel):
    """One section of `circadia.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
