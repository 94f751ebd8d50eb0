"""Hugging Face's own forward over models that the trainer's own forward knows: what that is held to."""

import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.engine.hugging_face_model import open_module


@lru_cache(maxsize=4)
def _open(directory: Path, precision: Any) -> Any:
    return open_module(directory, precision)


def module_of(base: BaseModel) -> Any:
    """Hugging Face's module of the same weights, in the same precision."""
    return _open(base.directory, base.decoder.head.dtype)


def read_by_hugging_face(base: BaseModel) -> BaseModel:
    """The same model by Hugging Face's forward: it reads packed rows."""
    return dataclasses.replace(base, decoder=HuggingFaceDecoder(module_of(base)))
