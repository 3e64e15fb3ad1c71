"""An imported history: what a pass over it takes is said beforehand, and one pass reads it, by REST and by command."""

import json
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.upstream import MockUpstream
from tests.cli.terminal import run
from tests.interaction.live import ADMIN, KEY, Live, live
from tests.interaction.test_thinking_passes import TOLD, reply

SAID = [*TOLD, *(f"The invoice number {number} of the harbour office was paid late." for number in range(118))]
"""More than one question of a step holds."""
TIER: dict[str, Any] = {
    "when": "manual", "verify": "off", "model": {"upstream": "openai", "name": "gpt-5-mini"},
    "budget": {"per_pass": {"calls": 1}}, "operations": {name: {"enabled": False} for name in (
        "contradictions", "reflect", "compress", "rethink", "precompute")},
}  # fmt: skip


def history(folder: Path) -> Path:
    """Return a file of conversations."""
    file = folder / "said.jsonl"
    file.write_text("".join(json.dumps({"speaker": "ann", "text": text}) + "\n" for text in SAID), "utf-8")
    return file


async def waiting(at: Live) -> int:
    status = (await at.rest("GET", "/banks/me/sleeptime"))[1]
    return status["backlog"]["episodes"] + len(status["leftovers"])


@pytest.mark.spec("SLEEP-87")
async def test_the_price_of_a_first_pass_is_told_and_one_pass_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MockUpstream(key=KEY, reply=reply) as provider, live(tmp_path, sleeptime=TIER, provider=provider) as at:
        monkeypatch.setenv("CIRCADIA_URL", at.url)
        monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
        words = ("banks", "import", str(history(tmp_path)), "--into", "me", "--format", "plain")
        imported = await run(*words)
        assert imported.status == 0, imported.err
        estimate = (await at.rest("GET", "/banks/me/sleeptime/estimate"))[1]
        tokens = estimate["tokens"]
        assert (estimate["bank"], estimate["model"], estimate["episodes"]) == ("me", "gpt-5-mini", len(SAID))
        assert estimate["usd"] > 0
        read = sum(len(text.encode()) for text in SAID) // 3
        assert read < tokens < 10 * read
        assert f"me: a pass over {len(SAID)} episodes takes about {tokens:,} tokens, $" in imported.out
        assert f"`circadia passes run me --budget {2 * tokens}`" in imported.out
        assert not provider.requests, "nothing is asked before somebody agrees"
        done = (await at.rest("POST", "/banks/me/passes", {"budget_tokens": 2 * tokens, "wait_seconds": 60}))[1]
        assert (done["status"], done["budget_tokens"], done["upto"]) == ("succeeded", 2 * tokens, len(SAID)), done
        assert done["spent"]["calls"] > 1
        assert done["spent"]["tokens"] <= 2 * tokens
        assert await waiting(at) == 0
        assert (await at.rest("GET", "/banks/me/sleeptime/estimate"))[1]["tokens"] == 0


@pytest.mark.spec("SLEEP-87")
async def test_a_script_agrees_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockUpstream(key=KEY, reply=reply) as provider, live(tmp_path, sleeptime=TIER, provider=provider) as at:
        monkeypatch.setenv("CIRCADIA_URL", at.url)
        monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
        words = ("banks", "import", str(history(tmp_path)), "--into", "me", "--format", "plain", "--pass", "--json")
        imported = await run(*words)
        assert imported.status == 0, imported.err
        (key,) = imported.json["passes"]
        shown = await run("passes", "explain", key)
        assert " tokens" in next(line for line in shown.out.splitlines() if line.startswith("own budget"))
        again = await run(*words)
        assert (again.json["known"], again.json["passes"]) == (len(SAID), []), "nothing new, nothing asked"
