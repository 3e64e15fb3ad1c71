"""What a person said in a user turn that a program put together."""

import time

import pytest

from circadia.memory.capture.harness import find_chore, own_words, strip_harness_text

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
        ("<supermemory-context>\nlikes tea\n</supermemory-context>\nBuy tea.", "Buy tea."),
        ("<hindsight_memories>\nlikes tea\n</hindsight_memories>\nBuy tea.", "Buy tea."),
        ("<openviking-context>likes tea</openviking-context> Buy tea.", "Buy tea."),
        ("<claude-mem-context>\n# Recent Activity\n</claude-mem-context>\nBuy tea.", "Buy tea."),
        ("Context:\n<active_memory_plugin>likes tea</active_memory_plugin>\nBuy tea.", "Context:\n\nBuy tea."),
        ("<circadia-dream>\nDream now.\n</circadia-dream>", ""),
        ("<session_context>\nToday is Sunday.\n</session_context>\nBuy tea.", "Buy tea."),
        ("<hook_context>a hook's words</hook_context>\nBuy tea.", "Buy tea."),
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


TITLE = (
    "Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal of this coding session."
)
SESSION = "<session>\nMend the door\n</session>\n\n"
CHORES = [
    # Claude Code
    ("title", f"x-anthropic-billing-header: cc_version=2;\nYou are a Claude agent.\n{TITLE} The title should", SESSION),
    (
        "title",
        "",
        "You are coming up with a succinct title and git branch name for a coding session based on the provided",
    ),
    ("summary", "You are a helpful AI assistant tasked with summarizing conversations.", "Go"),
    (
        "summary",
        "You are Claude Code.",
        "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the "
        "conversation so far, paying close attention",
    ),
    ("summary", "", "The user stepped away and is coming back. Recap in under 40 words, 1-2 plain sentences"),
    ("suggestion", "", "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]\n\nFIRST"),
    ("memory", "", "You are now acting as the memory extraction subagent. Analyze the most recent ~9 messages above"),
    ("memory", "You are Claude Code.", "# Dream: Memory Consolidation\n\nYou are performing a dream"),
    (
        "memory",
        "You are selecting memories that will be useful to Claude Code as it processes a user's query. The first",
        "Door",
    ),
    # Codex
    ("title", "Generate a concise, single-line task title of at most 40 characters and under five words", "Mend it"),
    ("summary", "You are Codex.", "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."),
    ("memory", "## Memory Writing Agent: Phase 1 (Single Rollout)\nYou are a Memory Writing Agent.", "rollout"),
    ("review", "You are judging one planned coding-agent action.\nAssess the exact action's", "rm"),
    # opencode
    ("title", "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>", "Mend the door"),
    ("summary", "You are an anchored context summarization assistant for coding sessions.\n\nSummarize", "Door"),
    # aider
    (
        "commit",
        "You are an expert software engineer that generates concise, one-line Git commit messages based on the diffs",
        "diff",
    ),
    ("summary", "*Briefly* summarize this partial conversation about programming.\nInclude less detail", "# USER"),
    # Gemini CLI
    ("routing", "\nYou are a specialized Task Routing AI. Your sole function is to analyze", "Mend the door"),
    # Qwen Code, Gemini CLI
    (
        "memory",
        "You are now acting as the managed memory extraction subagent for an AI coding assistant.\n\nThe",
        "Managed",
    ),
    ("memory", "You are performing a managed memory dream — a reflective consolidation pass", "Memory directory: `/m`"),
    (
        "memory",
        "You are selecting memories that will be useful to an AI coding assistant as it processes a user's query. You",
        "Query: door",
    ),
    ("memory", "You are reviewing this conversation to extract reusable skills.\n", "Project skills directory: `/s`"),
    ("title", f"{TITLE}\nThe title should be clear", "Mend the door"),
    (
        "summary",
        "\nYou are the component that summarizes internal chat history into a given structure.\n",
        "First, reason",
    ),
    (
        "review",
        "You are Gemini.",
        "Analyze *only* the content and structure of your immediately preceding response (your last turn in the",
    ),
    # OpenClaw
    ("heartbeat", "", "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly.\nCurrent time: noon"),
    ("heartbeat", "", "Follow the heartbeat monitor scratch context when provided. Recurring tasks are automations;"),
    ("heartbeat", "", "[OpenClaw heartbeat poll]"),
    ("heartbeat", "", "[OpenClaw exec completion]\nDisable automatic completion turns"),
    ("boot", "", "You are running a boot check. Follow BOOT.md instructions exactly.\n\nBOOT.md:\nGreet"),
    ("boot", "", "A new session was started via /new or /reset. Greet the user"),
    ("schedule", "", "[Fri 2026-11-20 09:00 GMT+1] [cron:j-1 daily] Check the mail."),
    ("subagent", "", "[Subagent Context] You are running as a subagent (depth 1/1)."),
    ("memory", "", "Pre-compaction memory flush. Store durable memories only in memory/2026-11-29.md"),
    (
        "title",
        "",
        "Based on this conversation, generate a short 1-2 word filename slug (lowercase, hyphen-separated, no",
    ),
    # Open WebUI
    ("title", "", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n###"),
    ("title", "", "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with"),
    (
        "suggestion",
        "",
        "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next",
    ),
    ("suggestion", "", "### Task:\nAnalyze the chat history to determine the necessity of generating search queries,"),
    # LibreChat
    ("title", "", "Provide a concise, 5-word-or-less title for the conversation, using its same language, with no"),
    # Copilot
    ("title", "You are an expert in crafting pithy titles for chatbot conversations. You are presented", "Door"),
    # Crush, Vercel's chat
    ("title", "you will generate a short title based on the first message a user begins a conversation with\n", "Door"),
    (
        "title",
        "\n    - you will generate a short title based on the first message a user begins a conversation with",
        "Door",
    ),
    # Cline, Roo Code
    (
        "summary",
        "",
        "<explicit_instructions>\nThe context is running out. Now, your urgent task is to create a comprehensive "
        "detailed summary of the conversation so far.",
    ),
    # LangChain, LangMem, CrewAI, LlamaIndex
    (
        "summary",
        "",
        "<primary_objective>\nYour sole objective in this task is to extract the highest quality/most relevant "
        "context from the conversation history below.\n</primary_objective>",
    ),
    (
        "summary",
        "",
        "This is a summary of the conversation so far: Hi\n\nExtend this summary by taking into account the new "
        "messages above:",
    ),
    (
        "summary",
        "",
        "Analyze the following conversation and create a structured summary that preserves all information",
    ),
    (
        "summary",
        "The following is a conversation of user and assistant. Write a concise summary about the contents of "
        "this conversation.",
        "user: Hi",
    ),
    # mem0
    (
        "memory",
        "You are a Personal Information Organizer, specialized in accurately storing facts, user memories.",
        "Input:\nHi",
    ),
]


@pytest.mark.spec("GATE-97")
@pytest.mark.parametrize(("why", "lead", "said"), CHORES)
def test_what_a_program_asks_for_itself_is_recognised_by_its_own_string(why: str, lead: str, said: str) -> None:
    assert find_chore(lead, said) == why


@pytest.mark.spec("GATE-97")
@pytest.mark.parametrize(
    ("lead", "said"),
    [
        ("You are helpful. " * 30 + "At the end, write a title for the conversation.", "Hi"),
        ("You are a reviewer.", "Write a title for my post about cats."),
        ("", "Generate a title for this conversation, please"),
        ("You write titles. Generate a descriptive title for the conversation.", "Where is Ann?"),
        ("", "<session>\nMend the door\n</session>\n\nWrite the title of my talk about it"),
        ("", "<session>\nMend the door\n</session>\n\nSchreib mir einen Titel dafür"),
        ("You extract facts from mails. Return JSON with the fields name and date.", "Ann moves on Friday."),
        ("You are a memory extraction assistant. Extract what the user says.", "I moved to Porto."),
        ("", "What does [OpenClaw heartbeat poll] mean in my transcript?"),
        ("", "Please read HEARTBEAT.md if it exists, and tell me what it is for"),
        ("", "[cron: 0 2 * * 1] is the wrong time, is it not?"),
        ("", "NO_REPLY"),
        ("", "### Task:\nWrite a letter to my landlord"),
        ("", "Why does Claude Code send 'You are a title generator. You output ONLY a thread title.'?"),
        (f"{TITLE.lower()}", "Door"),
        ("You are kind, and suggest follow-up questions that move the conversation forward.", "Hi"),
        ("", "Please summarize our conversation so far"),
        ("", "Fasse unser Gespräch bitte zusammen"),
        ("", "Who wrote that your task is to create a detailed summary of the conversation so far?"),
        ("You are helpful. " * 100 + f"\n{TITLE}", "Door"),
    ],
)
def test_what_a_person_asks_is_none(lead: str, said: str) -> None:
    assert find_chore(lead, said) == ""


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


@pytest.mark.parametrize(
    "piece",
    [
        "<system-reminder>",
        "<task>",
        "<INSTRUCTIONS> ",
        "</task>",
        "[Request ",
        "<",
        f"{TITLE} ",
        "[cron:j ",
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
    find_chore(piece * 20_000, piece * 20_000)
    assert time.process_time() - began < 1
