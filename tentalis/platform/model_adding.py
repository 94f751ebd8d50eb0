"""Keep a model that lies on this machine: a directory as Hugging Face writes it, or a GGUF file.

It is copied, looked over before anything reads it, then read and tried out by the training side's own program.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tentalis.core.model_facts import ModelFacts
from tentalis.core.sizes import say_bytes
from tentalis.kept_models import (
    NO_TEMPLATE,
    KeptModel,
    KeptModelError,
    has_chat_template,
    hash_files,
    list_weight_files,
    look_over,
    models_directory,
    require_name,
    write_facts,
    write_manifest,
)
from tentalis.platform.home import PRIVATE_DIRECTORY_MODE
from tentalis.platform.logs import find_last_words
from tentalis.platform.stack import LARGE_PAGES, ONE_THREAD, PROJECT_DIRECTORY

Say = Callable[[str], None]
GGUF: Final = ".gguf"
KEEP: Final = "keep"
"""The template that the model has."""
COPIED: Final = (".json", ".jinja", ".txt", ".model", ".md", ".safetensors")
PAPERS: Final = ("LICENSE", "LICENCE", "NOTICE", "USE_POLICY")
WIDER: Final = 8
"""A GGUF file of 2 bits a weight becomes so many times as large as bfloat16."""
_LICENCE: Final = re.compile(r"^license(?:_name)?:[ \t]*(\S.*)$", re.MULTILINE)
_CARD_BYTES: Final = 2**16


def add_model(
    home: Path, path: Path, *, name: str, template: str = "", licence: str = "", sha256: str = "", say: Say
) -> Path:
    """Copy or convert, look over, try out; its directory in the home.

    Args:
        template: where the chat template is: "" the model's own, `none`, `plain`, or a file.
        licence: under which it stands; "": what its papers say.
        sha256: that its weights must have; "": nobody knows.
    Raises:
        KeptModelError: it is no model that can be served and trained on, in words. Nothing is left.
    """
    path = path.expanduser().absolute()
    if path.suffix == GGUF and path.is_file():
        return _add_gguf(home, path, name=name, template=template, licence=licence, sha256=sha256, say=say)
    if not path.is_dir():
        raise KeptModelError(f"wanted a model's directory or a file {GGUF}, found {_say_what(path)}")
    require_fit(path, template)
    weights = list_weight_files(path)
    found = hash_files(weights)
    if sha256 and found != sha256.lower():
        raise KeptModelError(f"wanted weights of sha256 {sha256.lower()}, found {found}")
    files = list_copied(path)
    with staged_model(home, name, needs_bytes=sum(file.stat().st_size for file in files)) as (staging, _):
        say(f"copying {len(files)} files")
        for file in files:
            shutil.copyfile(file, staging / file.name)
        finish_model(
            staging,
            source=f"directory {path}",
            source_sha256=found,
            template=template,
            licence=licence or read_licence(path),
            say=say,
        )
    return models_directory(home) / name


def finish_model(
    staging: Path, *, source: str, source_sha256: str, template: str, licence: str, say: Say
) -> ModelFacts:
    """Give a staged directory its template, have it tried out, and write its manifest."""
    say("reading it and trying it out")
    facts = make_model(None, staging, template=template or KEEP)
    write_manifest(
        staging,
        source=source,
        source_sha256=source_sha256,
        licence=licence,
        template=say_template(template),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        facts=facts,
    )
    return facts


def require_fit(directory: Path, template: str) -> None:
    """Raises KeptModelError where a directory is no model that can be served, naming all that it lacks."""
    faults = look_over(directory)
    if not template and not has_chat_template(directory):
        faults.append(
            "no chat template (wanted chat_template.jinja, or one in tokenizer_config.json): workers of the kind chat "
            "need one; `--chat-template FILE` gives it one, `--chat-template plain` one for a model that only goes on "
            "with text, and `--chat-template none` keeps it without for workers whose kind writes its own prompts, as "
            "desk does"
        )
    if faults:
        raise KeptModelError(f"{directory} cannot be kept as a model: {'; '.join(faults)}")


def measure_again(model: KeptModel) -> ModelFacts:
    """Try a kept model out once more, and put what was seen into its manifest.

    Raises:
        KeptModelError: it does not write.
    """
    facts = make_model(None, model.directory, template=KEEP)
    write_facts(model, facts)
    return facts


def _add_gguf(home: Path, path: Path, *, name: str, template: str, licence: str, sha256: str, say: Say) -> Path:
    found = hash_files([path])
    if sha256 and found != sha256.lower():
        raise KeptModelError(f"wanted a file of sha256 {sha256.lower()}, found {found}")
    with staged_model(home, name, needs_bytes=WIDER * path.stat().st_size) as (staging, _):
        say("writing it out as bfloat16 and trying it out (minutes for a large one)")
        facts = make_model(path, staging, template=template or KEEP)
        write_manifest(
            staging,
            source=f"file {path}",
            source_sha256=found,
            licence=licence,
            template=say_template(template),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=facts,
        )
    return models_directory(home) / name


def say_template(template: str) -> str:
    told = {"": "the model's own", NO_TEMPLATE: NO_TEMPLATE, "plain": "ours (plain): it has none"}
    return told.get(template, f"file {template}")


def _say_what(path: Path) -> str:
    if not path.exists():
        return f"nothing at {path}"
    return f"the file {path}" if path.is_file() else str(path)


def list_copied(directory: Path) -> list[Path]:
    """What of a model's directory is kept: its weights, its small files and its papers; no code, nothing pickled."""
    return [
        path
        for path in sorted(directory.iterdir())
        if path.is_file()
        and not path.name.startswith(".")
        and (path.suffix in COPIED or path.name.upper().startswith(PAPERS))
    ]


