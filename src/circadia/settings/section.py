"""What all sections share: no unknown keys, no change after reading."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of `circadia.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
