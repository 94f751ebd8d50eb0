"""Answers that keep to a JSON schema: which tokens may come next, by llguidance."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from gpu_workers.engine.errors import EngineError, InvalidRequestError
from gpu_workers.engine.text import TextCodec

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

_SPACING: "JsonCompileOptions" = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_NO_TEXT = b"\xff"
"""Before what llguidance is to take for no text: special tokens, and ids that only pad the vocabulary."""


def write_grammar(schema: Mapping[str, Any], *, param: str) -> str:
    """llguidance's grammar of the JSON values that a schema allows, spaced as Python's `json.dumps` does.

    Raises:
        InvalidRequestError: it is no schema, or has a keyword that cannot be kept to.
    """
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_SPACING)
    is_refused, words = LLMatcher.validate_grammar_with_warnings(grammar)
    if is_refused:
        raise InvalidRequestError(f"the schema cannot be kept to: {' '.join(words)[:500]}", param=param)
    return grammar


class Grammars:
    """What opens grammars over one model's tokens."""

    def __init__(self, codec: TextCodec, end_ids: frozenset[int], vocabulary_size: int) -> None:
        """Lay out the vocabulary: about 5 µs a token, once."""
        self._vocabulary_size = vocabulary_size
        self._end_ids = sorted(index for index in end_ids if index < vocabulary_size)
        self._tokenizer = None
        if self._end_ids:
            words = _Words(codec, self._end_ids[0], vocabulary_size)
            self._tokenizer = LLTokenizer(words, n_vocab=vocabulary_size, eos_token=self._end_ids)  # type: ignore[arg-type]

    def open(self, grammar: str) -> "Guide":
        """A new answer's guide. Raises EngineError where the model's tokens cannot be held to it."""
        if self._tokenizer is None:
            raise EngineError("response_format wants a model with an end token", code="grammar_failed")
        return Guide(LLMatcher(self._tokenizer, grammar, log_level=0), frozenset(self._end_ids))


class Guide:
    """Where one answer stands in its grammar."""

    def __init__(self, matcher: LLMatcher, end_ids: frozenset[int]) -> None:
        self._matcher = matcher
        self._end_ids = end_ids
        self._require_sound()

    @property
    def is_whole(self) -> bool:
        """The answer keeps to the grammar, and nothing more may come."""
        return self._matcher.is_stopped()

    def take(self, token_id: int) -> None:
        """Go on by a token that was allowed."""
        if token_id not in self._end_ids:
            self._matcher.consume_token(token_id)
            self._require_sound()

    def find_allowed(self, vocabulary_size: int) -> NDArray[np.bool_]:
        """(V,), True where a token may come next; one of them does."""
        bits = allocate_token_bitmask(1, vocabulary_size)
        fill_next_token_bitmask(self._matcher, bits, 0)
        self._require_sound()
        allowed = np.unpackbits(bits.view(np.uint8)[0], count=vocabulary_size, bitorder="little").view(np.bool_)
        if not allowed.any():
            raise EngineError("its grammar allows the answer none of the model's tokens", code="grammar_failed")
        return allowed

    def _require_sound(self) -> None:
        if self._matcher.is_error():
            words = self._matcher.get_error().splitlines()[0]
            raise EngineError(f"the answer cannot be held to its grammar: {words[:300]}", code="grammar_failed")


OpenGuide = Callable[[str], Guide]


class _Words:
    """A tokenizer as llguidance reads one (`TokenizerWrapper`)."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, codec: TextCodec, end_id: int, vocabulary_size: int) -> None:
        self._codec = codec
        self.eos_token_id = end_id
        self.special_token_ids = sorted(index for index in codec.special_ids if index < vocabulary_size)
        spelled = [codec.bytes_of(index) for index in range(vocabulary_size)]
        self.tokens = [
            _NO_TEXT + (word or b"%d" % index) if index in codec.special_ids or not word else word
            for index, word in enumerate(spelled)
        ]
        self._by_bytes = {word: index for index, word in reversed([*enumerate(self.tokens)])}
        self._longest = max(map(len, self.tokens))

    def __call__(self, text: str) -> list[int]:
        """The tokens that write a text and nothing else: as the tokenizer has it where that is so, else the longest
        first."""
        found = self._codec.encode([text], add_special_tokens=False)[0]
        known = all(index < len(self.tokens) for index in found)
        if known and b"".join(self.tokens[index] for index in found) == text.encode():
            return found
        return self._split(text.encode())

    def _split(self, text: bytes) -> list[int]:
        found, start = [], 0
        while start < len(text):
            sizes = range(min(self._longest, len(text) - start), 0, -1)
            size = next((size for size in sizes if text[start : start + size] in self._by_bytes), 0)
            if not size:
                break  # the vocabulary cannot write it: the grammar then allows nothing, which is told
            found.append(self._by_bytes[text[start : start + size]])
            start += size
        return found
