"""The settings of coding agents, as `agents add --for` prints them and docs/get-started.md shows them."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from circadia.errors import InvalidRequest
from circadia.schemas.fleet import UpstreamView

_SERVER: Final = "http://127.0.0.1:4114"
_TOKEN: Final = "circadia-agent-…"


class Program(enum.StrEnum):
    CODEX = "codex"
    CLAUDE_CODE = "claude-code"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    QWEN_CODE = "qwen-code"
    AIDER = "aider"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    url_variable: str
    """The variable that names the base URL of the API it speaks."""
    path: str
    """Path of its provider in the block."""
    block: str
    """What it needs for a server at the default address, with a time-out of a day where it has one of its own."""


SETUPS: Final[Mapping[Program, Setup]] = {
    Program.CODEX: Setup(
        url_variable="OPENAI_BASE_URL",
        path="/llm/openai/v1",
        block="""\
# ~/.codex/config.toml; before the start: export OPENAI_API_KEY=circadia-agent-…
model_provider = "circadia"

[model_providers.circadia]
name = "Circadia"
base_url = "http://127.0.0.1:4114/llm/openai/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[mcp_servers.circadia]
url = "http://127.0.0.1:4114/mcp"
bearer_token_env_var = "OPENAI_API_KEY"
tool_timeout_sec = 86400  # what a tool that waits may take; Codex's own limit is 60 s
""",
    ),
    Program.CLAUDE_CODE: Setup(
        url_variable="ANTHROPIC_BASE_URL",
        path="/llm/anthropic",
        block="""\
export ANTHROPIC_BASE_URL=http://127.0.0.1:4114/llm/anthropic
export ANTHROPIC_AUTH_TOKEN=circadia-agent-…
export CLAUDE_STREAM_IDLE_TIMEOUT_MS=86400000  # how long a held stream may last; Claude Code's own limit is 5 minutes
claude mcp add --transport http circadia http://127.0.0.1:4114/mcp --header "Authorization: Bearer circadia-agent-…"
""",
    ),
    Program.GEMINI: Setup(
        url_variable="GOOGLE_GEMINI_BASE_URL",
        path="/llm/gemini",
        block="""\
// ~/.gemini/settings.json; before the start:
// export GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4114/llm/gemini GEMINI_API_KEY=circadia-agent-…
{
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "mcpServers": {
    "circadia": {
      "httpUrl": "http://127.0.0.1:4114/mcp",
      "headers": { "Authorization": "Bearer circadia-agent-…" },
      "timeout": 86400000 // what a tool that waits may take, in ms; Gemini CLI's own limit is 10 minutes
    }
  }
}
""",
    ),
    Program.OPENCODE: Setup(
        url_variable="OPENAI_BASE_URL",
        path="/llm/openai/v1",
        block="""\
// ~/.config/opencode/opencode.jsonc
{
  "provider": {
    "openai": {
      "options": { "baseURL": "http://127.0.0.1:4114/llm/openai/v1", "apiKey": "circadia-agent-…" }
    }
  },
  "mcp": {
    "circadia": {
      "type": "remote",
      "url": "http://127.0.0.1:4114/mcp",
      "headers": { "Authorization": "Bearer circadia-agent-…" },
      "oauth": false,
      "timeout": 86400000 // what a tool that waits may take, in ms
    }
  }
}
""",
    ),
    Program.QWEN_CODE: Setup(
        url_variable="OPENAI_BASE_URL",
        path="/llm/openai/v1",
        block="""\
// ~/.qwen/settings.json; before the start:
// export OPENAI_BASE_URL=http://127.0.0.1:4114/llm/openai/v1 OPENAI_API_KEY=circadia-agent-… OPENAI_MODEL=gpt-5-mini
// export QWEN_STREAM_IDLE_TIMEOUT_MS=86400000 QWEN_STREAM_MAX_LIFETIME_MS=86400000
{
  "security": { "auth": { "selectedType": "openai" } },
  "model": { "generationConfig": { "timeout": 86400000 } },
  "mcpServers": {
    "circadia": {
      "httpUrl": "http://127.0.0.1:4114/mcp",
      "headers": { "Authorization": "Bearer circadia-agent-…" },
      "timeout": 86400000 // what a tool that waits may take, in ms; Qwen Code's own limit is 10 minutes
    }
  }
}
""",
    ),
    Program.AIDER: Setup(
        url_variable="OPENAI_BASE_URL",
        path="/llm/openai/v1",
        block="""\
# ~/.aider.conf.yml
openai-api-base: http://127.0.0.1:4114/llm/openai/v1
openai-api-key: circadia-agent-…
model: openai/gpt-4o-mini
timeout: 86400  # how long a call may send nothing, in s; aider's own limit is 10 minutes
""",
    ),
}


def find_upstream(program: Program, upstreams: Sequence[UpstreamView]) -> UpstreamView:
    """Return the first provider that the program can use. Raises InvalidRequest if there is none."""
    variable = SETUPS[program].url_variable
    for each in upstreams:
        if each.url_variable == variable:
            return each
    raise InvalidRequest(f"{program} needs a provider for {variable}, and the agent may use no upstream of that kind")


def fill_in(program: Program, server: str, upstream: UpstreamView, token: str) -> str:
    """Return the block for this server, provider and agent."""
    setup = SETUPS[program]
    block = setup.block.replace(_SERVER + setup.path, server + upstream.path)
    return block.replace(_SERVER, server).replace(_TOKEN, token)
