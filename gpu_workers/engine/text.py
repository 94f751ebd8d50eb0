"""Render a chat template to token ids, encode text, and decode knowing which token wrote which characters."""

import codecs
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from gpu_workers.engine.checkpoint import read_json
from gpu_workers.engine.errors import InvalidRequestError, ModelUnreadableError

_NOW = "strftime_now"
_TOOLS = re.compile(r"\btools\b")
_MOST_WORDS = 500


class _GenerationMark(Extension):
    """`{% generation %}`: by it templates mark what the assistant wrote, for whoever trains on that; it writes nothing.

    Source:
        Hugging Face's `apply_chat_template(return_assistant_tokens_mask=True)`.
    """

    tags = {"generation"}  # jinja2 declares it for an instance

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TextCodec:
    """A model directory's tokenizer and chat template.

    Attributes:
        writes_date: the template writes the day on which it is rendered.
        takes_tools: the template has a place for tools.
    """

    def __init__(self, backend: Tokenizer, template: str | None, variables: Mapping[str, str]) -> None:
        """Raises ModelUnreadableError for a template that is none."""
        self._backend = backend
        self._variables = variables
        self._template = None
        self.writes_date = template is not None and _NOW in template
        self.takes_tools = template is not None and _TOOLS.search(template) is not None
        if template is not None:
            environment = ImmutableSandboxedEnvironment(
                trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationMark]
            )
            environment.filters["tojson"] = _to_json
            environment.globals["raise_exception"] = _refuse_messages
            try:
                self._template = environment.from_string(template)
            except TemplateSyntaxError as error:
                raise ModelUnreadableError(
                    f"the chat template cannot be read: line {error.lineno}: {error.message}"
                ) from error
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        self._special = [token.content for token in added.values() if token.special and token.content]
        self.token_bytes = _token_bytes(backend, {index: token.content for index, token in added.items()})

    @classmethod
    def from_directory(cls, directory: Path) -> "TextCodec":
        """Raises ModelUnreadableError unless the directory holds a tokenizer.json."""
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise ModelUnreadableError(f"{directory} holds no tokenizer.json")
        try:
            backend = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception for any unreadable file
            raise ModelUnreadableError(f"cannot read {path}: {error}") from error
        settings = read_json(config) if (config := directory / "tokenizer_config.json").is_file() else {}
        template = settings.get("chat_template")
        if (file := directory / "chat_template.jinja").is_file():
            template = file.read_text("utf-8")
        if isinstance(template, list):
            template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
        variables = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            value = settings.get(name)
            variables[name] = value.get("content", "") if isinstance(value, dict) else value or ""
        return cls(backend, template, variables)

    @property
    def size(self) -> int:
        return len(self.token_bytes)

    def encode(self, texts: Sequence[str], *, add_special_tokens: bool = True) -> list[list[int]]:
        return [
            list(found.ids) for found in self._backend.encode_batch(list(texts), add_special_tokens=add_special_tokens)
        ]

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] = MappingProxyType({}),
        at: datetime | None = None,
    ) -> str:
        """The conversation as the model's template writes it.

        Args:
            variables: what else the template is told, tools among them; they go before `add_generation_prompt`.
            at: when it is rendered, for templates that write the date; None: now.
        Raises:
            InvalidRequestError: the model has no template, or its template refuses these messages.
        """
        if self._template is None:
            raise InvalidRequestError("this model has no chat template; use /v1/completions", param="messages")
        moment = at or datetime.now(UTC)
        told = {"add_generation_prompt": add_generation_prompt, **variables, "messages": messages}
        try:
            return self._template.render(**{**self._variables, _NOW: moment.strftime, **told})
        except Exception as error:  # a template runs on whatever a caller sent
            words = f"the chat template refuses these messages: {str(error) or type(error).__name__}"
            raise InvalidRequestError(words[:_MOST_WORDS], param="messages") from error

    def bytes_of(self, token_id: int) -> bytes:
        """What a token writes; b"" for an id that only pads the vocabulary."""
        return self.token_bytes[token_id] if token_id < len(self.token_bytes) else b""

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        hidden = self.special_ids if skip_special else frozenset()
        return b"".join(self.bytes_of(token) for token in token_ids if token not in hidden).decode("utf-8", "replace")

    def drop_special(self, text: str) -> str:
        """The text without the special tokens that are written out in it."""
        for special in self._special:
            text = text.replace(special, "")
        return text

    @cached_property
    def _whole_pieces(self) -> Mapping[int, str]:
        """Token id -> its text, of those that write whole characters."""
        found = {}
        for token, spelled in enumerate(self.token_bytes):
            with contextlib.suppress(UnicodeDecodeError):
                found[token] = spelled.decode()
        return found

    def split_pieces(self, token_ids: Sequence[int]) -> list[str]:
        """One string a token, special ones included; joined they are exactly the text (see `PieceStream`)."""
        whole = [self._whole_pieces.get(token) for token in token_ids]
        if None not in whole:  # each is whole characters by itself: nothing to put together
            return [piece for piece in whole if piece is not None]
        pieces = PieceStream(self)
        last = len(token_ids) - 1
        return [pieces.push(token, is_last=index == last) for index, token in enumerate(token_ids)]


