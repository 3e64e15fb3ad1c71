"""Cases of the sleep tier's prompts: made-up data, properties of a good answer, a right answer and a wrong one."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import resources
from typing import Annotated, Any, Final, cast, get_args

from pydantic import BaseModel, ConfigDict, Field

from circadia.gateway.answers.judging import SameQuestions
from circadia.llm.chat_model import Prompt
from circadia.sleeptime.answers.prediction import Predictions, QuestionVerdicts
from circadia.sleeptime.answers.sampling import SameAnswerVerdict
from circadia.sleeptime.answers.still_right import AnswerVerdicts
from circadia.sleeptime.grounding.wording import unfit_reason
from circadia.sleeptime.markdown.folder_edits import FolderAnswer
from circadia.sleeptime.operations.compress import SummaryDraft
from circadia.sleeptime.operations.consolidate import ConsolidationAnswer
from circadia.sleeptime.operations.contradictions import ComparisonAnswer
from circadia.sleeptime.operations.reflect import ReflectionAnswer
from circadia.sleeptime.operations.rethink import RethinkAnswer
from circadia.sleeptime.proposals.prompts import build_file_prompt
from circadia.sleeptime.publish.claim_verifier import ClaimVerdicts

ANSWERS: Final[Mapping[str, type[BaseModel]]] = {
    "consolidate": ConsolidationAnswer,
    "memory_folder": FolderAnswer,
    "contradictions": ComparisonAnswer,
    "reflect": ReflectionAnswer,
    "compress": SummaryDraft,
    "rethink": RethinkAnswer,
    "verify": ClaimVerdicts,
    "predict": Predictions,
    "expected_questions": QuestionVerdicts,
    "same_question": SameQuestions,
    "still_right": AnswerVerdicts,
    "compare": SameAnswerVerdict,
}
"""The prompts, with what each is answered by."""
LIMITS: Final[Mapping[str, Mapping[str, int]]] = {"rethink": {"edits": 10}, "predict": {"questions": 5}}
TODAY: Final = date(2026, 11, 22)
_ID: Final = re.compile(r"[a-z]\d+")
_CITING: Final = ("ids", "replaces", "ended", "holds", "not_over")
_WRITTEN: Final = ("text", "new_text", "now", "before", "lost")

Condition = Mapping[str, Any]
"""What a row has to be: by a field's name with `_is`, `_has` (all of these), `_any` or `_lacks`."""


class PromptCase(BaseModel):
    """One case. A row is a note, an edit, a verdict …, or the answer itself where it has no list of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    must: bool = True
    """Whether a run fails if the case does; else it is a matter of judgement."""
    mission: str = ""
    about: Sequence[str] = ()
    """Optional subjects of the data."""
    data: str
    rows: Annotated[Sequence[int], Field(min_length=2, max_length=2)] = (0, 1_000)
    """Fewest and most rows."""
    some: Sequence[Condition] = ()
    """Each is met by a row."""
    none: Sequence[Condition] = ()
    """Each is met by no row."""
    right: Mapping[str, Any]
    """The scripted model's answer."""
    wrong: Mapping[str, Any]
    """An answer that must fail."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedCase:
    """A case with the prompt that it is of."""

    prompt: str
    case: PromptCase

    @property
    def output(self) -> type[BaseModel]:
        return ANSWERS[self.prompt]

    def build_prompt(self) -> Prompt:
        case = self.case
        return build_file_prompt(
            self.prompt, case.data.strip(), mission=case.mission, today=TODAY, about=case.about,
            **cast("dict[str, Any]", LIMITS.get(self.prompt, {})),
        )  # fmt: skip

    def find_faults(self, answer: BaseModel) -> Sequence[str]:
        """Return what is wrong with an answer, empty if it has all properties."""
        case, rows = self.case, _list_rows(answer)
        fewest, most = case.rows
        faults = [] if fewest <= len(rows) <= most else [f"it has {len(rows)} rows, not {fewest} to {most}"]
        faults += [f"no row has {_show(each)}" for each in case.some if not any(map(partial(_meets, each), rows))]
        faults += [f"a row has {_show(each)}" for each in case.none if any(map(partial(_meets, each), rows))]
        return [*faults, *_find_common_faults(rows, case.data)]


def load_cases(prompts: Sequence[str] = tuple(ANSWERS)) -> Sequence[AskedCase]:
    """Return the cases of these prompts."""
    folder = resources.files("circadia.evaluation.prompt_cases")
    return [
        AskedCase(prompt=prompt, case=PromptCase.model_validate(case))
        for prompt in prompts
        for case in tomllib.loads(folder.joinpath(f"{prompt}.toml").read_text("utf-8"))["case"]
    ]


def _list_rows(answer: BaseModel) -> Sequence[Mapping[str, Any]]:
    """Return the rows of an answer; the answer itself if it has no list of rows."""
    lists = [
        cast("list[Mapping[str, Any]]", answer.model_dump(mode="json")[name])
        for name, field in type(answer).model_fields.items()
        if any(isinstance(inner, type) and issubclass(inner, BaseModel) for inner in get_args(field.annotation))
    ]
    return [row for rows in lists for row in rows] if lists else [answer.model_dump(mode="json")]


def _find_common_faults(rows: Sequence[Mapping[str, Any]], data: str) -> Iterator[str]:
    """Yield what no answer may have: ids that stand nowhere in the data, text that poses as a prompt."""
    shown = set(_ID.findall(data))
    for row in rows:
        lists = [row[field] for field in _CITING if isinstance(row.get(field), list)]
        unknown = [key for keys in lists for key in cast("list[str]", keys) if key not in shown]
        if unknown:
            yield f"{', '.join(unknown)} is not in the data"
        yield from (wrong for field in _WRITTEN if (wrong := unfit_reason(row.get(field) or "")))


def _meets(condition: Condition, row: Mapping[str, Any]) -> bool:
    """Return whether a row meets all parts of a condition; what it has no field for, it does not."""
    return all(key.rpartition("_")[0] in row and _is_met(key, wanted, row) for key, wanted in condition.items())


def _is_met(key: str, wanted: Any, row: Mapping[str, Any]) -> bool:
    field, _, how = key.rpartition("_")
    value = row[field]
    if how == "is":
        return set(cast("list[Any]", value)) == set(wanted) if isinstance(value, list) else value == wanted
    stand = [_stands_in(part, value) for part in cast("list[str]", wanted)]
    return {"has": all, "any": any}[how](stand) if how != "lacks" else not any(stand)


def _stands_in(part: str, value: str | list[str] | None) -> bool:
    """Return whether a part is in a text, or in one of several, in any letter case; an id only as a whole."""
    texts = value if isinstance(value, list) else [value or ""]
    if _ID.fullmatch(part):
        return part in texts
    return any(part.casefold() in text.casefold() for text in texts)


def _show(condition: Condition) -> str:
    return ", ".join(f"{key} {wanted!r}" for key, wanted in condition.items())
