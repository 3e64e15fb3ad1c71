"""What the doctor looks at for memory: whether the embedder makes vectors."""

import asyncio
import importlib
from collections.abc import Mapping

import aiohttp

from circadia.cli.doctor.check import Check, fail, ok, warn
from circadia.cli.doctor.network import ANSWER_SECONDS
from circadia.errors import ConfigError, UpstreamFailed
from circadia.settings.memory import (
    BundledEmbedderSettings,
    EmbedderSettings,
    EndpointEmbedderSettings,
    FastembedEmbedderSettings,
    LocalEmbedderSettings,
    NoEmbedderSettings,
)


async def check_embedder(
    what: str, chosen: EmbedderSettings | None, session: aiohttp.ClientSession, environment: Mapping[str, str]
) -> list[Check]:
    """Tell whether the embedder of a setting makes vectors; a model that would have to be downloaded is not tried."""
    if chosen is None:
        return []
    if isinstance(chosen, NoEmbedderSettings):
        return [ok(what, "none: searches go by words alone")]

    def secret(_: str, variable: str | None) -> str | None:
        if variable is not None and not environment.get(variable):
            raise ConfigError(f"the environment has no {variable}")
        return variable and environment[variable]

    # The libraries take a while to load, which no other command should wait for.
    joins = importlib.import_module("circadia.server.remembering")
    try:
        embedder = joins.build_embedder(what, chosen, secret, session)
        if isinstance(chosen, FastembedEmbedderSettings):
            return [ok(what, f"fastembed is installed; {chosen.model} is loaded with the first text")]
        async with asyncio.timeout(ANSWER_SECONDS):
            await embedder.embed(["a"])
    except ConfigError as error:
        return [fail(what, error.message, _remedy(chosen))]
    except UpstreamFailed as error:
        return [warn(what, error.message, _remedy(chosen))]
    except TimeoutError:
        return [warn(what, f"it gives no vector within {ANSWER_SECONDS:g} s", _remedy(chosen))]
    return [ok(what, f"{embedder.name} makes vectors")]


def _remedy(chosen: EmbedderSettings) -> str:
    match chosen:
        case EndpointEmbedderSettings():
            return "check base_url, model and key_env; searches go by words alone until it answers"
        case BundledEmbedderSettings():
            return "install circadia again with pip"
        case LocalEmbedderSettings():
            return f"circadia model fetch {chosen.model}"
        case _:
            return "install the extra, or choose another embedder"
