"""The scripted model of `circadia demo dream`, behind a real HTTP endpoint: it answers by fixed rules.

`testing/rule_based_model.py` answers the questions of a pass. For any other question, the answer is the last of the
prompt's lines that share the most words with it, so it is only as right as the prompt.
"""

from collections.abc import Mapping
from typing import Any, Final

from circadia.memory.search.terms import STOP_WORDS, question_terms, stored_terms, words
from circadia.testing.rule_based_model import ANSWER_BUILDERS

UNKNOWN: Final = "I do not know."
_PASS: Final = {output.__name__: answering for output, answering in ANSWER_BUILDERS.items()}


def reply(request: Mapping[str, Any]) -> str:
    messages: list[dict[str, Any]] = request.get("messages") or []
    response_format: dict[str, Any] = request.get("response_format") or {}
    schema: dict[str, Any] = response_format.get("json_schema") or {}
    answering = _PASS.get(str(schema.get("name")))
    last = _text(messages[-1]) if messages else ""
    if answering is not None:
        return answering(last).model_dump_json()
    question, _, more = last.partition("\n")
    return _best(question, "\n".join([*(_text(message) for message in messages[:-1]), more]))


def _text(message: Mapping[str, Any]) -> str:
    content: str | list[dict[str, Any]] = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def _best(question: str, prompt: str) -> str:
    """Return the line that shares the most words with the question; the last one on a tie."""
    terms = set(question_terms(question))
    best, most = UNKNOWN, 0
    for line in prompt.split("\n"):
        shared = len(terms.intersection(memoryview(stored_terms(line)).cast("I").tolist()))
        if shared and shared >= most and set(words(line)).difference(STOP_WORDS):
            best, most = line.strip(" -|"), shared
    return best
