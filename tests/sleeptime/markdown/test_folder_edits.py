"""The model sees a folder as its agent does, and names the file of each edit (DREAM-44, finding D8)."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from circadia.llm.chat_model import Prompt
from circadia.sleeptime.markdown import publication
from circadia.sleeptime.markdown.dream_state import DreamOutcome, DreamReport, load_state, read_diary, save_state
from circadia.sleeptime.publish.claim_verifier import ClaimVerdict, ClaimVerdicts
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.markdown.dream_stand import DreamStand, EditScript

pytestmark = pytest.mark.spec("DREAM-44")

TOPIC = """---
name: feedback-tests
description: How to test
metadata:
  type: feedback
---

# Rules

Payment tests use the sandbox of the bank.

**Why:** a fake hid an outage in May 2026.

**How to apply:** in each test below `pay/`. See [[user-role]].

## Deploy

To deploy:

1. Run make check.
2. Push the tag.
"""


@pytest.fixture
def stand(tmp_path: Path) -> DreamStand:
    stand = DreamStand(tmp_path)
    stand.write("feedback_tests.md", TOPIC)
    stand.write("MEMORY.md", stand.read("MEMORY.md") + "- [Tests](feedback_tests.md) — How to test\n")
    return stand


async def dream(stand: DreamStand, script: EditScript, *said: str) -> DreamReport:
    """Dream of a session in which this was said, and accept it."""
    stand.model = ScriptedChatModel(script)
    stand.session("s1", *said)
    report = await stand.dream()
    if report.state is DreamOutcome.PROPOSED:
        await stand.accept()
    return report


async def test_the_model_sees_the_index_and_each_file_with_its_description_headings_and_whole_entries(
    stand: DreamStand,
) -> None:
    stand.write("2026-11-20.md", "- Booked the dentist.\n")
    await dream(stand, EditScript(), "Nothing of interest.")
    data = stand.asked[0].data
    assert "## File MEMORY.md (index, always read)\n| # Memory\n| - [Database](database.md) — where the" in data
    assert "## File feedback_tests.md\nn" in data
    assert "description: How to test\n| # Rules\n" in data
    assert "Payment tests use the sandbox of the bank.\n| \n| **Why:** a fake hid" in data
    assert "To deploy:\n| \n| 1. Run make check.\n| 2. Push the tag.\n" in data
    assert data.index("| ## Deploy") < data.index("To deploy:") < data.index("## Said now")
    assert "## Logs of single days, which are sources\n2026-11-20.md\n" in data


@pytest.mark.spec("DREAM-40")
@pytest.mark.parametrize("is_workspace", [True, False])
async def test_what_begins_with_a_day_is_a_log_only_where_an_agent_keeps_its_logs(
    stand: DreamStand, is_workspace: bool
) -> None:
    """Neither a report in a workspace, nor what Codex writes anew itself, nor a session that is named so."""
    if is_workspace:
        stand.write("AGENTS.md", "# Agents\n")
    logs = {
        "memory/2026-11-20.md": "Booked the dentist.",
        "reports/2026-11-21.md": "Sold 40 lamps.",
        "rollout_summaries/2026-11-22T08-02-45-x.md": "The night run was mended.",
    }
    for name, text in logs.items():
        path = stand.write(name, f"- {text}\n")
        long_ago = path.stat().st_mtime - 7200
        os.utime(path, (long_ago, long_ago))
    stand.session("2026-11-23-standup", "We have moved to Porto.")
    await stand.dream()
    shown = stand.asked[0].data.partition("## Logs of single days")[2]
    assert "## Log of 2026-11-20\n" in shown
    assert ("Sold 40 lamps." in shown) is not is_workspace
    assert "The night run" not in shown
    assert "Porto" in shown.partition("## Said now\n")[2].partition("## ")[0]
    assert "Log of 2026-11-23" not in shown


async def test_why_and_how_to_apply_stay_with_the_entry_that_is_replaced(stand: DreamStand) -> None:
    new = {
        "file": "feedback_tests.md",
        "said": "sandbox",
        "replaces": "Payment",
        "text": "Payment tests use sandbox 2.",
    }
    await dream(stand, EditScript(new), "We use sandbox 2 for payment tests now.")
    written = stand.read("feedback_tests.md")
    assert "\nPayment tests use sandbox 2. <!-- circadia: session s1" in written
    assert "sandbox of the bank" not in written
    assert "\n\n**Why:** a fake hid an outage in May 2026.\n\n**How to apply:** in each test below `pay/`." in written
    retired = stand.read(".circadia/retired/feedback_tests.md")
    assert "Payment tests use the sandbox of the bank.\n\n**Why:** a fake hid" in retired


@pytest.mark.spec("DREAM-43")
async def test_a_text_with_the_mark_of_the_entries_around_it_gets_none_twice(stand: DreamStand) -> None:
    stand.write("database.md", stand.read("database.md") + "- Redis is on port 6379.\n\n  **Why:** a proxy has 6380.\n")
    new = {
        "file": "database.md", "said": "5499", "replaces": "5433",
        "text": "- The staging database of the project Heron is on port 5499.\n**Why:** a proxy has 5433.",
    }  # fmt: skip
    await dream(stand, EditScript(new), "The staging database of the project Heron is on port 5499, a proxy has 5433.")
    written = re.sub(" <!-- .*? -->", "", stand.read("database.md")).partition("type: project\n---\n\n")[2]
    assert written.startswith(
        "- The staging database of the project Heron is on port 5499.\n\n  **Why:** a proxy has 5433.\n- The production"
    )
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


@pytest.mark.spec("DREAM-43")
async def test_of_a_procedure_that_is_said_in_part_the_steps_stay_and_what_would_be_lost_joins_its_entry(
    stand: DreamStand,
) -> None:
    steps = "To deploy what is ready:\n1. Run make check.\n2. Push the tag.\n3. Watch the canary for 300 s."
    new = {"file": "feedback_tests.md", "said": "canary", "replaces": "deploy", "text": steps}
    said_part = steps.replace(" what is ready", "")

    def answer(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        if output is not ClaimVerdicts:
            return EditScript(new)(prompt, output)
        lost = "It takes 20 minutes."
        return ClaimVerdicts(verdicts=[ClaimVerdict(id="c1", verdict="not_said", text=said_part, lost=lost)])

    stand.model = ScriptedChatModel(answer)
    stand.session("s1", "After the tag, watch the canary for 300 s.")
    await stand.dream()
    assert "] To deploy what is ready:\n| 1. Run make check.\n| 2. Push the tag.\n| 3. Watch" in stand.asked[-1].data
    await stand.accept()
    written = re.sub(" <!-- .*? -->", "", stand.read("feedback_tests.md")).partition("## Deploy\n\n")[2]
    assert written == f"{said_part.replace(':', ':', 1)} It takes 20 minutes.\n".replace("deploy:\n", "deploy:\n\n")
    stand.session("s2", "The canary is watched by Ann.")
    await stand.dream()
    data = next(prompt.data for prompt in reversed(stand.asked) if "## File " in prompt.data)
    assert re.search(r"\nn\d+ To deploy: ?\n", data), "it is one of the folder's entries, and can be replaced"
    assert "Written in this run" not in data


@pytest.mark.spec("DREAM-43", "SLEEP-83")
async def test_what_a_refused_text_was_to_replace_can_be_replaced_by_the_next_try(stand: DreamStand) -> None:
    place = {"file": "database.md", "said": "5499", "replaces": "5433"}
    wrong = EditScript({**place, "text": "The staging database of the project Heron is on port 7777."})
    right = EditScript({**place, "text": "The staging database of the project Heron is on port 5499."})

    def answer(prompt: Prompt, output: type[BaseModel]) -> BaseModel:
        return (right if "## Refused" in prompt.data else wrong)(prompt, output)

    stand.model = ScriptedChatModel(answer)
    stand.session("s1", "The staging database of the project Heron is on port 5499 now.")
    report = await stand.dream()
    assert (report.added, report.replaced, report.retired) == (0, 1, 0)
    assert not report.left_out, "it was mended"
    assert "(refused: '7777' is in no source)" in stand.asked[-2].data
    assert "## Replaced by c1" in stand.asked[-1].data
    await stand.accept()
    written = stand.read("database.md")
    assert "port 5499. <!--" in written
    assert "5433" not in written


@pytest.mark.spec("DREAM-43")
async def test_a_description_rests_on_all_edits_of_its_file_and_the_judge_knows_it_for_one(stand: DreamStand) -> None:
    described = {"description": "Ports of the databases, and the drill of each month"}
    port = {"file": "database.md", "said": "5499", "text": "Redis is on port 5499.", **described}
    drill = {"file": "database.md", "said": "drill", "text": "The drill of each month restores the newest dump."}
    await dream(
        stand, EditScript(port, drill), "Redis is on port 5499.", "The drill of each month restores the newest dump."
    )
    claims = stand.asked[1].data.partition("## Claims\n")[2]
    (claim,) = (line for line in claims.splitlines() if described["description"] in line)
    assert re.match(r"c\d+ \(description\) \[(e\d+ ){4}e\d+\] ", claim), "what stands in the file, and two turns"


async def test_a_procedure_is_written_as_steps(stand: DreamStand) -> None:
    text = "To deploy:\n1. Run make check.\n2. Push the tag.\n3. Watch the canary for 300 s."
    new = {"file": "feedback_tests.md", "said": "canary", "replaces": "deploy", "text": text}
    await dream(stand, EditScript(new), "After the tag, watch the canary for 300 s.")
    assert stand.read("feedback_tests.md").split("## Deploy\n\n")[1].startswith("To deploy: <!-- circadia:")
    assert stand.read("feedback_tests.md").endswith(
        "-->\n\n1. Run make check.\n2. Push the tag.\n3. Watch the canary for 300 s.\n"
    )
    steps = {"file": "database.md", "said": "restore", "text": "To restore:\n1. Stop it.\n2. Copy the file."}
    stand.model = ScriptedChatModel(EditScript(steps))
    stand.session("s2", "This is how to restore it: stop it, then copy the file.")
    await stand.dream()
    await stand.accept()
    assert "\n- To restore: <!-- circadia:" in stand.read("database.md")
    assert "-->\n  1. Stop it.\n  2. Copy the file.\n" in stand.read("database.md")
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED, "the folder says what its bank says"


async def test_each_file_keeps_its_own_corrected_entry(stand: DreamStand) -> None:
    both = "- The production database is on port 5432.\n"
    stand.write("summary.md", f"# Always\n\n{both}")
    stand.write("MEMORY.md", stand.read("MEMORY.md") + "- [Summary](summary.md)\n")
    new = {"said": "5500", "replaces": "5432", "text": "The production database is on port 5500."}
    script = EditScript({**new, "file": "database.md"}, {**new, "file": "summary.md", "text": "Production is on 5500."})
    await dream(stand, script, "The production database is on port 5500 now.")
    assert "- The production database is on port 5500. <!--" in stand.read("database.md")
    assert "# Always\n\n- Production is on 5500. <!--" in stand.read("summary.md")
    assert "5432" not in stand.read("database.md") + stand.read("summary.md")
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


async def test_a_new_topic_file_has_the_front_matter_of_its_folder_and_a_line_of_the_index(stand: DreamStand) -> None:
    new = {
        "file": "user_ann", "said": "tabs", "text": "Ann wants tabs in Makefiles.",
        "description": "Wishes for files that are edited",
    }  # fmt: skip
    await dream(stand, EditScript(new), "I want tabs in Makefiles.")
    assert stand.read("user_ann.md").startswith(
        "---\nname: user-ann\ndescription: Wishes for files that are edited\nmetadata:\n  type: user\n---\n"
    )
    assert "- [User ann](user_ann.md) — Wishes for files that are edited\n" in stand.read("MEMORY.md")


async def test_a_new_file_without_a_description_is_refused_with_the_reason_and_asked_for_again(
    stand: DreamStand,
) -> None:
    new = {"file": "user_ann.md", "said": "tabs", "text": "Ann wants tabs in Makefiles."}
    report = await dream(stand, EditScript(new), "I want tabs in Makefiles.")
    assert report.state is DreamOutcome.UNCHANGED
    assert "a new file needs a `description`" in report.left_out[0]
    assert any("a new file needs a `description`" in prompt.data for prompt in stand.asked)


async def test_a_description_that_no_longer_fits_is_mended_in_the_file_and_in_the_index(stand: DreamStand) -> None:
    new = {
        "file": "database.md", "said": "Redis", "text": "Redis is on port 6380.",
        "description": "Ports of the databases and of Redis",
    }  # fmt: skip
    await dream(stand, EditScript(new), "Redis is on port 6380.")
    assert "\ndescription: Ports of the databases and of Redis\ntype: project\n" in stand.read("database.md")
    assert "- [Database](database.md) — Ports of the databases and of Redis\n" in stand.read("MEMORY.md")
    only = {"file": "feedback_tests.md", "said": "canary", "description": "How to test and deploy"}
    stand.model = ScriptedChatModel(EditScript(only))
    stand.session("s2", "The canary is part of how to deploy.")
    await stand.dream()
    await stand.accept()
    assert stand.read("feedback_tests.md") == TOPIC.replace("How to test", "How to test and deploy")
    assert "- [Tests](feedback_tests.md) — How to test and deploy\n" in stand.read("MEMORY.md")
    assert (await stand.dream()).state is DreamOutcome.UNCHANGED


async def test_a_description_that_the_folder_has_no_place_for_is_left_out(stand: DreamStand) -> None:
    stand.write("MEMORY.md", "# Memory\n\n- Ann likes tea.\n")
    stand.write("plain.md", "- Redis is on port 6379.\n")
    new = {
        "file": "plain.md",
        "said": "6380",
        "replaces": "6379",
        "text": "Redis is on port 6380.",
        "description": "Redis",
    }
    report = await dream(stand, EditScript(new), "Redis is on port 6380 now.")
    assert any("no place for a description" in text for text in report.left_out)
    assert stand.read("plain.md").startswith("- Redis is on port 6380.")
    assert stand.read("MEMORY.md") == "# Memory\n\n- Ann likes tea.\n"


@pytest.mark.parametrize(
    ("front", "mended"),
    [
        ("description: >-\r\n  Red\r\n  is\r\nlimit: 5", "description: Ports\r\nlimit: 5"),
        ("name: a\u2028b\x85c\ndescription: Redis", "name: a\u2028b\x85c\ndescription: Ports"),
        ("name: &a redis\ndescription: *a", ""),
        ("{name: redis, description: Redis}", ""),
        ("  name: redis\n  description: Redis", ""),
        ("description: Redis\ndescription: again", ""),
    ],
)
async def test_a_description_is_mended_only_where_the_rest_of_the_front_matter_stays_as_it_is(
    stand: DreamStand, front: str, mended: str
) -> None:
    stand.write("redis.md", f"---\n{front}\n---\n\n- Redis is on port 6379.\n")
    new = {
        "file": "redis.md", "said": "6380", "replaces": "6379", "text": "Redis is on port 6380.",
        "description": "Ports",
    }  # fmt: skip
    report = await dream(stand, EditScript(new), "Redis is on port 6380 now.")
    assert stand.contents()["redis.md"].decode().startswith(f"---\n{mended or front}\n---\n\n- Redis is on port 6380.")
    assert any("front matter would read differently" in text for text in report.left_out) is not bool(mended)


async def test_what_is_over_is_dropped_if_a_session_or_its_own_date_shows_it(stand: DreamStand) -> None:
    save_state(stand.root, load_state(stand.root), is_accepted=True)
    stand.write("open.md", "- Merges wait until 2026-01-20.\n- Ask Tom for the key.\n- Ann likes tea.\n")
    stand.write("MEMORY.md", stand.read("MEMORY.md") + "- [Open](open.md)\n")
    drop = [
        {"file": "open.md", "id": "Merges", "why": "its day is over"},
        {"file": "open.md", "id": "Tom", "said": "key", "why": "done"},
        {"file": "open.md", "id": "tea", "why": "it does not help"},
    ]
    report = await dream(stand, EditScript(drop=drop), "I have got the key from Tom.")
    assert (report.state, report.retired) == (DreamOutcome.PROPOSED, 2)
    assert stand.read("open.md") == "- Ann likes tea.\n"
    assert "Why: done" in stand.read(".circadia/retired/open.md")
    assert any("Ann likes tea" in text and "neither a line of now" in text for text in report.left_out)


async def test_what_was_refused_or_changed_meanwhile_is_in_the_report_the_diff_and_the_diary(stand: DreamStand) -> None:
    """D9: an edit beside a waiting proposal ended in two statements, without a word."""
    stand.write("style.md", "- Ann indents with tabs.\n- Ann writes short lines.\n")
    stand.write("MEMORY.md", stand.read("MEMORY.md") + "- [Style](style.md)\n")
    script = EditScript(
        {"file": "style.md", "said": "spaces", "replaces": "tabs", "text": "Ann indents with four spaces."},
        {"file": "style.md", "said": "short", "replaces": "short", "text": "Ann writes lines of 120 characters."},
        {"file": "style.md", "said": "short", "text": "Ann has 4711 books."},
    )
    stand.model = ScriptedChatModel(script)
    stand.session("s1", "I indent with four spaces now.", "And short lines, 120 characters.")
    report = await stand.dream()
    assert any("'Ann has 4711 books.': '4711' is in no source" in text for text in report.left_out)
    assert "# not written: 'Ann has 4711 books.'" in publication.show_diff(stand.root, report.id)
    stand.write("style.md", stand.read("style.md").replace("with tabs", "with tabs (width 4)"))
    accepted = await stand.accept()
    assert stand.read("style.md").startswith("- Ann indents with tabs (width 4).\n- Ann writes lines of 120 ch")
    assert "four spaces" not in stand.read("style.md")
    meanwhile = "'Ann indents with four spaces.': what it replaces was changed or removed meanwhile"
    assert any(meanwhile in text for text in accepted.left_out)
    shown = publication.show_diff(stand.root, accepted.id)
    assert f"# not written: {meanwhile}" in shown
    assert "# not written: 'Ann has 4711 books.'" in shown, "what was refused before a person accepted the rest"
    assert any(meanwhile in line for line in read_diary(stand.root))
    assert any("'4711' is in no source" in line for line in read_diary(stand.root))


async def test_a_log_is_read_as_a_source_and_never_edited(stand: DreamStand) -> None:
    """D4: facts moved from the memory into a day's log, and that log was edited."""
    day = datetime.now(UTC).date().isoformat()
    log = stand.write(f"{day}.md", "# Today\n\n- Ann said that backups run at 03:00.\n- The production host is pg1.\n")
    stand.write("MEMORY.md", "# Memory\n\n- Backups run at 02:00.\n- Ann likes tea.\n")
    before = log.read_bytes()
    script = EditScript(
        {"file": f"{day}.md", "said": "pg1", "text": "The production host is pg1."},
        {"file": "MEMORY.md", "said": "03:00", "replaces": "02:00", "text": "Backups run at 03:00."},
    )
    stand.age(log)
    await dream(stand, script)
    assert log.read_bytes() == before
    assert "- Backups run at 03:00. <!--" in stand.read("MEMORY.md")
    assert "The production host is pg1." in "".join(path.read_text() for path in stand.root.glob("[A-Zd]*.md"))
