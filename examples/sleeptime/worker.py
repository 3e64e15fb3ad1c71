"""A sleep-time worker as people write it by hand; circadia.yaml beside it replaces it.

    python examples/sleeptime/worker.py conversation.jsonl memory.md

The agent appends each turn to the first file as a line of JSON, and puts the second file into its prompt. A background
loop reads what is new, and has a cheap model rewrite the memory. Reported losses of such loops: they run while nothing
is new or while somebody waits, they lose turns or repeat them when they are killed, and a bad answer erases it all.
"""

import json
import os
import sys
import time
from pathlib import Path

from openai import OpenAI

MODEL = os.environ.get("SLEEP_MODEL", "gpt-5-nano")
PAUSE_SECONDS = float(os.environ.get("PAUSE_SECONDS", "60"))
TURNS = 5
INSTRUCTIONS = (
    "You maintain an assistant's memory while it is idle. Merge the new turns into the memory: keep names, dates and "
    "decisions, replace what no longer holds, and leave out small talk. Answer with the whole new memory only."
)


def consolidate(client: OpenAI, memory: str, turns: list[str]) -> str:
    spoken = "\n".join("{speaker}: {text}".format(**json.loads(turn)) for turn in turns)
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": f"Memory:\n{memory}\n\nNew turns:\n{spoken}"},
        ],
    )
    return answer.choices[0].message.content or memory


def main() -> None:
    conversation, memory = Path(sys.argv[1]), Path(sys.argv[2])
    cursor = memory.with_suffix(".cursor")
    client = OpenAI()
    while True:
        done = int(cursor.read_text("utf-8")) if cursor.exists() else 0
        turns = conversation.read_text("utf-8").splitlines()[done:] if conversation.exists() else []
        if len(turns) >= TURNS:
            known = memory.read_text("utf-8") if memory.exists() else ""
            memory.write_text(consolidate(client, known, turns), "utf-8")
            cursor.write_text(str(done + len(turns)), "utf-8")
            print(f"{len(turns)} turns", flush=True)
        time.sleep(PAUSE_SECONDS)


main()
