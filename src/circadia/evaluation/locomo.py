"""Measure how much of the evidence for questions about long conversations is in the contexts that memory builds.

The conversations are in LoCoMo's format (https://github.com/snap-research/locomo).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from circadia.clock import Clock
from circadia.errors import InvalidRequest, NotFound
from circadia.evaluation.models import EvalEnvironment, ModelChoice, build_progress, open_eval_model
from circadia.evaluation.pass_harness import PassFailed, PassHarness, RecordingModel, open_pass_harness
from circadia.evaluation.report import Chart, Findings, Grid
from circadia.llm.chat_model import ChatModel
from circadia.memory.banks import NewBank
from circadia.memory.context import estimate_tokens
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import NewEpisode, searched_text
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.index_entry import Layer
from circadia.server.scratch_store import open_scratch_store
from circadia.testing.rule_based_model import RuleBasedModel

KINDS: Final[Mapping[int, str]] = {
    1: "several turns", 2: "time", 3: "world knowledge", 4: "one turn", 5: "adversarial",
}  # fmt: skip
"""LoCoMo's categories of questions."""
_SESSION: Final = re.compile(r"session_(\d+)")
_TURN: Final = re.compile(r"D\d+:\d+")
_AT: Final = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, kw_only=True, slots=True)
class DialogueTurn:
    at: datetime
    session: str
    speaker: str
    text: str

    @property
    def indexed_text(self) -> str:
        """Return the searchable text, the same for all methods."""
        return searched_text(self.at, self.speaker, self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceQuestion:
    question: str
    evidence: frozenset[int]
    """Places of turns."""
    answer: str = ""
    """Empty if the data has none."""
    kind: str = ""
    """Name of LoCoMo's category; empty if it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LongConversation:
    turns: Sequence[DialogueTurn]
    questions: Sequence[EvidenceQuestion]
    name: str = ""


def load_conversations(path: Path) -> list[LongConversation]:
    """Load conversations. Raises NotFound: no such file. InvalidRequest: it is malformed, or has no evidence."""
    try:
        raw: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"no file {str(path)!r}; name one in LoCoMo's format") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{str(path)!r} cannot be read as JSON: {error}") from error
    rows = cast("list[Any]", raw if isinstance(raw, list) else [raw])
    conversations: list[LongConversation] = []
    for at, entry in enumerate(rows, 1):
        try:
            conversations.append(parse_conversation(entry, name=f"{at}"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest(f"{str(path)!r}, conversation {at}: not in LoCoMo's format: {problem}") from error
    if not any(entry.questions for entry in conversations):
        raise InvalidRequest(f"{str(path)!r} has no question whose evidence is among the turns")
    return conversations


def parse_conversation(raw: Mapping[str, Any], name: str = "") -> LongConversation:
    """Parse one conversation, without questions whose evidence is not among its turns.

    Raises KeyError, TypeError, ValueError, AttributeError: it is malformed.
    """
    turns, places = parse_turns(raw["conversation"])
    questions: list[EvidenceQuestion] = []
    for entry in raw["qa"]:
        named = [place for reference in entry.get("evidence") or () for place in _TURN.findall(str(reference))]
        evidence = frozenset(places[place] for place in named if place in places)
        if evidence:
            kind = KINDS.get(entry.get("category", 0), "")
            answer = str(entry.get("answer", ""))
            questions.append(EvidenceQuestion(question=entry["question"], evidence=evidence, answer=answer, kind=kind))
    return LongConversation(turns=turns, questions=questions, name=str(raw.get("sample_id", name)))


def parse_turns(conversation: Mapping[str, Any]) -> tuple[list[DialogueTurn], dict[str, int]]:
    """Return the turns of all sessions in order, and the place of each by its id. Raises as `parse_conversation`."""
    turns: list[DialogueTurn] = []
    places: dict[str, int] = {}
    for session in sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key))):
        at = datetime.strptime(conversation[f"session_{session}_date_time"], _AT).replace(tzinfo=UTC)
        for turn in conversation[f"session_{session}"]:
            places[turn["dia_id"]] = len(turns)
            turns.append(DialogueTurn(at=at, session=str(session), speaker=turn["speaker"], text=turn["text"]))
    return turns, places


CALLS_A_TURN: Final = 0.5
"""About the calls a turn of passes after each sitting (`python -m benchmarks dream_cost`), for an estimate."""
ALL: Final = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionRecall:
    talk: str
    kind: str
    recall: float
    """Share of the evidence that is quoted in the context."""
    covered: float
    """The same, including the evidence of notes in the context."""
    tokens: int


@dataclass(kw_only=True, slots=True)
class LocomoResults:
    recalls: list[QuestionRecall] = field(default_factory=list[QuestionRecall])
    full: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of each full conversation."""
    turns: dict[str, int] = field(default_factory=dict[str, int])
    calls: int = 0
    prompt: int = 0
    generated: int = 0
    passes: int = 0
    failed: int = 0
    """Passes that failed or left work undone."""
    notes: int = 0
    complete: bool = False


async def measure_recall(
    talks: Sequence[LongConversation],
    model: ChatModel | None,
    clock: Clock,
    to: LocomoResults,
    advance: Callable[[], None],
) -> None:
    """Store each conversation in a new bank with a pass after each sitting, and build a context for each question.

    `to` keeps what was measured, even if the run fails.
    """
    embedder = BundledEmbedder()
    for talk in talks:
        watched = None if model is None else RecordingModel(model, clock)
        with TemporaryDirectory(prefix="circadia-eval-") as folder:
            async with open_scratch_store(Path(folder)) as (store, signals):
                async with open_pass_harness(store, signals, watched, clock=clock, embedder=embedder) as running:
                    try:
                        await _measure_talk(running, talk, to, advance)
                    finally:
                        _add_usage(watched, to)
    to.complete = True


def count_steps(talks: Sequence[LongConversation]) -> int:
    """Return how often `measure_recall` calls `advance`."""
    return sum(len(_split_sittings(talk)) + len(talk.questions) for talk in talks)


def _split_sittings(talk: LongConversation) -> list[list[DialogueTurn]]:
    return [list(part) for _, part in groupby(talk.turns, key=lambda turn: turn.session)]


def _add_usage(watched: RecordingModel | None, to: LocomoResults) -> None:
    if watched is not None:
        to.calls += len(watched.prompts)
        to.prompt += sum(used.input_tokens or 0 for used in watched.used)
        to.generated += sum(used.output_tokens or 0 for used in watched.used)


async def _measure_talk(
    running: PassHarness, talk: LongConversation, to: LocomoResults, advance: Callable[[], None]
) -> None:
    async with running.store.begin_write() as tx:
        new = NewBank(name="talk", policy=BankPolicy(duplicate_seconds=0))
        bank = await running.memory.banks.create(tx, new, by="evaluation")
    for sitting in _split_sittings(talk):
        await _remember(running, bank, sitting)
        to.passes += 1
        try:
            await running.run_pass(bank)
        except PassFailed:
            to.failed += 1
        advance()
    assert running.memory.embedding is not None
    await running.memory.embedding.catch_up()
    async with running.store.begin_read() as tx:
        ids = [episode.id for episode in await tx.episodes.find_all(bank.id, limit=len(talk.turns))]
        to.notes += await tx.notes.count(bank.id)
    to.full[talk.name] = sum(estimate_tokens(turn.indexed_text) + 1 for turn in talk.turns)
    to.turns[talk.name] = len(talk.turns)
    for question in talk.questions:
        evidence = frozenset(ids[place] for place in question.evidence)
        to.recalls.append(await _measure_question(running, bank, talk.name, question, evidence))
        advance()


async def _remember(running: PassHarness, bank: Bank, turns: Sequence[DialogueTurn]) -> None:
    async with running.store.begin_write() as tx:
        for turn in turns:
            new = NewEpisode(
                text=turn.text or "…", speaker=turn.speaker, trust=Trust.PERSON, at=turn.at, conversation=turn.session
            )
            await running.memory.episodes.remember(tx, bank, new)


async def _measure_question(
    running: PassHarness, bank: Bank, talk: str, question: EvidenceQuestion, evidence: frozenset[str]
) -> QuestionRecall:
    """Build the context of a question as the gateway does, with an agent's default budget."""
    policy = AgentPolicy()
    prepared = await running.memory.retrieval.prepare_question(question.question)
    async with running.store.begin_read() as tx:
        present = await tx.banks.get(bank.id)
        context = await running.memory.contexts.build(
            tx, present or bank, prepared, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens
        )
        by_layer = {layer: [hit.item.number for hit in context.hits if hit.item.layer is layer] for layer in Layer}
        episodes = await tx.episodes.get_by_numbers(bank.id, by_layer[Layer.EPISODES])
        notes = await tx.notes.get_by_numbers(bank.id, by_layer[Layer.NOTES])
    shown_ids = {episode.id for episode in episodes.values()}
    behind = shown_ids.union(*(note.evidence for note in notes.values()))
    return QuestionRecall(
        talk=talk,
        kind=question.kind,
        recall=len(evidence & shown_ids) / len(evidence),
        covered=len(evidence & behind) / len(evidence),
        tokens=estimate_tokens(context.stable) + estimate_tokens(context.fitting),
    )


def build_locomo_findings(measured: LocomoResults, model: ChatModel | None, command: str, at: datetime) -> Findings:
    talks = list(measured.full)
    kinds = sorted({score.kind for score in measured.recalls if score.kind})
    groups = [
        *((f"talk {talk}", [score for score in measured.recalls if score.talk == talk]) for talk in talks),
        *((kind, [score for score in measured.recalls if score.kind == kind]) for kind in kinds),
        (ALL, measured.recalls),
    ]
    rows = [_build_row(name, some, measured) for name, some in groups if some]
    turns = max(sum(measured.turns.values()), 1)
    sleep = {
        "model": None if model is None else model.name, "passes": measured.passes, "failed_passes": measured.failed,
        "calls": measured.calls, "calls_a_turn": measured.calls / turns, "prompt_tokens": measured.prompt,
        "generated_tokens": measured.generated, "tokens_a_turn": (measured.prompt + measured.generated) / turns,
        "notes": measured.notes, "turns": sum(measured.turns.values()),
    }  # fmt: skip
    return Findings(
        title="Memory of long talks: evidence in the context of each question", command=command, at=at,
        complete=measured.complete, grids=[_recall_grid(rows), _sleep_grid(sleep)], charts=_build_charts(rows),
        notes=_build_notes(measured, model), figures={"recall": rows, "sleep": sleep},
    )  # fmt: skip


def _build_row(name: str, some: Sequence[QuestionRecall], measured: LocomoResults) -> dict[str, Any]:
    count = len(some)
    full = sum(measured.full[score.talk] for score in some) / count
    of_context = sum(score.tokens for score in some) / count
    return {
        "of": name, "questions": count, "recall": sum(score.recall for score in some) / count,
        "with_notes": sum(score.covered for score in some) / count,
        "whole": sum(score.recall == 1 for score in some) / count,
        "context_tokens": of_context, "full_tokens": full, "share_of_full": of_context / full if full else 0.0,
    }  # fmt: skip


def _recall_grid(rows: Sequence[dict[str, Any]]) -> Grid:
    return Grid(
        title="Evidence in the context of a question, and what the context costs",
        columns=[
            "of", "questions", "recall, %", "with notes, %", "all of it, %", "context tokens", "full talk's tokens",
            "of the full talk, %",
        ],
        rows=[
            [
                row["of"], f"{row['questions']:,}",
                *(f"{100 * row[name]:.1f}" for name in ("recall", "with_notes", "whole")),
                f"{row['context_tokens']:,.0f}", f"{row['full_tokens']:,.0f}", f"{100 * row['share_of_full']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def _sleep_grid(sleep: dict[str, Any]) -> Grid:
    return Grid(
        title="What it took while nobody waited",
        columns=[
            "model", "turns", "passes", "calls", "calls a turn", "prompt tokens", "gen. tokens", "tokens a turn",
            "notes",
        ],
        rows=[
            [
                sleep["model"] or "none", f"{sleep['turns']:,}", f"{sleep['passes']:,}", f"{sleep['calls']:,}",
                f"{sleep['calls_a_turn']:.2f}", f"{sleep['prompt_tokens']:,}", f"{sleep['generated_tokens']:,}",
                f"{sleep['tokens_a_turn']:,.0f}", f"{sleep['notes']:,}",
            ]
        ],
    )  # fmt: skip


def _build_charts(rows: Sequence[dict[str, Any]]) -> list[Chart]:
    if not rows:
        return []
    places = [row["of"] for row in rows]
    return [
        Chart(
            name="recall", title="Evidence in the context of a question", across="of", places=places, lines=False,
            unit="% of the evidence", series={"recall": [100 * row["recall"] for row in rows]},
        ),
        Chart(
            name="tokens", title="Tokens of a question's context, and of the full talk", across="of", places=places,
            unit="tokens", lines=False,
            series={
                "context": [row["context_tokens"] for row in rows], "full talk": [row["full_tokens"] for row in rows],
            },
        ),
    ]  # fmt: skip


def _build_notes(measured: LocomoResults, model: ChatModel | None) -> list[str]:
    policy = AgentPolicy()
    notes = [
        "recall: the share of a question's evidence, turns of the talk, that its context quotes, averaged over all "
        "questions with evidence. with notes: the same, including the evidence of notes in the context. all of it: the "
        "share of questions whose context has all of the evidence.",
        f"The budget is an agent's default: {policy.stable_tokens:,} tokens for blocks and {policy.fitting_tokens:,} "
        "for what fits the question. Both sides count a third of the bytes as tokens, as Circadia does.",
        "Each talk is stored in a new bank, turn by turn, with a pass after each sitting. The bundled embedder makes "
        "the vectors.",
    ]
    if model is None:
        notes.append(
            "Without a model, passes ran only the operations that need none and spent no tokens. With --model, a model "
            "consolidates, and the report shows its usage."
        )
    if measured.failed:
        notes.append(f"{measured.failed} of {measured.passes} passes failed or left work undone.")
    if not measured.recalls:
        notes.append("No talk was finished, so there is no recall.")
    return notes


class LocomoRun:
    """A run of `circadia eval locomo`."""

    def __init__(self, chosen: ModelChoice | None, around: EvalEnvironment, talks: Sequence[LongConversation]) -> None:
        """`chosen` None runs without a model."""
        self._chosen = chosen
        self._around = around
        self._talks = talks
        self._model: ChatModel | None = None
        self._measured = LocomoResults()

    async def run(self) -> None:
        """Measure. Raises CircadiaError: the model cannot be reached."""
        around = self._around
        if self._chosen is None:
            await self._measure()
        elif self._chosen.is_scripted:
            self._model = RuleBasedModel()
            await self._measure()
        else:
            async with open_eval_model(self._chosen, around) as model:
                self._model = model
                about = sum(len(talk.turns) for talk in self._talks) * CALLS_A_TURN
                around.to.print(f"{model.name} of {model.upstream} gets about {about:,.0f} calls.")
                await self._measure()

    async def _measure(self) -> None:
        with build_progress(self._around.to) as bar:
            task = bar.add_task("sittings and questions", total=count_steps(self._talks))
            await measure_recall(
                self._talks, self._model, self._around.clock, self._measured, lambda: bar.advance(task)
            )

    def build_findings(self, command: str) -> Findings | None:
        """Return the findings; None if nothing was measured."""
        if not self._measured.passes:
            return None
        return build_locomo_findings(self._measured, self._model, command, self._around.clock.now())
