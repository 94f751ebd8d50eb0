"""What models cost: prices that people set, the shipped list behind them, and pure lookups in both."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import require_admin
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.inference.models import Price, Provider
from apps.inference.price_list import SHIPPED
from apps.inference.provider_kinds import find_kind
from apps.inference.providers import require_owner_of

MILLION = Decimal(1_000_000)
CENT_PARTS = Decimal("1e-8")
_Entry = tuple[datetime | None, "Rates"]


class Rates(NamedTuple):
    """A model's price in US dollars a million tokens. `cached_input`: of prompt tokens found in the server's cache."""

    input: Decimal
    output: Decimal
    cached_input: Decimal

    def cost(self, *, prompt: int, completion: int, cached: int = 0) -> Decimal:
        """US dollars of one call; `cached` of its prompt tokens came out of the server's cache."""
        cached = min(cached, prompt)
        micro = (prompt - cached) * self.input + cached * self.cached_input + completion * self.output
        return (micro / MILLION).quantize(CENT_PARTS)


@dataclass(frozen=True)
class PriceTable:
    """All prices as they stood when it was loaded. A lookup touches no database and scans no more than one owner.

    Args:
        exact: (provider or None, kind or "", model) -> prices with the moment from which each counts, latest first.
        prefixes: (provider or None, kind or "") -> (beginning of names, prices), the longest beginning first.
    """

    exact: dict[tuple[int | None, str, str], list[_Entry]]
    prefixes: dict[tuple[int | None, str], list[tuple[str, list[_Entry]]]]

    def find(self, *, provider_id: int | None, kind: str, model: str, at: datetime | None = None) -> Rates | None:
        """The price of a model at a moment (None: now); None where none is known, which is not the same as free.

        A price of this very provider goes before one of its kind, a person's before a shipped one, a whole name before
        the beginning of one.
        """
        at = at or timezone.now()
        owners = [(provider_id, ""), (None, kind)] if provider_id is not None else [(None, kind)]
        for owner in owners:
            candidates = [self.exact.get((*owner, model), [])]
            candidates += [prices for start, prices in self.prefixes.get(owner, []) if model.startswith(start)]
            for prices in candidates:
                for valid_from, rates in prices:
                    if valid_from is not None and valid_from <= at:
                        return rates
        return _find_shipped(kind, model)


def load_prices() -> PriceTable:
    """Every price, in one statement."""
    return _build(Price.objects.all())


def find_price(*, provider: Provider | None, kind: str, model: str, at: datetime | None = None) -> Rates | None:
    """The price of one model, in one statement; see `PriceTable.find`."""
    rows = Price.objects.filter(Q(provider=provider, provider__isnull=False) | Q(kind=kind))
    return _build(rows).find(provider_id=provider.pk if provider else None, kind=kind, model=model, at=at)


def set_price(
    *,
    by: User,
    model: str,
    input: Decimal,
    output: Decimal,
    cached_input: Decimal | None = None,
    provider: Provider | None = None,
    kind: str = "",
    valid_from: datetime | None = None,
    source: str = "",
) -> Price:
    """Say what a model costs from a moment on; what was counted before stays.

    Args:
        model: a name, or the beginning of names and a *.
        provider, kind: of which model server; or of which kind of server, everywhere in the installation.
        valid_from: None: now.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the fields.
        ConflictError: there is a price from that very moment.
    """
    if (provider is None) == (not kind):
        raise BadInputError("a price is of a provider or of a kind; found " + ("neither" if not kind else "both"))
    if provider is not None:
        require_owner_of(provider.project, by)
    else:
        require_admin(by)
        find_kind(kind)
    price = Price(
        provider=provider,
        kind=kind,
        model=model,
        input=input,
        output=output,
        cached_input=cached_input,
        valid_from=valid_from or timezone.now(),
        source=source or by.handle,
    )
    _check(price)
    try:
        with transaction.atomic():
            price.save()
            payload = {"model": model, "input": str(input), "output": str(output), "cached_input": str(cached_input)}
            record(
                Kind.PRICE_SET,
                subject=price,
                by=by.handle,
                project_id=provider.project_id if provider else None,
                payload=payload | {"provider": provider.name if provider else "", "kind": kind},
            )
    except IntegrityError:
        message = f"{model} has a price from {price.valid_from.isoformat()} on already"
        raise ConflictError(message, errors={"valid_from": [message]}) from None
    return price


def remove_price(*, price: Price, by: User) -> None:
    """Take a price back, as if it had not been said; what was counted by it stays.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    if price.provider is not None:
        require_owner_of(price.provider.project, by)
    else:
        require_admin(by)
    with transaction.atomic():
        record(
            Kind.PRICE_REMOVED,
            subject=price,
            by=by.handle,
            project_id=price.provider.project_id if price.provider else None,
            payload={"model": price.model, "kind": price.kind, "valid_from": price.valid_from.isoformat()},
        )
        price.delete()


def _build(rows: QuerySet[Price]) -> PriceTable:
    exact: dict[tuple[int | None, str, str], list[_Entry]] = {}
    starts: dict[tuple[int | None, str], dict[str, list[_Entry]]] = {}
    for row in rows.order_by("-valid_from", "-id"):
        rates = Rates(row.input, row.output, row.input if row.cached_input is None else row.cached_input)
        if row.model.endswith("*"):
            found = starts.setdefault((row.provider_id, row.kind), {}).setdefault(row.model[:-1], [])
        else:
            found = exact.setdefault((row.provider_id, row.kind, row.model), [])
        found.append((row.valid_from, rates))
    prefixes = {
        owner: sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))  # the longest first
        for owner, found in starts.items()
    }
    return PriceTable(exact, prefixes)


@lru_cache(maxsize=1024)
def _find_shipped(kind: str, model: str) -> Rates | None:
    fitting = [
        row
        for row in SHIPPED
        if row.kind == kind and (model == row.model or (row.model.endswith("*") and model.startswith(row.model[:-1])))
    ]
    if not fitting:
        return None
    row = max(fitting, key=lambda found: len(found.model))
    return Rates(row.input, row.output, row.input if row.cached_input is None else row.cached_input)


def _check(price: Price) -> None:
    errors: dict[str, list[str]] = {}
    try:
        price.clean_fields()
    except ValidationError as error:
        errors |= {name: list(messages) for name, messages in error.message_dict.items()}
    for name in ("input", "output", "cached_input"):
        value = getattr(price, name)
        if name not in errors and value is not None and value < 0:
            errors[name] = [f"must be 0 or more US dollars a million tokens, found {value}"]
    if "*" in price.model[:-1] or price.model == "":
        errors["model"] = ["must be a name, or the beginning of names and a * at its end"]
    if errors:
        raise BadInputError.at_each(errors)
