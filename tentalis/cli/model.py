"""Models kept on this machine, and model servers: set up, tried out, priced."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tentalis.cli import kept_model
from tentalis.cli.output import AsJson, Project, print_json, print_result, print_row, print_rows, to_printable
from tentalis.cli.session import choose_project, find_by_name, list_rows, open_client

if TYPE_CHECKING:
    from tentalis.client import Client, Json

app = typer.Typer(no_args_is_help=True)
app.command()(kept_model.get)
app.command()(kept_model.add)
app.command("list")(kept_model.list_kept)
app.command()(kept_model.check)
app.command()(kept_model.remove)
app.command()(kept_model.sizes)

KEY_VARIABLE = "MODEL_API_KEY"
Name = Annotated[str, typer.Argument(help="Name or number of a model server.")]
KeyEnv = Annotated[str, typer.Option("--key-env", help=f"Variable that holds the key; default: {KEY_VARIABLE}.")]
AllowPrivate = Annotated[
    bool | None,
    typer.Option("--allow-private/--no-allow-private", help="Loopback and private addresses; takes an admin."),
]
BaseUrl = Annotated[str, typer.Option("--url", help="Its address; default: where the kind's vendor serves it.")]
MoreUrls = Annotated[list[str] | None, typer.Option("--more-url", help="Serves the same models; repeatable.")]
Model = Annotated[str, typer.Option("--model", "-m", help="What is asked where nothing else is said.")]


@app.command()
def setup(
    name: Annotated[str, typer.Argument(help="What you call it; asked for if not given.")] = "",
    kind: Annotated[str, typer.Option("--kind", "-k", help="Asked for if not given; see `model kinds`.")] = "",
    url: BaseUrl = "",
    more_url: MoreUrls = None,
    model: Model = "",
    key_env: KeyEnv = "",
    no_key: Annotated[bool, typer.Option("--no-key", help="It wants none: do not ask.")] = False,
    allow_private: AllowPrivate = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="For the projects you grant it to (`model grant`); takes an admin.")
    ] = False,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="For every project; takes an admin.")] = False,
    no_test: Annotated[bool, typer.Option("--no-test", help="Do not try it out.")] = False,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Add a model server and try it out. The key is asked for, or read from a variable: it is never an argument."""
    with open_client() as client:
        kinds = {row["kind"]: row for row in client.send(_call("GET", "providers/kinds"))["kinds"]}
        row = kinds.get(kind) or _ask_kind(kinds, kind)
        name = name or _ask("Name", row["kind"])
        url = url or row["base_url"] or _ask("Address (like http://host:8000)", "")
        if url == row["base_url"] and row["is_local"] and allow_private is None:
            typer.echo(f"{url} is a private address: an admin allows it with --allow-private.", err=True)
        body: dict[str, Any] = {
            "project": None if shared or everywhere else choose_project(client, project),
            **({"granted_to": "everyone"} if everywhere else {}),
            "name": name,
            "kind": row["kind"],
            "base_url": url,
            "more_urls": more_url or [],
            "default_model": model,
            "api_key": "" if no_key else _read_key(key_env, row),
        }
        if allow_private is not None:
            body["allow_private"] = allow_private
        provider = client.send(_call("POST", "providers", body))
        if not as_json:
            typer.echo(f"{provider['name']} is added: {provider['base_url']}")
        probe = None if no_test else _test(client, provider, "")
    if as_json:
        print_json(provider | {"probe": probe})
    elif probe is not None:
        _print_probe(probe)
        if not probe["ok"]:
            typer.echo(
                f"It is kept all the same: `tentalis model change {name} --help` tells how to mend it, "
                f"`tentalis model test {name}` tests it again."
            )
    if probe is not None and not probe["ok"]:
        raise typer.Exit(1)


@app.command("servers")
def list_providers(project: Project = "", as_json: AsJson = False) -> None:
    """List model servers and how their last test went."""
    with open_client() as client:
        rows = list_rows(client, _list_providers(client), project=project)
    for row in rows:
        probe = row["probe"]
        row["tested"] = "never" if probe is None else "answers" if probe["ok"] else probe["fault"]
        row["trains"] = None if probe is None else probe["can_train"]
    columns = ("id", "project", "name", "kind", "base_url", "default_model", "has_api_key", "tested", "trains")
    print_rows(rows, columns, as_json=as_json, empty="no model servers: `tentalis model setup` adds one")