def read_licence(directory: Path) -> str:
    """What its card says, or which of its papers does; "" where nothing does."""
    card = directory / "README.md"
    if card.is_file():
        with card.open("rb") as file:
            text = file.read(_CARD_BYTES).decode("utf-8", "replace")
        if text.startswith("---") and (told := _LICENCE.search(text.split("\n---", 1)[0])):
            return told[1].strip().strip("\"'")
    return next((f"see {path.name}" for path in list_copied(directory) if path.name.upper().startswith(PAPERS)), "")


@contextmanager
def staged_model(home: Path, name: str, *, needs_bytes: int = 0) -> Iterator[tuple[Path, Path]]:
    """(a directory that becomes the model's at the end, a directory for what goes), unless the body raises.

    Raises:
        KeptModelError: the name is unfit or taken, or the disk too full.
    """
    root = models_directory(home)
    final = root / require_name(name)
    if final.exists():
        raise KeptModelError(f"a model {name!r} is kept at {final} already; `tentalis model remove {name}` removes it")
    root.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
    free = shutil.disk_usage(root).free
    if free < needs_bytes:
        raise KeptModelError(f"{root} needs {say_bytes(needs_bytes)} free, found {say_bytes(free)}")
    place = root / f".staging-{os.getpid()}"
    try:
        shutil.rmtree(place, ignore_errors=True)
        staging, scratch = place / "model", place / "scratch"
        for directory in (place, staging, scratch):
            directory.mkdir(mode=PRIVATE_DIRECTORY_MODE)
        yield staging, scratch
        for path in staging.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        staging.rename(final)
    except OSError as error:
        raise KeptModelError(f"{place} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def make_model(file: Path | None, out: Path, *, template: str) -> ModelFacts:
    """Have the training machine's own program write the directory and try it out: torch is not loaded here.

    Args:
        file: GGUF that is written out; None where the directory is a model already.
    Raises:
        KeptModelError: it cannot be read as a model; the program's own words.
    """
    argv = [sys.executable, "-m", "gpu_workers.model_making", *([str(file)] if file else [])]
    argv += ["--out", str(out), "--template", template]
    environment = ONE_THREAD | LARGE_PAGES | dict(os.environ) | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(argv, env=environment, cwd=PROJECT_DIRECTORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = find_last_words(done.stderr).removeprefix("model: ").replace(f"{out}/", "").replace(str(out), "it")
        raise KeptModelError(why or f"reading it ended with {done.returncode}")
    return ModelFacts(**json.loads(done.stdout.strip().splitlines()[-1]))
