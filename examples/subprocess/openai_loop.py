"""An agent for one pulse: a plain loop around the official OpenAI SDK.

    launchers: {runner: {kind: subprocess, command: [python, examples/subprocess/openai_loop.py]}}
    agents: {helper: {coordination: {launcher: runner}}}

The prompt comes on standard input. `OPENAI_BASE_URL` and `OPENAI_API_KEY` come with the pulse and lead to the gateway,
so the SDK needs no argument. Exit status 0 says that it has done what it was started for.
"""

# ruff: noqa: T201 - what it prints becomes the detail of its pulse
import os
import sys

from openai import OpenAI, OpenAIError
from openai.types.chat import ChatCompletionMessageParam

MODEL = os.environ.get("AGENT_MODEL", "gpt-5-mini")
MOST_TURNS = 8
DONE = "DONE"


def main() -> int:
    """Think until the model says that it is done."""
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": f"Work on what you are given, step by step. End with {DONE}."},
        {"role": "user", "content": sys.stdin.read()},
    ]
    with OpenAI() as client:
        for _ in range(MOST_TURNS):
            try:
                answer = client.chat.completions.create(model=MODEL, messages=messages)
            except OpenAIError as error:
                print(f"the model cannot be reached: {error}", file=sys.stderr)
                return 1
            text = answer.choices[0].message.content or ""
            print(text)
            if DONE in text:
                return 0
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": "Go on."})
    print(f"not done after {MOST_TURNS} turns", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
