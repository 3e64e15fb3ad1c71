"""Drives GPTCache, in an environment of its own: `python -P peer_gptcache.py lookup FOLDER`.

It reads `asked.json` and arrays from the folder and writes `found.json` there. Nothing of Circadia is there to import.
"""

import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

STORED_AT_ONCE: Final = 1_000


def main() -> None:
    """Do what the command line says."""
    folder = Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text("utf-8"))
    (folder / "found.json").write_text(json.dumps(lookup(folder, asked)), "utf-8")


def lookup(folder: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store questions with an answer each, in SQLite and FAISS, and look for others."""
    numpy: Any = importlib.import_module("numpy")
    gptcache: Any = importlib.import_module("gptcache")
    manager: Any = importlib.import_module("gptcache.manager")
    api: Any = importlib.import_module("gptcache.adapter.api")
    distance: Any = importlib.import_module("gptcache.similarity_evaluation.distance")
    prompt: Any = importlib.import_module("gptcache.processor.pre")
    stored = numpy.load(folder / "vectors.npy")
    vectors: dict[str, Any] = dict(zip(asked["questions"], stored, strict=True))
    for name in ("same", "other"):
        vectors.update(zip(asked[name], numpy.load(folder / f"{name}.npy"), strict=True))

    def embedded(text: str, **_: object) -> Any:
        return vectors[text]

    data: Any = manager.get_data_manager(
        manager.CacheBase("sqlite", sql_url=f"sqlite:///{folder / 'cache.db'}"),
        manager.VectorBase("faiss", dimension=stored.shape[1], index_path=str(folder / "faiss.index")),
    )
    cache: Any = gptcache.Cache()
    cache.init(
        pre_embedding_func=prompt.get_prompt,
        embedding_func=embedded,
        data_manager=data,
        similarity_evaluation=distance.SearchDistanceEvaluation(),
    )
    questions: list[str] = asked["questions"]
    for at in range(0, len(questions), STORED_AT_ONCE):
        part = questions[at : at + STORED_AT_ONCE]
        data.import_data(
            questions=part,
            answers=[f"answer {at + each}" for each in range(len(part))],
            embedding_datas=list(stored[at : at + STORED_AT_ONCE]),
            session_ids=[None] * len(part),
        )
    return {name: _timed(api, cache, asked[name]) for name in ("same", "other")}


def _timed(api: Any, cache: Any, asked: Sequence[str]) -> Mapping[str, Any]:
    times: list[float] = []
    hits = 0
    for question in asked:
        began = time.monotonic()
        found = api.get(question, cache_obj=cache)
        times.append((time.monotonic() - began) * 1000)
        hits += found is not None
    return {"ms": times, "hits": 100 * hits / len(asked)}


if __name__ == "__main__":
    main()
