"""Encoders that numpy runs in this process, whose weights `circadia model fetch` has fetched."""

from pathlib import Path

import numpy as np

from circadia.errors import ConfigError
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.columns import Array
from circadia.memory.embedding.loaded import InProcessEmbedder
from circadia.settings.memory import LocalEmbedderSettings


class LocalEmbedder(InProcessEmbedder[LocalEncoder]):
    """A text's vector is the mean of what the encoder's last layer tells of its tokens, as these were trained."""

    def __init__(self, settings: LocalEmbedderSettings, folder: Path) -> None:
        """Take the weights of that model in `folder`.

        Raises:
            ConfigError: they are not there.
        """
        weights = local_weights.get_weights(settings.model)
        archive = local_weights.find_weights_file(weights, folder)
        if archive is None:
            raise ConfigError(
                f"the embedder 'local' needs the weights of {weights.name!r}, which are not in {str(folder)!r}: run "
                f"`circadia model fetch {weights.name}` as the server's user"
            )
        super().__init__(f"{weights.title}@{weights.sha256[:8]}")
        self._archive = archive
        self._weights = weights

    def _load(self) -> LocalEncoder:
        return LocalEncoder(self._archive)

    def _vectors(self, model: LocalEncoder, texts: list[str], *, question: bool) -> Array:
        return np.array([model.states(text)[1][-1].mean(axis=0) for text in texts])

    def _failure_text(self, error: Exception) -> str:
        name = self._weights.name
        return (
            f"the encoder {name!r} fails ({error}); if its weights are damaged, remove {str(self._archive)!r} and run "
            f"`circadia model fetch {name}`"
        )
