"""The company: a few clients with their bills, tickets and documents, goods, a calendar; plain JSON all of it."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

Company = dict[str, Any]

# fmt: off
VIPS: Final = (
    "Abel", "Berg", "Cruz", "Dahl", "Eder", "Fink", "Gold", "Hahn", "Igel", "Jost",
    "Kern", "Lang", "Mohr", "Nagy", "Ott", "Pohl", "Quist", "Rau", "Stern", "Tews",
)
OTHERS: Final = (
    "Adler", "Bauer", "Conti", "Doyle", "Engel", "Frey", "Greco", "Huber", "Ivers", "Jansen",
    "Klein", "Lopez", "Meyer", "Noll", "Orsi", "Popov", "Reis", "Silva", "Thoma", "Vogt",
)
FURNITURE: Final = (
    "bench", "chair", "clock", "couch", "crib", "lamp", "mirror", "rug", "shelf", "stool", "table", "vase",
)
SUPPLIES: Final = ("bag", "book", "bowl", "box", "cup", "fan", "jar", "mug", "pen", "plate", "tape", "tray")
PEOPLE: Final = ("Kim", "Lea", "Max", "Noa")
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
# fmt: on
CLIENTS: Final = (*VIPS, *OTHERS)
ITEMS: Final = (*FURNITURE, *SUPPLIES)
SIZES: Final = ("small", "big")
KINDS: Final = ("contract", "offer")
CAST: Final = 12
"""Clients of a company."""
BIG_FROM_EUR: Final = 50
_NUMBERS: Final = range(10, 100)


def find_tier(client: str) -> str:
    return "vip" if client in VIPS else "client"


def find_group(item: str) -> str:
    return "furniture" if item in FURNITURE else "supplies"


def make_company(seed: int | str, clients: Sequence[str] = (), items: Sequence[str] = ()) -> Company:
    """The company of a seed, the same for the same; `clients` and `items` are certain to be in it."""
    rng = Random(f"workbench/{seed}")
    cast = _complete(rng, clients, CLIENTS)
    bills, tickets, documents = (
        iter(rng.sample(_NUMBERS, count)) for count in (len(cast) * 2, len(cast), len(cast) * 2)
    )
    eur = {"small": (5, BIG_FROM_EUR - 1), "big": (BIG_FROM_EUR, 99)}
    return {
        "clients": {one: {"tier": find_tier(one), "owner": rng.choice(PEOPLE), "notes": []} for one in cast},
        "bills": {
            str(next(bills)): {"client": one, "size": size, "eur": rng.randint(*eur[size]), "state": "open"}
            for one in cast
            for size in SIZES
        },
        "tickets": {str(next(tickets)): {"client": one, "state": "open", "owner": rng.choice(PEOPLE)} for one in cast},
        "documents": {
            str(next(documents)): {"client": one, "kind": kind, "folder": "inbox"} for one in cast for kind in KINDS
        },
        "goods": {
            one: {"here": rng.randint(1, 9), "wanted": rng.randint(10, 29)} for one in _complete(rng, items, ITEMS)
        },
        "events": {day: {str(hour): "taken" for hour in rng.sample(range(9, 17), rng.randint(1, 4))} for day in DAYS},
        "people": {one: {"away": []} for one in PEOPLE},
        "mails": [],
        "orders": [],
        "payments": [],
        "left": [],
    }


def _complete(rng: Random, wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Those that are wanted and others, up to a company's size, in an order that tells nothing."""
    others = [one for one in known if one not in wanted]
    chosen = [*dict.fromkeys(wanted), *rng.sample(others, max(CAST - len(set(wanted)), 0))]
    return sorted(chosen)
