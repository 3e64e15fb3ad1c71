"""Ask all questions with each arm, keep each answer as it comes, and go on where a run was interrupted."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import orjson
from pydantic import TypeAdapter, ValidationError

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.evaluation.asker import Asker, EvaluationUsage
from circadia.evaluation.memory.arms import MemoryArm, TalkAnswerer
from circadia.evaluation.memory.grading import GRADE_TOKENS, grade
from circadia.evaluation.memory.talks import AskedQuestion, AskedTalk, trust_of
from circadia.evaluation.pass_harness import PassFailed, PassHarness, RecordingModel, open_pass_harness
from circadia.llm.chat_model import ChatModel
from circadia.llm.usage import Usage
from circadia.memory.banks import NewBank
from circadia.memory.context import estimate_tokens
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import NewEpisode
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Bank, BankPolicy
from circadia.server.scratch_store import open_scratch_store

RULE_TOKENS: Final = 300
"""About the tokens of a question's rules and schema."""
ANSWER_TOKENS: Final = 120
"""About the tokens of an answer with its reasoning."""
LOOK_UPS: Final = 1.5
"""About the look-ups of a question that may ask the memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryAnswer:
    """An answer that was graded; a line of the run's file."""

    question: str
    """The question's id."""
    arm: str
    kind: str
    answer: str
    right: bool
    judged: bool
    """Whether a judge graded it, and no rule."""
    input_tokens: int
    output_tokens: int
    seconds: float
    """From the question to the answer."""
    nanousd: int | None
    """Price of the answer and of its verdict; None if it is unknown."""


