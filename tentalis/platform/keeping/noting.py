"""Putting a backup or a drill on record in the installation it is of."""

from tentalis.platform.keeping.place import Place
from tentalis.platform.keeping.restoring import manage
from tentalis.platform.stack import web_environment


def note(place: Place, what: str, payload: str) -> None:
    """What: "made" or "drilled"; payload: a JSON object.

    Raises:
        RestoreError: it cannot be written.
    """
    with place.database() as address:
        redis = str(place.settings["REDIS_URL"] or "redis://127.0.0.1:1/0")
        addresses = {"database_url": address, "redis_url": redis}
        manage(web_environment(place.home, place.config, place.environ, addresses), "note_backup", what, payload)
