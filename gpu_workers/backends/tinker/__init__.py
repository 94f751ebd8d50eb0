"""Tinker (Thinking Machines): a spec becomes requests to a service that trains the adapter on machines of its own."""

from importlib.metadata import PackageNotFoundError, version

from gpu_workers.backends.errors import BackendNotInstalledError

CLIENT = "0.38"


def require_client() -> str:
    """The version of the service's client on this box.

    Raises:
        BackendNotInstalledError: there is none, or one whose requests we have not tried.
    """
    wanted = f"backend 'tinker' wants the package tinker {CLIENT}.x on this box (pip install 'tentalis[tinker]')"
    try:
        found = version("tinker")
    except PackageNotFoundError:
        raise BackendNotInstalledError(f"{wanted}, found none") from None
    if not found.startswith(f"{CLIENT}."):
        raise BackendNotInstalledError(f"{wanted}, found {found}")
    return found