class AnswerFile:
    """The answers of a run, of which each is in the file before the next is asked for."""

    def __init__(self, path: Path | None, of: str) -> None:
        """`of` describes the run. Raises InvalidRequest: the file is of another one, or damaged."""
        self.answers: dict[tuple[str, str], MemoryAnswer] = {}
        self._path = path
        if path is None or not path.exists():
            if path is not None:
                path.write_bytes(orjson.dumps({"run": of}) + b"\n")
            return
        head, *lines = path.read_bytes().split(b"\n")
        parse = TypeAdapter(MemoryAnswer).validate_json
        try:
            found = orjson.loads(head).get("run")
            answers = [parse(line) for line in lines[:-1]]  # the last one is empty, or was being written
        except (orjson.JSONDecodeError, ValidationError, AttributeError) as error:
            raise InvalidRequest(f"{str(path)!r} is damaged; name another folder with --out") from error
        if found != of:
            raise InvalidRequest(
                f"{str(path)!r} has the answers of another run ({found}); name another folder with --out"
            )
        self.answers = {(each.question, each.arm): each for each in answers}
        if lines[-1:] not in ([], [b""]):
            path.write_bytes(b"\n".join([head, *lines[:-1], b""]))

    def add(self, answer: MemoryAnswer) -> None:
        self.answers[answer.question, answer.arm] = answer
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(orjson.dumps(asdict(answer)) + b"\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryModels:
    """Who answers, who judges, and who works in passes; without them, only what would be shown is looked at."""

    answering: ChatModel | None
    judging: ChatModel | None
    sleeping: ChatModel | None = None


class MemoryMeasurement:
    """Answers are in `file`, however the run ends."""

    def __init__(
        self,
        talks: Sequence[AskedTalk],
        arms: Sequence[MemoryArm],
        models: MemoryModels,
        clock: Clock,
        file: AnswerFile,
        *,
        budget_nanousd: int | None = None,
        at_once: int = 4,
    ) -> None:
        self._talks = talks
        self._arms = arms
        self._models = models
        self._clock = clock
        self._budget = budget_nanousd
        self._turn = asyncio.Semaphore(at_once)
        self._policy = AgentPolicy()
        self.file: Final = file
        self.is_over_budget = False
        self.failed_passes = 0

    @property
    def step_count(self) -> int:
        return sum(len(talk.questions) for talk in self._talks) * len(self._arms)

    def estimate(self) -> tuple[int, int, int | None]:
        """Return about the input and output tokens of what is left to ask, and its price at most, without passes."""
        read = written = 0
        price: int | None = 0
        room = self._policy.stable_tokens + self._policy.fitting_tokens
        for talk in self._talks:
            whole = sum(estimate_tokens(turn.text) + 8 for turn in talk.turns)
            sizes = {MemoryArm.NOTHING: 0, MemoryArm.ALL: whole, MemoryArm.BM25: room, MemoryArm.CONTEXT: room}
            for question, arm in self._list_unanswered(talk):
                asks = 1 + LOOK_UPS if arm is MemoryArm.RECALL else 1
                input_tokens = int(asks * (sizes.get(arm, room) + RULE_TOKENS + estimate_tokens(question.text)))
                output_tokens = int(asks * ANSWER_TOKENS)
                read, written = read + input_tokens + RULE_TOKENS, written + output_tokens + ANSWER_TOKENS
                for model, used in (
                    (self._models.answering, (input_tokens, output_tokens)),
                    (self._models.judging, (RULE_TOKENS, GRADE_TOKENS)),
                ):
                    worst = None if model is None else model.worst_price(*used)
                    price = None if price is None or worst is None else price + worst
        return read, written, price

    async def run(self, advance: Callable[[], None]) -> None:
        """Measure what is not in the file yet. Raises UpstreamFailed."""
        embedder = BundledEmbedder()
        for talk in self._talks:
            left = self._list_unanswered(talk)
            for _ in range(len(talk.questions) * len(self._arms) - len(left)):
                advance()
            if not left or self.is_over_budget:
                continue
            sleeping = None if self._models.sleeping is None else RecordingModel(self._models.sleeping, self._clock)
            with TemporaryDirectory(prefix="circadia-eval-") as folder:
                async with open_scratch_store(Path(folder)) as (store, signals):
                    async with open_pass_harness(
                        store, signals, sleeping, clock=self._clock, embedder=embedder
                    ) as running:
                        bank = await self._remember(running, talk)
                        runner = TalkAnswerer(running, bank, talk, self._policy)
                        await self._ask(runner, left, advance)

    async def _ask(
        self, runner: TalkAnswerer, left: Sequence[tuple[AskedQuestion, MemoryArm]], advance: Callable[[], None]
    ) -> None:
        tasks = [asyncio.create_task(self._measure(runner, question, arm, advance)) for question, arm in left]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _list_unanswered(self, talk: AskedTalk) -> list[tuple[AskedQuestion, MemoryArm]]:
        return [(each, arm) for each in talk.questions for arm in self._arms if (each.id, arm) not in self.file.answers]

    async def _remember(self, running: PassHarness, talk: AskedTalk) -> Bank:
        """Store a talk, with a pass after each sitting, and all vectors."""
        memory = running.memory
        async with running.store.begin_write() as tx:
            new = NewBank(name="talk", policy=BankPolicy(duplicate_seconds=0))
            bank = await memory.banks.create(tx, new, by="evaluation")
        for _, turns in groupby(talk.turns, key=lambda turn: turn.session):
            async with running.store.begin_write() as tx:
                for turn in turns:
                    episode = NewEpisode(
                        text=turn.text.strip() or "…", speaker=turn.speaker, trust=trust_of(turn), at=turn.at,
                        conversation=turn.session,
                    )  # fmt: skip
                    await memory.episodes.remember(tx, bank, episode)
            if running.model is not None:
                try:
                    await running.run_pass(bank)
                except PassFailed:
                    self.failed_passes += 1
        assert memory.embedding is not None
        await memory.embedding.catch_up()
        return bank

    async def _measure(
        self, runner: TalkAnswerer, question: AskedQuestion, arm: MemoryArm, advance: Callable[[], None]
    ) -> None:
        async with self._turn:
            spent = sum(each.nanousd or 0 for each in self.file.answers.values())
            if self._budget is not None and spent >= self._budget:
                self.is_over_budget = True
                return
            began = self._clock.monotonic()
            answering, judging = self._models.answering, self._models.judging
            if answering is None or judging is None:
                shown = await runner.show(arm, question)
                used, verdict = EvaluationUsage(prompt=estimate_tokens(shown)), EvaluationUsage()
                answer, seconds = "", self._clock.monotonic() - began
                right, judged = _holds_key(shown, question.key), False
            else:
                answer, used = await runner.answer(Asker(answering, self._clock), arm, question)
                seconds = self._clock.monotonic() - began
                judge = Asker(judging, self._clock)
                right, judged, verdict = await grade(judge, question.text, question.key, answer)
            self.file.add(
                MemoryAnswer(
                    question=question.id, arm=arm.value, kind=question.kind, answer=answer, right=right, judged=judged,
                    input_tokens=used.prompt, output_tokens=used.generated, seconds=seconds,
                    nanousd=_add_prices(_price(answering, used), _price(judging, verdict)),
                )
            )  # fmt: skip
            advance()


def _holds_key(shown: str, key: str) -> bool:
    """Return whether all words of a key stand in a text."""
    text = shown.casefold()
    return all(word in text for word in key.casefold().replace(",", " ").split())


def _price(model: ChatModel | None, used: EvaluationUsage) -> int | None:
    if model is None or not used.calls:
        return 0
    return model.price(Usage(input_tokens=used.prompt, output_tokens=used.generated))


def _add_prices(*prices: int | None) -> int | None:
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None
