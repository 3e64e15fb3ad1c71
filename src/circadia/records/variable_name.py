"""The name of an environment variable that holds a secret; no setting holds one itself."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*|[a-z_]+|[A-Za-z_][A-Za-z0-9_]{0,18}")


def _require_variable_name(name: str) -> str:
    """Return the name. Raises ValueError, which does not show it, since it may be the secret itself."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "write the name of an environment variable, such as OPENAI_API_KEY, and put the secret into that variable"
        )
    return name


VariableName = Annotated[str, AfterValidator(_require_variable_name)]
"""A variable of the server's environment. A long name has letters of one case, so that a pasted key is none."""