class PieceStream:
    """Names each token of one answer by the characters it completes.

    A character written by several tokens belongs to the last of them, so that joined pieces are exactly the text.
    """

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int, *, is_last: bool) -> str:
        return self._decoder.decode(self._codec.bytes_of(token_id), is_last)


class TextStream:
    """The text of one growing answer, released only as far as no stop string can still take it back."""

    def __init__(self, codec: TextCodec, stops: Sequence[str], *, skip_special: bool) -> None:
        self._codec = codec
        self._hidden = codec.special_ids if skip_special else frozenset()
        self._holds_back = max(map(len, stops), default=1) - 1
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._released = 0

    def push(self, token_id: int) -> str:
        """Add a token; the characters that are now certain."""
        if token_id not in self._hidden:
            self._text += self._decoder.decode(self._codec.bytes_of(token_id))
        end = max(self._released, len(self._text) - self._holds_back)
        released, self._released = self._text[self._released : end], end
        return released

    def finish(self, text: str) -> str:
        """The rest of the final text."""
        return text[self._released :]


def find_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Where the earliest stop string begins, and which it is."""
    found = [(index, stop) for stop in stops if (index := text.find(stop)) >= 0]
    return min(found) if found else None


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As Hugging Face's templates have it: their `tojson` escapes no HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse_messages(message: str) -> NoReturn:
    raise TemplateError(message)


def _token_bytes(backend: Tokenizer, added: Mapping[int, str]) -> list[bytes]:
    """What each token writes, by id; read off the tokenizer's own decoder."""
    vocabulary = {index: token for token, index in backend.get_vocab(with_added_tokens=True).items()}
    decoder = "" if backend.decoder is None else json.dumps(json.loads(backend.decoder.__getstate__()))
    size = max(vocabulary, default=-1) + 1
    if '"ByteLevel"' in decoder:
        spell = _spell_byte_level(_byte_letters())
    elif "\\u2581" in decoder or '"Metaspace"' in decoder:
        spell = _spell_metaspace
    else:
        spell = _spell_by_decoding(backend)
    return [
        added[index].encode() if index in added else spell(vocabulary[index]) if index in vocabulary else b""
        for index in range(size)
    ]


def _spell_byte_level(letters: Mapping[str, int]) -> Callable[[str], bytes]:
    return lambda token: bytes(letters[letter] for letter in token) if set(token) <= letters.keys() else token.encode()


def _spell_metaspace(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


def _spell_by_decoding(backend: Tokenizer) -> Callable[[str], bytes]:
    ids = backend.get_vocab(with_added_tokens=True)
    return lambda token: str(backend.decode([ids[token]], skip_special_tokens=False)).encode()


def _byte_letters() -> dict[str, int]:
    """The letter byte-level BPE writes for each byte, reversed (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    return letters | {chr(256 + index): byte for index, byte in enumerate(others)}
