"""Drives Chroma, in an environment of its own: `python -P peer_chroma.py search FOLDER`.

It reads `asked.json` and arrays from the folder and writes `found.json` there. Nothing of Circadia is there to import.
"""

import importlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

STORED_AT_ONCE: Final = 1_000


def main() -> None:
    """Do what the command line says."""
    folder = Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    (folder / "found.json").write_text(json.dumps(search(folder, asked)), "utf-8")


def search(folder: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store texts and vectors by its persistent client, and look for the nearest of each question."""
    numpy: Any = importlib.import_module("numpy")
    chroma: Any = importlib.import_module("chromadb")
    settings = importlib.import_module("chromadb.config").Settings(anonymized_telemetry=False)
    client = chroma.PersistentClient(path=str(folder / "chroma"), settings=settings)
    collection = client.create_collection("bench", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    vectors = numpy.load(folder / "vectors.npy")
    texts: list[str] = asked["turns"]
    began = time.monotonic()
    for at in range(0, len(texts), STORED_AT_ONCE):
        part = texts[at : at + STORED_AT_ONCE]
        collection.add(
            ids=[str(at + each) for each in range(len(part))],
            embeddings=vectors[at : at + STORED_AT_ONCE],
            documents=part,
        )
    filled = time.monotonic() - began
    times: list[float] = []
    hits: list[list[int]] = []
    for vector in numpy.load(folder / "asked.npy"):
        began = time.monotonic()
        found = collection.query(query_embeddings=[vector], n_results=asked["shown"])
        times.append((time.monotonic() - began) * 1000)
        hits.append([int(each) for each in found["ids"][0]])
    return {"ms": times, "hits": hits, "filled": filled}


if __name__ == "__main__":
    main()
