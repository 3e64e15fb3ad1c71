"""What a person said in a user turn that a program put together."""

import time

import pytest

from circadia.memory.harness import spoken

pytestmark = pytest.mark.spec("MEM-14")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<system-reminder>\nToday is Sunday.\n</system-reminder>\n\nBook the ferry.", "Book the ferry."),
        ("Go.\n<system-reminder>a</system-reminder>\nNow.<system-reminder>b</system-reminder>", "Go.\n\nNow."),
        ("<environment_context>\n  <cwd>/home</cwd>\n</environment_context>", ""),
        ("# AGENTS.md instructions for /home/ann\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>\nGo on.", "Go on."),
        ("<task>\nFix the door\n</task>\n<environment_details>\n# Time\nnoon\n</environment_details>", "Fix the door"),
        ('<task>\nRead\n</task>\n<file_content path="a.md">\nx < y\n</file_content>', "Read"),
        ("<user_query>\nWhere is Ann?\n</user_query>", "Where is Ann?"),
        ("<user_info>\nOS: Linux\n</user_info>\n\n<user_query>\nWhere is Ann?\n</user_query>\n", "Where is Ann?"),
        ("<context>\nnoon\n</context>\n<userRequest>\nFix it\n</userRequest>", "Fix it"),
        ("<command-name>/clear</command-name>\n<command-args></command-args>", ""),
        ("<ide_opened_file>The user opened /a.py</ide_opened_file>\nWhat is it?", "What is it?"),
        ("[Request interrupted by user for tool use]", ""),
    ],
)
def test_what_a_program_added_is_not_said(text: str, said: str) -> None:
    assert spoken(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "  What does <system-reminder> mean? ",
        "What is </system-reminder> then, <system-reminder>?",
        "<config><a>1</a></config>",
        "<context>The lease ends in May.</context> When does it end?",
        "Compare <task>a</task> with <task>b</task>, please",
        "<task>a</task> and <task>b</task>",
        "<notes>a</notes>\n<task>b</task>",
        "<user_query>a</user_query>\n<user_query>b</user_query>",
        "Which of them asks <user_query>a</user_query>",
        "<INSTRUCTIONS>Answer in French.</INSTRUCTIONS> How are you?",
        "<user_info>I am Ann, 34.</user_info> What should I eat?",
        "<file_content>x = 1</file_content> What is x?",
        "if a < b and [Request 4] came",
    ],
)
def test_what_a_person_wrote_is_left_as_it_is(text: str) -> None:
    assert spoken(text) == text


@pytest.mark.parametrize("piece", ["<system-reminder>", "<task>", "<INSTRUCTIONS> ", "</task>", "[Request ", "<"])
def test_a_flood_takes_no_time(piece: str) -> None:
    began = time.process_time()
    spoken(piece * 20_000)
    assert time.process_time() - began < 1
