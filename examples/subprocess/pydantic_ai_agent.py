"""An agent for one pulse, written with Pydantic AI.

    launchers: {runner: {kind: subprocess, command: [python, examples/subprocess/pydantic_ai_agent.py]}}
    agents: {helper: {coordination: {launcher: runner}}}

The prompt comes on standard input; Pydantic AI's OpenAI provider reads `OPENAI_BASE_URL` and `OPENAI_API_KEY`, which
come with the pulse and lead to the gateway.
"""

# ruff: noqa: T201 - what it prints becomes the detail of its pulse
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(
    OpenAIChatModel(os.environ.get("AGENT_MODEL", "gpt-5-mini")),
    instructions="You were woken for one task. Do it and say what you did.",
)


def main() -> None:
    """Run once; an exception ends the program with exit status 1, and the pulse with it."""
    print(agent.run_sync(sys.stdin.read()).output)


if __name__ == "__main__":
    main()