@app.command()
def show(name: Name, project: Project = "", as_json: AsJson = False) -> None:
    """Show a model server."""
    with open_client() as client:
        provider = find_provider(client, name, project)
    probe = provider["probe"]
    print_row(provider, as_json=as_json, skip={"probe"})
    if probe and not as_json:
        _print_probe(probe)


@app.command()
def change(
    name: Name,
    rename: Annotated[str, typer.Option("--rename", help="Another name.")] = "",
    url: Annotated[str, typer.Option("--url", help="Another address; at a new origin the key goes away.")] = "",
    more_url: MoreUrls = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Default model.")] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Give it another key: asked for, or --key-env.")] = False,
    key_env: KeyEnv = "",
    allow_private: AllowPrivate = None,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Whether it may be asked.")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", min=0.001, help="Longest silence in seconds.")] = None,
    requests: Annotated[
        int | None, typer.Option("--requests-per-minute", min=0, help="Of all who ask it together; 0: no limit.")
    ] = None,
    tokens: Annotated[int | None, typer.Option("--tokens-per-minute", min=0, help="The same in tokens.")] = None,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Change a model server."""
    changes = {
        "name": rename or None,
        "base_url": url or None,
        "more_urls": more_url,
        "default_model": model,
        "allow_private": allow_private,
        "is_active": on,
        "timeout_s": timeout_s,
        "api_key": _read_key(key_env, {}) if new_key or key_env else None,
    }
    body: dict[str, Any] = {field: value for field, value in changes.items() if value is not None}
    limits = {"requests_per_minute": requests, "tokens_per_minute": tokens}
    body |= {field: limit or None for field, limit in limits.items() if limit is not None}
    if not body:
        raise typer.BadParameter("say what changes: --url, --model, --new-key, --allow-private…")
    with open_client() as client:
        provider = find_provider(client, name, project)
        changed = client.send(_call("PATCH", f"providers/{provider['id']}", body))
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"{changed['name']} is changed")
        if provider["has_api_key"] and not changed["has_api_key"]:
            typer.echo("Its key is gone: it was not given for this address. `--new-key` gives one.", err=True)


@app.command()
def swap(
    worker: Annotated[str, typer.Argument(help="Name or number of a worker.")],
    name: Name,
    model: Model = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Have a worker ask another model server."""
    from tentalis.cli.worker import find_worker

    with open_client() as client:
        row = find_worker(client, worker, project)
        provider = find_provider(client, name, project or row["project"])
        base = model or provider["default_model"]
        changes = {"provider": provider["name"]} | ({"base_model": base} if base else {})
        changed = client.change_worker(row["id"], **changes)
    print_result(changed, f"{changed['name']} asks {provider['name']}{f' for {base}' if base else ''}", as_json=as_json)


@app.command("unset")
def remove_provider(name: Name, project: Project = "") -> None:
    """Remove a model server that no worker uses."""
    with open_client() as client:
        provider = find_provider(client, name, project)
        client.send(_call("DELETE", f"providers/{provider['id']}"))
    typer.echo(f"{provider['name']} is removed")


