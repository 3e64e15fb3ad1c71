"""Drives mem0, in an environment of its own: `python -P peer_mem0.py remember|search FOLDER`.

It reads `asked.json` and arrays from the folder and writes `found.json` there. Nothing of Circadia is there to import.
"""

import hashlib
import importlib
import json
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

USER: Final = "bench"
STORED_AT_ONCE: Final = 500


def main() -> None:
    """Do what the command line says."""
    task, folder = sys.argv[1], Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    found = remember(folder, asked) if task == "remember" else search(folder, asked)
    (folder / "found.json").write_text(json.dumps(found), "utf-8")


def opened(folder: Path, asked: Mapping[str, Any], **store: Any) -> Any:
    """Return its memory with its defaults: Qdrant in a folder, OpenAI's model and embedder, at the given URL."""
    at = {"openai_base_url": asked["base_url"], "api_key": "sk-benchmark"}
    config = {
        "llm": {"provider": "openai", "config": {"model": "gpt-4o-mini", **at}},
        "embedder": {
            "provider": "openai",
            "config": {"model": "text-embedding-3-small", "embedding_dims": asked["dimensions"], **at},
        },
        "vector_store": {
            "provider": "qdrant",
            "config": {"path": str(folder / "qdrant"), "embedding_model_dims": asked["dimensions"], **store},
        },
        "history_db_path": str(folder / "history.db"),
    }  # fmt: skip
    return importlib.import_module("mem0").Memory.from_config(config)


def remember(folder: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add each turn, facts found by the model (`infer` is its default)."""
    memory = opened(folder, asked)
    times: list[float] = []
    for text in asked["turns"]:
        began = time.monotonic()
        made = memory.add([{"role": "user", "content": text}], user_id=USER)
        times.append((time.monotonic() - began) * 1000)
        assert len(made["results"]) == 1, made
    return {"ms": times, "kept": len(memory.get_all(filters={"user_id": USER}, top_k=10**6)["results"])}


class PrecomputedEmbedder:
    """In the place of its embedder: the vectors that were made before."""

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        self.vectors = vectors

    def embed(self, text: str, _action: str | None = None) -> Any:
        """Return the vector of a question."""
        return self.vectors[text]


def search(folder: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store the episodes as its `add` does once it has facts, and search by its `search`."""
    numpy: Any = importlib.import_module("numpy")
    # A folder is read into memory too, and searched there; to write it takes a commit for each episode.
    client = importlib.import_module("qdrant_client").QdrantClient(":memory:")
    memory = opened(folder, asked, client=client)
    memory.embedding_model = PrecomputedEmbedder(
        dict(zip(asked["questions"], numpy.load(folder / "asked.npy").tolist(), strict=True))
    )
    vectors = numpy.load(folder / "vectors.npy")
    texts: list[str] = asked["turns"]
    began = time.monotonic()
    for at in range(0, len(texts), STORED_AT_ONCE):
        part = texts[at : at + STORED_AT_ONCE]
        memory.vector_store.insert(
            vectors=vectors[at : at + STORED_AT_ONCE].tolist(),
            ids=[str(uuid.UUID(int=at + each)) for each in range(len(part))],
            payloads=[_payload(text) for text in part],
        )
    filled = time.monotonic() - began
    times: list[float] = []
    hits: list[list[int]] = []
    for question in asked["questions"]:
        began = time.monotonic()
        found = memory.search(question, top_k=asked["shown"], filters={"user_id": USER})
        times.append((time.monotonic() - began) * 1000)
        hits.append([uuid.UUID(each["id"]).int for each in found["results"]])
    return {"ms": times, "hits": hits, "filled": filled}


def _payload(text: str) -> Mapping[str, Any]:
    now = "2026-01-01T00:00:00+00:00"
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return {
        "user_id": USER, "data": text, "text_lemmatized": text, "hash": digest, "created_at": now, "updated_at": now,
    }  # fmt: skip


if __name__ == "__main__":
    main()
