"""An agent's policy in requests and answers."""

from pydantic import ConfigDict, Field

from circadia.api.bodies import Body, drop_defaults
from circadia.errors import InvalidRequest
from circadia.records.agent import AgentPolicy


class PolicyBody(AgentPolicy, Body):
    """Policy keys. Missing keys come from the server's `defaults`; in a change, they stay unchanged."""

    model_config = ConfigDict(json_schema_extra=drop_defaults)

    def changes(self) -> dict[str, object]:
        """Return the policy keys of the request."""
        return {name: getattr(self, name) for name in AgentPolicy.model_fields if name in self.model_fields_set}


class BodyWithPolicy(PolicyBody):
    """A body that takes policy keys in `policy` or beside the other keys."""

    policy: PolicyBody | None = Field(None, description="Policy keys to set; null removes a limit.")

    def policy_changes(self) -> dict[str, object]:
        """Return the policy keys of the request.

        Raises:
            InvalidRequest: a key is in both places.
        """
        inside = self.policy.changes() if self.policy else {}
        beside = self.changes()
        if twice := sorted(inside.keys() & beside.keys()):
            raise InvalidRequest(f"{twice[0]!r} is in `policy` and beside it; send it once")
        return inside | beside