@app.command("test")
def try_out(
    name: Name,
    model: Annotated[str, typer.Option("--model", "-m", help="Which model to ask; default: its own.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Ask a model server a few small questions and say what they showed; exit 1 where it does not answer."""
    with open_client() as client:
        probe = _test(client, find_provider(client, name, project), model)
    if as_json:
        print_json(probe)
    else:
        _print_probe(probe)
    if not probe["ok"]:
        raise typer.Exit(1)


@app.command()
def grant(
    name: Name,
    to: Annotated[str, typer.Argument(help="Slug of the project that may ask it.")],
    tokens_per_day: Annotated[int, typer.Option("--tokens-per-day", min=0, help="At most; 0: no limit.")] = 0,
    usd_per_month: Annotated[
        float, typer.Option("--usd-per-month", min=0, help="At most, by the prices known; 0: no limit.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Let a project ask a shared model server, or change how much it may; takes an admin."""
    allowed = {"tokens_per_day": tokens_per_day or None, "usd_per_month": usd_per_month or None}
    with open_client() as client:
        provider = find_provider(client, name, "")
        found = list(client.iterate(_list_grants(client), provider=provider["id"], project=to))
        if found:
            made = client.send(_call("PATCH", f"provider-grants/{found[0]['id']}", allowed))
        else:
            body = {"provider": provider["id"], "project": to} | allowed
            made = client.send(_call("POST", "provider-grants", body))
    print_result(made, f"{made['project']} may ask {made['provider_name']}", as_json=as_json)


@app.command()
def revoke(name: Name, to: Annotated[str, typer.Argument(help="Slug of the project that may ask it no more.")]) -> None:
    """Take back a project's grant for a shared model server; takes an admin."""
    with open_client() as client:
        provider = find_provider(client, name, "")
        found = list(client.iterate(_list_grants(client), provider=provider["id"], project=to))
        if not found:
            raise typer.BadParameter(f"{provider['name']} is not granted to {to}")
        client.send(_call("DELETE", f"provider-grants/{found[0]['id']}"))
    typer.echo(f"{to} may ask {provider['name']} no more")


@app.command()
def grants(
    name: Annotated[str, typer.Argument(help="Name or number of a shared model server; default: all.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """List which projects may ask shared model servers, how much, and what they used."""
    with open_client() as client:
        provider = find_provider(client, name, "")["id"] if name else None
        rows = list_rows(client, _list_grants(client), provider=provider, project=project)
    if not as_json:
        rows = [{**row, **row["used"]} for row in rows]
    columns = ("id", "provider_name", "project", "tokens_per_day", "tokens_today", "usd_per_month", "usd_this_month")
    print_rows(rows, columns, as_json=as_json, empty="no grants: `tentalis model grant SERVER PROJECT` makes one")


@app.command()
def kinds(as_json: AsJson = False) -> None:
    """List the kinds of model servers there are."""
    with open_client() as client:
        rows = client.send(_call("GET", "providers/kinds"))["kinds"]
    columns = ("kind", "label", "base_url", "tells_tokens", "key_url")
    print_rows(rows, columns, as_json=as_json, empty="no kinds")


@app.command()
def prices(
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="model=input,output[,cached] in US dollars a million tokens; repeatable."),
    ] = None,
    provider: Annotated[str, typer.Option("--provider", help="Of this model server.")] = "",
    kind: Annotated[str, typer.Option("--kind", "-k", help="Of this kind everywhere; takes an admin.")] = "",
    remove: Annotated[int, typer.Option("--remove", min=0, help="Number of a price to take back.")] = 0,
    source: Annotated[str, typer.Option("--source", help="Where it was read.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """List what models cost, or set it from now on."""
    from tentalis.client.endpoints import Call

    if set_ and bool(provider) == bool(kind):
        raise typer.BadParameter("say whose price it is: --provider or --kind")
    wanted = [_read_price(text) for text in set_ or ()]
    with open_client() as client:
        owner: dict[str, Any] = {"kind": kind} if kind else {}
        if provider:
            owner = {"provider": find_provider(client, provider, project)["id"]}
        if remove:
            client.send(_call("DELETE", f"prices/{remove}"))
        for price in wanted:
            client.send(_call("POST", "prices", price | owner | ({"source": source} if source else {})))
        rows = list(client.iterate(lambda **params: client.send(Call("GET", "prices", params)), **owner))
    columns = ("id", "provider", "kind", "model", "input", "cached_input", "output", "valid_from", "source")
    print_rows(rows, columns, as_json=as_json, empty="no prices but those the product was shipped with")


@app.command()
def cost(
    days: Annotated[int, typer.Option(min=1, max=3660, help="How far back.")] = 30,
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Show what a project paid for models, judges and AI managers included."""
    from tentalis.client.endpoints import Call

    with open_client() as client:
        bill = client.send(Call("GET", "metrics/cost", {"project": choose_project(client, project), "days": days}))
    if as_json:
        print_json(bill)
        return
    rows = [{"for": line["turn"], "model": line["model"], **line["cost"]} for line in bill["lines"]]
    print_rows(
        [*rows, {"for": "all", **bill["total"]}],
        ("for", "model", "usd", "exchanges", "unpriced", "prompt_tokens", "completion_tokens"),
        as_json=False,
        empty="nothing",
    )


@app.command("rotate-keys")
def rotate_keys(as_json: AsJson = False) -> None:
    """Seal every stored key anew with the newest key of the ring; takes an admin. `manage.py rotate_keys` makes one."""
    with open_client() as client:
        done = client.send(_call("POST", "providers/rotate-keys", {}))
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done['renewed']} secrets are sealed anew with key {done['key_id']}")
        for row in done["unreadable"]:
            typer.echo(f"{row}: no key of the ring opens its secret; give it again", err=True)


def find_provider(client: "Client", name: str, project: str) -> "Json":
    """A model server by number, or by name where that is unique. Raises typer.BadParameter where it is not."""
    if name.isdigit():
        return client.send(_call("GET", f"providers/{name}"))
    return find_by_name(list_rows(client, _list_providers(client), name=name, project=project), name, "model server")


def _list_providers(client: "Client") -> Any:
    from tentalis.client.endpoints import Call

    return lambda **params: client.send(Call("GET", "providers", params))


def _list_grants(client: "Client") -> Any:
    from tentalis.client.endpoints import Call

    return lambda **params: client.send(Call("GET", "provider-grants", params))


def _call(verb: str, path: str, body: "Json | None" = None) -> Any:
    from tentalis.client.endpoints import Call

    return Call(verb, path, body=body)


def _test(client: "Client", provider: "Json", model: str) -> "Json":
    return client.send(_call("POST", f"providers/{provider['id']}/test", {"model": model}))


def _ask(question: str, default: str) -> str:
    """A line from a person. Raises typer.BadParameter where none is there to answer."""
    if not _is_interactive():
        raise typer.BadParameter(f"nobody is here to be asked: give the {question.split(' ')[0].lower()} by option")
    answer: str = typer.prompt(question, default=default or None)
    return answer


def _ask_kind(kinds: "dict[str, Json]", given: str) -> "Json":
    if given:
        raise typer.BadParameter(f"no kind {given!r}; there are {', '.join(kinds)}")
    if not _is_interactive():
        raise typer.BadParameter(f"give --kind: {', '.join(kinds)}")
    for row in kinds.values():
        typer.echo(f"  {row['kind']:<11} {row['label']}{' (can be trained on)' if row['tells_tokens'] else ''}")
    while (answer := typer.prompt("Kind", default="custom")) not in kinds:
        typer.echo(f"no kind {answer!r}")
    return kinds[answer]


def _read_key(variable: str, row: "Json") -> str:
    """The key: from the variable named, or ours, or a person who sees no echo."""
    if variable:
        if variable not in os.environ:
            raise typer.BadParameter(f"the variable {variable} is not set")
        return os.environ[variable].strip()
    if found := os.environ.get(KEY_VARIABLE, "").strip():
        return found
    if not _is_interactive():
        return ""
    hint = f" (made at {row['key_url']})" if row.get("key_url") else ""
    answer: str = typer.prompt(f"Key{hint}, empty for none", default="", hide_input=True, show_default=False)
    return answer.strip()


def _is_interactive() -> bool:
    import sys

    return sys.stdin.isatty()


def _read_price(text: str) -> dict[str, Any]:
    """`gpt-5*=1.25,10,0.125` -> model, input, output, cached_input."""
    model, _, figures = text.rpartition("=")
    amounts = figures.split(",")
    if not model or len(amounts) not in (2, 3) or not all(_is_amount(amount) for amount in amounts):
        raise typer.BadParameter(f"wanted model=input,output[,cached], found {text!r}")
    names = ("input", "output", "cached_input")
    return {"model": model, **dict(zip(names, map(float, amounts), strict=False))}


def _is_amount(text: str) -> bool:
    whole, _, part = text.strip().partition(".")
    return (whole + part).isdigit() and text.isascii()


def _print_probe(probe: "Json") -> None:
    from rich.console import Console

    marks = {True: "yes", False: "no", None: "not seen"}
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(to_printable(probe["words"]), style="green" if probe["ok"] else "red")
    rows = (
        ("reachable", probe["is_reachable"]),
        ("key accepted", probe["accepts_key"]),
        (f"model {probe['model']}" if probe["model"] else "model", probe["knows_model"]),
        ("tells token ids", probe["tells_tokens"]),
        ("tells log-probs", probe["tells_logprobs"]),
        ("can be trained on", probe["can_train"]),
        ("streams", probe["streams"]),
        ("calls tools", probe["calls_tools"]),
        ("price known", probe["is_priced"]),
    )
    for label, value in rows:
        console.print(f"  {to_printable(label):<28} {marks[value]}")
    for label, value in (("answered in", probe["latency_ms"]), ("first words in", probe["first_token_ms"])):
        if value is not None:
            console.print(f"  {label:<28} {value:.0f} ms")
    for remark in probe["remarks"]:
        console.print(f"  {to_printable(remark)}")
