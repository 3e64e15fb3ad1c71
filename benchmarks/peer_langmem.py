"""Drives LangMem, in an environment of its own: `python -P peer_langmem.py remember FOLDER`.

It reads `asked.json` from the folder and writes `found.json` there. Nothing of Circadia is there to import.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

USER: Final = "bench"


def main() -> None:
    """Do what the command line says."""
    folder = Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    (folder / "found.json").write_text(json.dumps(asyncio.run(remember(asked))), "utf-8")


async def remember(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give each turn to its memory manager, as its guide does, with LangGraph's store in memory."""
    at = {"base_url": asked["base_url"], "api_key": "sk-benchmark"}
    openai: Any = importlib.import_module("langchain_openai")
    stores: Any = importlib.import_module("langgraph.store.memory")
    # Its check of lengths would download a vocabulary.
    embeddings = openai.OpenAIEmbeddings(
        model="text-embedding-3-small", dimensions=asked["dimensions"], check_embedding_ctx_length=False, **at
    )
    store = stores.InMemoryStore(index={"dims": asked["dimensions"], "embed": embeddings})
    manager = importlib.import_module("langmem").create_memory_store_manager(
        openai.ChatOpenAI(model="gpt-4o-mini", **at), namespace=("memories", "{langgraph_user_id}"), store=store
    )
    times: list[float] = []
    for text in asked["turns"]:
        began = time.monotonic()
        made = await manager.ainvoke(
            {"messages": [{"role": "user", "content": text}]}, config={"configurable": {"langgraph_user_id": USER}}
        )
        times.append((time.monotonic() - began) * 1000)
        assert len(made) == 1, made
    return {"ms": times, "kept": len(await store.asearch(("memories", USER), limit=10**6))}


if __name__ == "__main__":
    main()
