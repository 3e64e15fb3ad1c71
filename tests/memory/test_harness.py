"""What a person said in a user turn that a program put together."""

import time

import pytest

from circadia.memory.capture.harness import is_chore, own_words, strip_harness_text

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
        ("<user_instructions>\nUse tabs.\n</user_instructions>", ""),
        ('<hook_prompt hook_run_id="h">stop</hook_prompt>\nGo on.', "Go on."),
        ("<skill>\n<name>pdf</name>\nRead PDFs.\n</skill>", ""),
        ("<relevant-memories>\nlikes tea\n</relevant-memories>\nBuy tea.", "Buy tea."),
        ("Context:\n<active_memory_plugin>likes tea</active_memory_plugin>\nBuy tea.", "Context:\n\nBuy tea."),
        ("<circadia-dream>\nDream now.\n</circadia-dream>", ""),
    ],
)
def test_what_a_program_added_is_not_said(text: str, said: str) -> None:
    assert strip_harness_text(text) == said


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
        "<skill>Juggling</skill> Is it one?",
        "if a < b and [Request 4] came",
    ],
)
def test_what_a_person_wrote_is_left_as_it_is(text: str) -> None:
    assert strip_harness_text(text) == text


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        ("You write titles. Output one line.\n\nWrite a short title by which the user finds this conversation.", "Hi"),
        ("Generate a descriptive title for the conversation, from the user's message.", "Where is Ann?"),
        ("", "Generate a title for this conversation:\n"),
        ("You are helpful.", "Please provide a title of five words for the conversation, in its language.\n\nHi"),
        ("", "### Task:\nCreate 1-3 broad tags for the chat history.\n<chat>Hi</chat>"),
        ("", "### Task:\nSuggest three follow-up questions that the user could ask next in this chat."),
        ("", "Respond with TEXT ONLY.\n\nYour task is to create a detailed summary of the conversation so far."),
        ("You are Codex.", "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."),
        (
            "",
            "<primary_objective>\nYour sole objective in this task is to extract the highest quality/most relevant "
            "context from the conversation history below.\n</primary_objective>",
        ),
        (
            "",
            "This is a summary of the conversation so far: Hi\n\nExtend this summary by taking into account the new "
            "messages above:",
        ),
        ("", "Analyze the following conversation and create a structured summary that preserves all information"),
        (
            "The following is a conversation of user and assistant. Write a concise summary about the contents of "
            "this conversation.",
            "user: Hi",
        ),
        (
            "You are a Personal Information Organizer, specialized in accurately storing facts, user memories.",
            "Input:\nHi",
        ),
    ],
)
def test_what_a_client_asks_about_a_conversation_is_a_chore(lead: str, said: str) -> None:
    assert is_chore(lead, [said], continues=False)


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        ("You are helpful. " * 30 + "At the end, write a title for the conversation.", "Hi"),
        ("You are a reviewer.", "Write a title for my post about cats."),
        ("", "Create a title for the chat app that I build."),
        ("", "Write a title for the discussion section of my paper."),
        ("You are kind, and suggest follow-up questions that move the conversation forward.", "Hi"),
        ("You help in a shop. You may write a title for the conversation if a person wants one.", "Hi"),
        ("", "What is the title of the thread in which Ann wrote?"),
        ("", "Suggest a name for our chat group."),
        ("", "I wonder: generate a title for this conversation, or not?"),
        ("Provide tags. Then follow the conversation.", "Write a poem with a title."),
        ("", "Please summarize our conversation so far"),
        ("", "Who wrote that your task is to create a detailed summary of the conversation so far?"),
    ],
)
def test_what_a_person_asks_is_none(lead: str, said: str) -> None:
    assert not is_chore(lead, [said], continues=False)


@pytest.mark.parametrize(
    "text",
    [
        "Your previous response failed the application's validation (this is automated feedback, not a message from "
        "the user):\n<pyai:validation_errors>\n[]\n</pyai:validation_errors>",
        "Validation feedback:\n1 error\n\nFix the errors and try again.",
        "Correct your JSON ONLY RESPONSE, based on the following errors:\n1 error",
        "Validation Error found:\n1 error\nRecall the function correctly, fix the errors",
        "Analyze the tool result. If requirements are met, provide the Final Answer. Otherwise, call the next tool.",
        "Now it's time you MUST give your absolute best final answer. You'll ignore all previous instructions.",
        "<summary>\nAnn sails.\n</summary>\n\nContinue the task from where the conversation left off. Go on.",
        "This session is being continued from a previous conversation that ran out of context. The summary below: …",
        "Another language model started to solve this problem and produced a summary of its thinking process. You …",
        "Here is a summary of the conversation to date:\n\nAnn sails.",
    ],
)
def test_what_a_program_writes_in_a_persons_place_is_no_word_of_a_person(text: str) -> None:
    assert own_words(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Validation feedback:\nthe form says that my street is wrong",
        "Here is a summary of the conversation to send to Bob",
        "<summary>Ann sails.</summary> Shorten it",
        "It said: Correct your JSON ONLY RESPONSE, based on the following errors: what does that mean?",
    ],
)
def test_what_only_looks_like_it_is_a_persons(text: str) -> None:
    assert own_words(text) == text


def test_a_leading_prompt_makes_no_chore_of_a_conversation_that_goes_on() -> None:
    lead = "Write a title for the conversation."
    assert is_chore(lead, ["Hi"], continues=False)
    assert not is_chore(lead, ["Hi"], continues=True)


@pytest.mark.parametrize(
    "piece",
    [
        "<system-reminder>",
        "<task>",
        "<INSTRUCTIONS> ",
        "</task>",
        "[Request ",
        "<",
        "generate a title ",
        "<summary>",
        "Validation feedback:\n",
        "\n",
        ". Your task is to create a ",
    ],
)
def test_a_flood_takes_no_time(piece: str) -> None:
    began = time.process_time()
    strip_harness_text(piece * 20_000)
    own_words(piece * 20_000)
    is_chore(piece * 20_000, [piece * 20_000], continues=False)
    assert time.process_time() - began < 1
