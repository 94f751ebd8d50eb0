"""`python -m gpu_workers.model_making FILE.gguf --out DIR --template plain`: a GGUF file as a Hugging Face directory.

Weights become bfloat16 safetensors, whatever they were quantised to; tokenizer and config are read from the file too.
Without a file DIR is a model already. What it is and how fast it writes here goes to stdout as JSON.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

from gpu_workers.engine.checkpoint import Rope
from gpu_workers.engine.errors import EngineError
from gpu_workers.model_looking import look_at
from gpu_workers.process import prepare_process

PLAIN = """\
{{- bos_token -}}
{%- if tools -%}
{{- 'Tools, each used by writing <call>its name {its arguments}</call>:\\n' -}}
{%- for tool in tools -%}
{{- tool.function | tojson + '\\n' -}}
{%- endfor -%}
{{- '\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{- message.content | trim -}}
{%- elif message.role == 'assistant' -%}
{{- 'Assistant: ' + (message.content or '') | trim -}}
{%- for call in message.tool_calls or [] -%}
{{- (' ' if message.content or not loop.first else '') + '<call>' + call.function.name + ' ' -}}
{{- call.function.arguments | tojson + '</call>' -}}
{%- endfor -%}
{%- elif message.role == 'tool' -%}
{{- 'Result: ' + (message.content or '') | trim -}}
{%- else -%}
{{- 'User: ' + (message.content or '') | trim -}}
{%- endif -%}
{{- END_OF_TURN -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- 'Assistant:' -}}
{%- endif -%}
"""
"""For a model that only goes on with text: turns by name, a blank line between them, as in a play. Tools stand before
them, calls as the built-in models write theirs."""
KEEP, PLAIN_TEMPLATE = "keep", "plain"
TEMPLATES = (KEEP, PLAIN_TEMPLATE, "none")
BLANK_LINE = "\n\n"
TEMPLATE_FIELD = "tokenizer.chat_template"
ROPE_FREQS, LONG_FACTORS = "rope_freqs.weight", "rope_factors_long.weight"
LLAMA_3_LOW, LLAMA_3_HIGH, LLAMA_3_CONTEXT = 1.0, 4.0, 8192
"""Of every Llama 3.1, 3.2 and 3.3; their factors differ."""


class MakingError(ValueError):
    """The file cannot be made a model; the message says what was wanted and what was found."""


def make_from_gguf(file: Path, out: Path, *, template: str) -> None:
    """Write a GGUF file as a directory that any Hugging Face program loads.

    Args:
        template: "keep" takes the file's own chat template and refuses a file without; "none" takes such a file too;
            "plain" is ours; else a file with one.
    Raises:
        MakingError: it is no whole GGUF file, of an architecture or a type of weights that cannot be read, or without
            a chat template; or it stretches positions in a way that the directory could not say.
    """
    place, name = str(file.parent), file.name
    try:
        header = _read_header(file)
    except Exception as error:  # the reader raises anything for what is no such file
        raise _cannot_read(name, error) from error
    if not header.has_template and template == KEEP:
        raise MakingError(f"{name} holds no chat template: say which, `plain` for a model that only goes on with text")
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            place, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(place, gguf_file=name)
    except Exception as error:  # the readers raise anything for what is no model
        raise _cannot_read(name, error) from error
    _carry_stretch(header, model.config, name)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_template(out, template)


def _cannot_read(name: str, error: Exception) -> MakingError:
    return MakingError(f"{name} cannot be read as a model: {' '.join(str(error).split()) or type(error).__name__}")


class _Header(NamedTuple):
    """What is wanted of a GGUF file before its weights are read, and how it stretches positions: Hugging Face's
    reader drops that.

    Args:
        kind: of stretching: "none", "linear", "yarn" or "longrope".
        divisors: of the frequencies, one each; None: it holds none.
    """

    has_template: bool
    architecture: str
    kind: str
    factor: float
    divisors: Tensor | None


def _read_header(file: Path) -> _Header:
    import gguf

    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()

    def read(name: str, default: Any) -> Any:
        field = reader.fields.get(f"{architecture}.rope.{name}")
        return default if field is None else field.contents()

    tensors = {one.name: one for one in reader.tensors}
    freqs = tensors.get(ROPE_FREQS)
    factor = float(read("scaling.factor", read("scale_linear", 1.0)))
    kind = str(read("scaling.type", "longrope" if LONG_FACTORS in tensors else "linear"))
    template = reader.fields.get(TEMPLATE_FIELD)
    return _Header(
        template is not None and bool(template.contents()),
        architecture,
        "none" if kind == "linear" and factor in (0.0, 1.0) else kind,
        factor,
        None if freqs is None else torch.from_numpy(freqs.data.astype("float32")),
    )


def _carry_stretch(stretch: _Header, config: Any, name: str) -> None:
    """Write into a config what a GGUF file keeps elsewhere. llama.cpp has Llama 3's way as divisors alone.

    Raises:
        MakingError: the config would say something else than the file.
    """
    told = deepcopy(getattr(config, "rope_parameters", None) or {})
    if stretch.kind == "linear" and told:  # of a model with windows the layers without one alone are stretched
        told.get("full_attention", told).update(rope_type="linear", factor=stretch.factor)
        config.rope_parameters = told
    elif stretch.kind != "none" and (told.get("rope_type"), told.get("factor")) != (stretch.kind, stretch.factor):
        raise MakingError(
            f"{name} stretches positions ({stretch.kind}, by {stretch.factor:g}), which is lost when a "
            f"{stretch.architecture} file is read: take the model's safetensors instead"
        )
    if stretch.divisors is None or bool((stretch.divisors == 1).all()):
        return
    factor, width = float(stretch.divisors.max()), 2 * len(stretch.divisors)
    plain = Rope(float(told.get("rope_theta") or 10_000.0))
    rope = Rope(plain.theta, factor, LLAMA_3_LOW, LLAMA_3_HIGH, LLAMA_3_CONTEXT)
    found = plain.frequencies(width) / rope.frequencies(width)
    if stretch.architecture != "llama" or not torch.allclose(found, stretch.divisors, rtol=1e-3):
        raise MakingError(
            f"{name} divides the frequencies of a {stretch.architecture} model's positions by {ROPE_FREQS} in another "
            "way than Llama 3 does: take the model's safetensors instead"
        )
    config.rope_parameters = {
        "rope_type": "llama3",
        "rope_theta": rope.theta,
        "factor": factor,
        "low_freq_factor": LLAMA_3_LOW,
        "high_freq_factor": LLAMA_3_HIGH,
        "original_max_position_embeddings": LLAMA_3_CONTEXT,
    }


def write_template(directory: Path, template: str) -> None:
    """Give a model directory a chat template: the plain one, or a file's; `keep` and `none` change nothing.

    Raises:
        MakingError: the file cannot be read.
    """
    if template == PLAIN_TEMPLATE:
        write_plain_template(directory)
    elif template not in TEMPLATES:
        try:
            text = Path(template).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise MakingError(f"wanted a file with a chat template, found {template}: {error}") from error
        (directory / "chat_template.jinja").write_text(text, encoding="utf-8")


def write_plain_template(directory: Path) -> None:
    """Give a directory the plain template, and have a turn end as the tokenizer can say it.

    Where a blank line is one token, whatever stands before it, that ends an answer too: a model that only goes on with
    text writes it by itself, and never the token that ends a text. Answers are then one paragraph long.
    """
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    written = [
        tokenizer.encode(f"User:{end}{BLANK_LINE}User:", add_special_tokens=False).ids for end in (" a", ".", "!")
    ]
    blank = tokenizer.encode(BLANK_LINE, add_special_tokens=False).ids
    is_one = len(blank) == 1 and all(blank[0] in ids for ids in written)
    end = "'\\n\\n'" if is_one else "(eos_token if message.role == 'assistant' else '') + '\\n\\n'"
    (directory / "chat_template.jinja").write_text(PLAIN.replace("END_OF_TURN", end), encoding="utf-8")
    if is_one:
        path = directory / "generation_config.json"
        told = json.loads(path.read_bytes()) if path.is_file() else {}
        ends = told.get("eos_token_id", json.loads((directory / "config.json").read_bytes()).get("eos_token_id"))
        ends = [] if ends is None else ends if isinstance(ends, list) else [ends]
        path.write_text(json.dumps(told | {"eos_token_id": [*ends, blank[0]]}, indent=2) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 made, 1 it cannot be; why is the last line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.model_making")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--template", default=KEEP, help=f"{', '.join(TEMPLATES)}, or a file with one")
    options = parser.parse_args(argv)
    prepare_process()
    try:
        if options.file is not None:
            make_from_gguf(options.file, options.out, template=options.template)
        else:
            write_template(options.out, options.template)
        facts = look_at(options.out)
    except (MakingError, EngineError) as error:
        sys.stderr.write(f"model: {' '.join(str(error).split())}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(facts)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
