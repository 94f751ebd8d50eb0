"""Render conversations to tokens by their chat template: with a model that is here, or its tokenizer alone."""

import json
from pathlib import Path
from typing import Protocol

from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.replaying import Replayer
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec


class Reader(Protocol):
    """What of a model decides which rollouts it can learn from."""

    @property
    def context_length(self) -> int:
        """Tokens it may read at once."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def replayer(self) -> Replayer:
        """Renders conversations as this model reads them."""


class TokenizerReader:
    """The tokenizer and the sizes of a model whose weights need not be here."""

    def __init__(self, directory: Path) -> None:
        """Raises BaseModelError unless the directory holds a tokenizer.json and a config.json."""
        try:
            config = json.loads((directory / "config.json").read_bytes())
            text = config.get("text_config", config)  # what reads images too keeps its sizes in there
            self.context_length = int(text["max_position_embeddings"])
            self.vocabulary_size = int(text["vocab_size"])
            self.replayer = Replayer(TextCodec.from_directory(directory), directory.name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EngineError) as error:
            raise BaseModelError(f"the tokenizer and sizes of {directory} cannot be read: {error}") from error
