"""`tentalis mcp`: the platform as tools for an agent that speaks the Model Context Protocol."""

import os
from typing import Annotated

import typer

from tentalis.cli.session import find_credentials, find_local_url


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP instead of standard input and output; callers bring tokens.")
    ] = False,
    host: Annotated[str, typer.Option(help="Of --http: address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --http: port; 0: any free one.")] = 8400,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Of --http: a further Host header that is answered; may be repeated.")
    ] = None,
    url: Annotated[str, typer.Option(help="The platform; default: where you are signed in, TENTALIS_URL.")] = "",
) -> None:
    """Serve the platform's tools to an agent over the Model Context Protocol.

    Over standard input and output with your own token (`TENTALIS_TOKEN`, else that of `tentalis login`); over HTTP each
    caller sends its own as a bearer token, and this process has none.
    """
    import asyncio

    from tentalis.platform.home import Home

    home = Home.find(os.environ)
    address = url or os.environ.get("TENTALIS_URL", "")
    if http:
        from tentalis.mcp.http import serve_http

        platform = address or find_local_url(home)
        try:
            serve_http(platform, host=host, port=port, say=typer.echo, also=allow_host or [])
        except OSError as error:
            raise typer.BadParameter(f"{host}:{port} cannot be bound: {error.strerror}") from None
        return
    from tentalis.mcp.server import serve_stdio

    token = os.environ.get("TENTALIS_TOKEN", "")
    if not token:
        credentials = find_credentials(home)
        address, token = address or credentials.url, credentials.token
    asyncio.run(serve_stdio(address or find_local_url(home), token))
