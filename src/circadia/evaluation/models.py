"""What evaluations run with: a model, scripted, on this machine or of an upstream, and a progress bar."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from circadia.clock import Clock
from circadia.errors import ConfigError, InvalidRequest, StartError
from circadia.evaluation.scripted_model import ScriptedEvalModel
from circadia.llm import local, local_weights
from circadia.llm.chat_model import ChatModel
from circadia.llm.models import ModelSpec, open_model
from circadia.llm.providers import cheap_model
from circadia.settings import Settings

SCRIPTED: Final = "scripted"
LOCAL: Final = "local"
LOCAL_SECONDS: Final = 600.0
"""Longest wait for a model on this machine, which works on one call at a time."""
LOCAL_TOKENS: Final = 8_192
"""Context window of a model on this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    model: str = SCRIPTED
    """`scripted`, `local`, the name or path of weights, or a model of the upstream."""
    upstream: str | None = None
    """Name of a configured upstream; None for a model in this process or on this machine."""

    @property
    def is_scripted(self) -> bool:
        """Whether it is the free, deterministic model."""
        return self.upstream is None and self.model == SCRIPTED


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalEnvironment:
    settings: Settings
    environment: Mapping[str, str]
    clock: Clock
    to: Console


@contextlib.asynccontextmanager
async def open_eval_model(chosen: ModelChoice, around: EvalEnvironment) -> AsyncGenerator[ChatModel]:
    """Open the model until the block ends.

    Raises:
        ConfigError: no such upstream, or its key is not set. NotFound, InvalidRequest: no such weights.
        StartError: the local model is missing, or does not start.
    """
    if chosen.is_scripted:
        yield ScriptedEvalModel()
    elif chosen.upstream is not None:
        async with open_model(_build_model_spec(chosen, chosen.upstream, around), around.clock) as model:
            yield model
    else:
        name = local_weights.SMOLLM2.name if chosen.model == LOCAL else chosen.model
        weights = local_weights.find_gguf_file(name, local_weights.models_folder(around.environment))
        if weights is None:
            raise StartError(f"the weights of {name!r} are not here: run `circadia model fetch {name}`")
        with TemporaryDirectory(prefix="circadia-eval-") as folder:
            log = Path(folder) / "model.log"
            async with local.run_local_model(
                weights, name=weights.stem, log=log, context_tokens=LOCAL_TOKENS
            ) as running:
                at = ModelSpec(
                    upstream=LOCAL, base_url=running.base_url, api="openai", key=None, model=running.name,
                    timeout_seconds=LOCAL_SECONDS,
                )  # fmt: skip
                async with open_model(at, around.clock) as model:
                    yield model


def _build_model_spec(chosen: ModelChoice, name: str, around: EvalEnvironment) -> ModelSpec:
    upstream = around.settings.upstreams.get(name)
    if upstream is None:
        known = ", ".join(sorted(around.settings.upstreams)) or "none"
        raise ConfigError(f"no upstream {name!r} in the configuration; known: {known}")
    model = cheap_model(upstream.base_url, upstream.chat_api) if chosen.model == SCRIPTED else chosen.model
    if model is None:
        raise InvalidRequest(f"the cheap model of {upstream.base_url} is not known; name one with --model")
    key = None if upstream.key_env is None else around.environment.get(upstream.key_env)
    if upstream.key_env is not None and not key:
        raise ConfigError(f"upstreams.{name}: the environment variable {upstream.key_env} is not set")
    return ModelSpec(
        upstream=name, base_url=upstream.base_url, api=upstream.chat_api, key=key, model=model,
        key_header=upstream.key_header, connect_timeout_seconds=upstream.connect_timeout_seconds,
    )  # fmt: skip


def build_progress(to: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=to, transient=True, disable=not sys.stderr.isatty())
