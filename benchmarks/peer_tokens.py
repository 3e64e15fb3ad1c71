"""Counts the tokens of texts, in an environment of its own: `python -P peer_tokens.py count FOLDER`.

It reads `asked.json` from the folder and writes `found.json` there. Nothing of Circadia is there to import.
"""

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Count."""
    folder = Path(sys.argv[2])
    texts: list[str] = json.loads((folder / "asked.json").read_text("utf-8"))["texts"]
    encoding = importlib.import_module("bpe_openai").get_encoding("o200k_base")
    counts = [len(encoding.encode_ordinary(text)) for text in texts]
    (folder / "found.json").write_text(json.dumps({"tokens": counts}), "utf-8")


if __name__ == "__main__":
    main()
