"""The first configuration file: providers whose keys the environment has, and comments on what comes next."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from circadia.errors import InvalidRequest
from circadia.settings.upstreams import Api


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProvider:
    """A provider of models, by the address and the variable of its own documentation."""

    base_url: str
    key_env: str | None
    """None: it takes no key."""
    api: Api = "openai"


PROVIDERS: Final[Mapping[str, KnownProvider]] = {
    "openai": KnownProvider(base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY"),
    "anthropic": KnownProvider(base_url="https://api.anthropic.com", key_env="ANTHROPIC_API_KEY", api="anthropic"),
    "gemini": KnownProvider(
        base_url="https://generativelanguage.googleapis.com", key_env="GEMINI_API_KEY", api="gemini"
    ),
    "openrouter": KnownProvider(base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"),
    "mistral": KnownProvider(base_url="https://api.mistral.ai/v1", key_env="MISTRAL_API_KEY"),
    "groq": KnownProvider(base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY"),
    "deepseek": KnownProvider(base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY"),
    "xai": KnownProvider(base_url="https://api.x.ai/v1", key_env="XAI_API_KEY"),
    "together": KnownProvider(base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY"),
    "fireworks": KnownProvider(base_url="https://api.fireworks.ai/inference/v1", key_env="FIREWORKS_API_KEY"),
    "cerebras": KnownProvider(base_url="https://api.cerebras.ai/v1", key_env="CEREBRAS_API_KEY"),
    "ollama": KnownProvider(base_url="http://127.0.0.1:11434/v1", key_env=None),
}  # fmt: skip

_HEAD: Final = """\
# Circadia's configuration. `circadia config check` checks it; `circadia serve` reads it, also when it changes.

upstreams:                # Providers of models, each at http://127.0.0.1:4114/llm/NAME.
"""
_TAIL: Final = """
# agents:                 # `circadia agents add helper` adds one without this file.
#   helper:
#     bank: support       # Memory: the agent's talks are remembered, and its prompts get what matches.
#     coordination:
#       wake_guardrails: {max_wakes_per_day: 12}

# sleeptime:              # Passes over the memory while nobody waits, on a cheap model, under a budget.
#   model: {upstream: %s, name: MODEL}
#   fleet_budget: {per_day: {usd: 5}}
"""


def find_providers(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the providers whose keys the environment has."""
    return [name for name, each in PROVIDERS.items() if each.key_env is not None and environment.get(each.key_env)]


def parse_provider(text: str, environment: Collection[str]) -> tuple[str, KnownProvider]:
    """Return the name and provider of NAME, or of NAME=URL for any other server that speaks OpenAI's API.

    Raises InvalidRequest: the name is not known, and there is no URL.
    """
    name, _, url = text.partition("=")
    if url:
        variable = f"{name.upper().replace('-', '_')}_API_KEY"
        return name, KnownProvider(base_url=url, key_env=variable if variable in environment else None)
    if name not in PROVIDERS:
        raise InvalidRequest(f"no provider {name!r}; name one of {', '.join(PROVIDERS)}, or give its address: NAME=URL")
    return name, PROVIDERS[name]


def build_config(chosen: Mapping[str, KnownProvider], environment: Collection[str]) -> str:
    """Return the text of the file."""
    lines: list[str] = []
    for name, each in chosen.items():
        lines += [f"  {name}:", f"    base_url: {each.base_url}"]
        if each.api != "openai":
            lines.append(f"    api: {each.api}")
        if each.key_env is not None:
            hint = "" if each.key_env in environment else "    # Set this variable before you start the server."
            lines.append(f"    key_env: {each.key_env}{hint}")
    return "\n".join([_HEAD.rstrip("\n"), *lines, _TAIL % next(iter(chosen))])
