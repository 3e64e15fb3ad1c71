"""Statements that may take more work when more is stored, as patterns, with the reason. Review it like code.

All but `IN_LOOP` run outside the event loop of a server.
"""

from collections.abc import Mapping
from typing import Final

_TABLES: Final = r"(sessions|agents|threads|participants|deliveries|messages)"
IN_LOOP: Final[Mapping[str, str]] = {
    # Before a server listens, or in a program of its own.
    r"^SELECT [^?$]+ FROM \w+( WHERE \w+\.name > \S+)?( ORDER BY [\w., ]+)?$": "a copy, by `circadia export`",
    r"^UPDATE (conversations SET handle|messages SET \"?indexed|usage_days SET charged_tokens)": "a migration",
    r"^UPDATE agents SET next_at = \( SELECT at ": "a migration",
    r"^INSERT INTO span_sums .* FROM span_sums WHERE ": "a migration",
    # What a setting bounds.
    r"^SELECT count\(\*\) AS count_1 FROM passes WHERE passes\.started_at >=": "the passes of one day, for its budget",
    r"^DELETE FROM answer_verdicts WHERE .* ORDER BY answer_verdicts\.at DESC": "the verdicts that a bank keeps",
    r"^UPDATE agents SET next_at=\(SELECT soonest": "the routines and deferred wakes of one agent",
    # As many as the write adds or takes away.
    r"^SELECT notes\.id, notes\.bank_id FROM notes WHERE notes\.id IN ": "the notes that a call has used, by their ids",
    r"^SELECT .* FROM participants JOIN agents": "those who get a message of a thread",
    r"^SELECT DISTINCT evidence\.note_id": "the notes that rest on an episode",
}
ALLOWED: Final[Mapping[str, str]] = {
    **IN_LOOP,
    # Counts, which their readers ask for; reports have a time limit and connections of their own (LARGE-05).
    r"^SELECT .*sum\(usage_days\.calls\) AS calls": "a usage report reads the days of its range",
    r"^SELECT .*count\(\*\) FILTER \(WHERE coalesce\(calls\.": "a usage report by conversation or user: its calls",
    r"^SELECT DISTINCT usage_days\.session, usage_days\.agent": "names of those that a usage report has",
    r"^SELECT count\(\*\) AS calls, .* FROM sleep_calls JOIN calls": "what the calls of one bank or pass have cost",
    r"^SELECT \(SELECT coalesce\(sum\(delivery_counts\.number\)": "dead letters, a row for each agent that has some",
    r"^SELECT DISTINCT pulses\.agent_id FROM pulses WHERE pulses\.ended_at >= ": "pulses of a circuit's last pause",
    r"^SELECT wakes\.sender, wakes\.agent, wakes\.decision, count\(": "the matrix of all wakes that are kept",
    r"^SELECT passes\.status, count\(": "passes by status, for metrics",
    r"^SELECT \(SELECT count\(\*\) AS count_1 FROM agents WHERE": "the fleet by state, for metrics and the overview",
    r"^SELECT agents\.asleep, .* FROM agents": "what all agents do now, for the sums of the timeline",
    r"^SELECT count\(\*\) AS count_1(, count\(.*)? FROM (episodes|notes|answers) WHERE": "a bank's rows, for its page",
    r"^SELECT count\(\*\) AS count_1 FROM (threads|participants JOIN threads)": "open threads, up to an agent's limit",
    r"^SELECT coalesce\(sum\(benefits\.saved_tokens\)": "what memory has saved, for metrics and the overview",
    r"^SELECT benefits\.day, sum\(benefits\.saved_nanousd\)": "the same by day",
    r"^SELECT \(SELECT count\(\*\) AS count_1 FROM episodes .*stale": "a bank's stale share, once in a pass",
    r"^SELECT .* FROM episodes WHERE episodes\.passages IS NULL ": "long texts of an older release, once an hour",
    # All of one thing, by an index of it.
    r"^(SELECT .*|DELETE) FROM promotions WHERE ": "a bank or a note is forgotten, with its copies, a page at a time",
    r"^SELECT .* FROM notes WHERE .* AND notes\.valid_to > ": "retired notes for a question as of a date, up to 2,000",
    r"^SELECT .* FROM agents JOIN sessions .* agents\.session_id = ": "agents of a session that is closed or listed",
    r"^SELECT .* FROM threads (JOIN participants .*)?WHERE threads\.session_id = ": "threads of a session or agent",
    r"^SELECT .* FROM pass_changes JOIN passes": "the changes of one thing, or those that a forgotten text is in",
    r"^UPDATE sleep_calls SET answer=": "a bank forgets",
    r"^SELECT .* FROM blocks WHERE blocks\.bank_id = \S+ ORDER BY blocks\.label, blocks\.version$": "a bank forgets",
    r"^SELECT episodes\.id(, episodes\.(number|stale))* FROM episodes WHERE episodes\.bank_id = ": "forgetting, a pass",
    r"FROM agents JOIN sessions .* NOT agents\.asleep AND CAST": "a start looks for launched agents that are awake",
    r"FROM banks LEFT (OUTER )?JOIN sleep_states": "each bank is looked at once after a change of the settings",
    r"^WITH due AS \( SELECT agent_id FROM wakes": "all wakes that are due: the most urgent is decided first",
    # Filters that stop at a page, in what one agent or bank has: an index for each would cost every write.
    r"^SELECT .* FROM deliveries JOIN messages .*(messages\.sender = |mentioned IS (0|false))": "a wait for one sender",
    r"FROM deliveries WHERE .* (MATCH|@@) ": "a search finds words in an inbox",
    r"^SELECT .* FROM pulses WHERE pulses\.agent_id = .* AND pulses\.status = ": "an agent's pulses in a rare state",
    r"^SELECT .* FROM wakes WHERE wakes\.agent_id = \S+ AND wakes\.decision = ": "an agent's wakes of a rare decision",
    r"^SELECT .* FROM approvals WHERE approvals\.status = .* AND approvals\.agent_id = ": "an agent's approvals",
    r"^SELECT (near|some_rows)\.id, .*\bsought\b": "a search by name reads 2,000 names of each kind at most",
    r"^SELECT .* FROM passes WHERE (passes\.bank_id = .* AND )?passes\.status = ": "passes in a rare state",
    r"^SELECT .* FROM answer_uses WHERE answer_uses\.bank_id = ": "a bank's uses of answers that are to be judged",
    r"^SELECT .* FROM answers WHERE answers\.bank_id = ": "a bank's answers: `answers` limits their number",
    r"^SELECT (?!EXISTS).* FROM wakes WHERE wakes\.decision = ": "all wakes of a rare decision",
    r"FROM agents JOIN sessions .* sessions\.name > ": "a page sorts the agents of the session that it is in",
    # PostgreSQL reads a small table whole, and goes by the index of a large one.
    r"FROM agents JOIN sessions .* json_each": "which of the agents that a gateway knows were changed",
    r"^DELETE FROM (routines|answers|answer_verdicts|evidence|provenances|deliveries) WHERE .* IN ": "a page",
    r"^DELETE FROM (approvals|alert_history|event_waits|named_events) WHERE .* IN ": "a page",
    r"^WITH RECURSIVE labels.* versions\.at <= ": "the blocks as of a day: the versions since, newest first",
    r"^WITH RECURSIVE labels.*coalesce\(blocks\.deleted, true\)": "the blocks of a bank",
    r"^UPDATE deliveries SET state=.* deliveries\.message_id IN ": "an agent's unhandled messages, taken to be few",
    # What goes for good, in pages.
    r"^DELETE FROM \w+ WHERE .*bank_id = ": "a bank is removed",
    r"^DELETE FROM banks WHERE": "a bank is removed: the database looks for what refers to it",
    rf"^DELETE FROM {_TABLES} WHERE {_TABLES}\.(id|session_id|thread_id|agent_id) IN ": "a session ends with it all",
}
