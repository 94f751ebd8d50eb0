"""Fetch a model from the Hugging Face hub, or a mirror of it (`HF_ENDPOINT`), by its name there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tentalis.core.sizes import say_bytes
from tentalis.kept_models import KeptModelError, hash_files, models_directory, write_manifest
from tentalis.platform.model_adding import (
    COPIED,
    GGUF,
    KEEP,
    PAPERS,
    WIDER,
    Say,
    finish_model,
    make_model,
    require_fit,
    say_template,
    staged_model,
)

DEFAULT_ENDPOINT: Final = "https://huggingface.co"


@dataclass(frozen=True)
class HubFile:
    """Args: sha256: of a large file, as the hub says; "" of a small one."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class HubModel:
    """A model as the hub tells of it.

    Args:
        revision: the commit, so that what was agreed to is what is fetched.
        licence: "" where its card names none.
        files: what is fetched.
    """

    name: str
    revision: str
    licence: str
    address: str
    files: tuple[HubFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def terms(self) -> str:
        licence = self.licence or "a licence that its card does not name: read there what you may do with it"
        return (
            f"{self.name} at {self.revision[:12]}: {len(self.files)} files, {say_bytes(self.size_bytes)}.\n"
            f"Its licence: {licence}\nIts terms: {self.address}\n"
            "What you train from it may stand under the same terms."
        )


def find_on_hub(name: str, *, revision: str = "", file: str = "") -> HubModel:
    """Ask the hub what there is.

    Args:
        revision: branch, tag or commit; "": the newest.
        file: the one GGUF file that is wanted; "": the safetensors with all beside them.
    Raises:
        KeptModelError: the hub cannot be reached, knows no such model or file, or does not let us have it.
    """
    with _wording(name):
        info: Any = open_hub().model_info(name, revision=revision or None, files_metadata=True)
    files = tuple(
        HubFile(one.rfilename, one.size or 0, (one.lfs.sha256 if one.lfs else "") or "") for one in info.siblings
    )
    wanted = tuple(one for one in files if _is_wanted(one.name, file))
    if file and not any(one.name == file for one in wanted):
        there = ", ".join(one.name for one in files if one.name.endswith(GGUF)) or "none"
        raise KeptModelError(f"{name} has no file {file!r}; its GGUF files: {there}")
    if not file and not any(one.name.endswith(".safetensors") for one in wanted):
        there = ", ".join(one.name for one in files if one.name.endswith((GGUF, ".bin", ".pt")))
        raise KeptModelError(
            f"{name} has no *.safetensors; found {there or 'no weights'}: `--file NAME.gguf` fetches a GGUF file, "
            "pickled weights are never loaded"
        )
    card = info.card_data.to_dict() if info.card_data else {}
    told = [str(card[key]) for key in ("license_name", "license", "license_link") if card.get(key)]
    return HubModel(name, info.sha or revision, ", ".join(told), f"{find_endpoint()}/{name}", wanted)


def fetch_from_hub(home: Path, model: HubModel, *, name: str, template: str, say: Say) -> Path:
    """Fetch what was found, compare each large file with the hash that the hub told, and keep it.

    Raises:
        KeptModelError: it cannot be fetched, is not what the hub said, or no model that can be served. Nothing is left.
    """
    is_gguf = any(file.name.endswith(GGUF) for file in model.files)
    needs = model.size_bytes * (1 + (WIDER if is_gguf else 1))
    with staged_model(home, name, needs_bytes=needs) as (staging, scratch):
        hub = open_hub()
        for number, file in enumerate(model.files, start=1):
            say(f"fetching {number} of {len(model.files)}: {file.name}, {say_bytes(file.size_bytes)}")
            with _wording(model.name):
                path = Path(hub.hf_hub_download(model.name, file.name, revision=model.revision, local_dir=scratch))
            if file.sha256 and (found := hash_files([path])) != file.sha256:
                raise KeptModelError(f"{file.name}: wanted a file of sha256 {file.sha256}, found {found}")
            path.rename((scratch if file.name.endswith(GGUF) else staging) / path.name)
        source = f"{find_endpoint()}/{model.name} at {model.revision}"
        sums = [file.sha256 for file in model.files if file.sha256]
        told: dict[str, Any] = {"source": source, "licence": model.licence}
        told["source_sha256"] = sums[0] if len(sums) == 1 else ""
        if is_gguf:
            (whole,) = scratch.glob(f"*{GGUF}")
            say("writing it out as bfloat16 and trying it out (minutes for a large one)")
            facts = make_model(whole, staging, template=template or KEEP)
            made_at = datetime.now(UTC).isoformat(timespec="seconds")
            write_manifest(staging, **told, template=say_template(template), made_at=made_at, facts=facts)
        else:
            require_fit(staging, template)
            finish_model(staging, **told, template=template, say=say)
    return models_directory(home) / name


def _is_wanted(name: str, file: str) -> bool:
    """Files of the top alone: others are further forms of the same weights."""
    path = PurePosixPath(name)
    if file:
        return name == file
    return len(path.parts) == 1 and (path.suffix in COPIED or path.name.upper().startswith(PAPERS))


def find_endpoint() -> str:
    """The address of the hub, as the environment says it."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def open_hub() -> Any:
    """Its client. Raises KeptModelError: it is not installed."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise KeptModelError("the hub's client is not installed: pip install huggingface_hub") from None
    return HfApi(endpoint=find_endpoint(), library_name="tentalis")


@contextmanager
def _wording(name: str) -> Iterator[None]:
    """What the hub's client raises, as words on the model that was asked for."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub = find_endpoint()
    try:
        yield
    except KeptModelError:
        raise
    except GatedRepoError:
        raise KeptModelError(
            f"{name} is given to those alone who agreed to its terms at {hub}/{name}: agree there, then set "
            "HF_TOKEN to a token of yours"
        ) from None
    except RepositoryNotFoundError:
        raise KeptModelError(f"{hub} knows no model {name!r}, or shows it to others alone (HF_TOKEN)") from None
    except RevisionNotFoundError:
        raise KeptModelError(f"{name} has no such revision") from None
    except HFValidationError as error:
        raise KeptModelError(f"a name on the hub is like Qwen/Qwen3-0.6B; found {name!r}: {error}") from None
    except HfHubHTTPError as error:
        raise KeptModelError(f"{hub} refused: {' '.join(str(error).split())[:300]}") from None
    except Exception as error:  # the client raises whatever its transport does
        raise KeptModelError(
            f"{hub} cannot be reached ({type(error).__name__}: {' '.join(str(error).split())[:200]}): fetching "
            "by name takes a network; `tentalis model add PLACE` takes a directory or a GGUF file that you bring"
        ) from error
