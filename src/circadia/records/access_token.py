"""A token of a person: an operator, who may do everything, or a viewer, who only looks."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AccessRole(StrEnum):
    OPERATOR = "operator"
    VIEWER = "viewer"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessToken:
    name: str
    role: AccessRole
    token_hash: str
    created_at: datetime
    created_by: str

    @property
    def person(self) -> str:
        """The name shown in events and rows. No agent has such a name: theirs have no slash."""
        return f"{self.role.value}/{self.name}"
