"""The base class of all sections: no unknown keys, no change after loading."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

OsUserName = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_.-]*|\d+:\d+)$")]
"""An operating-system user: a name, or `uid:gid`."""
USER_DESCRIPTION: Final = (
    "User that runs the program: a name or `uid:gid`; needs a server run by root. By default the server's user, "
    "who can read its files."
)


class Section(BaseModel):
    """One section of `circadia.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
