"""A bank in which things were said twice, and a pass over it whose proposals wait for a person."""

from typing import Any

from tests.dashboard.conftest import Site

NOTED = "Ann lives in Porto since May."
REPEATED = "My dog is called Rex, I think."


async def repeat_statements(site: Site, bank: str, *, suffix: str = "") -> None:
    """Store two notes that say the same, and two statements that are said twice."""
    policy = {"duplicate_seconds": 0, "sleeptime": {"when": "manual"}}
    await site.call("POST", "/banks", {"name": bank, "policy": policy})
    said = [
        await site.call(
            "POST",
            f"/banks/{bank}/episodes",
            {"text": text + suffix, "speaker": "ann", "conversation": f"call-{number}"},
        )
        for number, text in enumerate([NOTED, REPEATED] * 2)
    ]
    for key in ("not_1", "not_2"):
        note = {
            "type": "note", "id": f"{key}_{bank}", "kind": "consolidation", "at": "2026-01-01T00:00:00Z",
            "trust": "person", "text": NOTED + suffix, "evidence": [said[0]["id"], said[2]["id"]],
            "created_at": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        await site.call("POST", f"/banks/{bank}/import", note)


async def propose_changes(site: Site, bank: str, *, suffix: str = "") -> Any:
    """Run a pass over repeated statements, whose proposals wait for a person."""
    await repeat_statements(site, bank, suffix=suffix)
    run = await site.call("POST", f"/banks/{bank}/passes", {"review": True, "full": True, "wait_seconds": 60})
    assert run["counts"]["staged"] >= 3, run
    return run
