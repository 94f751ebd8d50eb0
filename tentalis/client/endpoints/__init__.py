"""The REST API, one method an operation, written once for the waiting and the async client."""

from tentalis.client.endpoints.accounts import Accounts
from tentalis.client.endpoints.adapters import Adapters
from tentalis.client.endpoints.calls import Answer, Call, Json
from tentalis.client.endpoints.judgement import Judgement
from tentalis.client.endpoints.knowledge import Knowledge
from tentalis.client.endpoints.records import Records
from tentalis.client.endpoints.runs import Runs
from tentalis.client.endpoints.webhooks import Webhooks
from tentalis.client.endpoints.work import Work

__all__ = ["Answer", "Call", "Endpoints", "Json"]


class Endpoints(
    Accounts[Answer],
    Work[Answer],
    Judgement[Answer],
    Knowledge[Answer],
    Runs[Answer],
    Adapters[Answer],
    Webhooks[Answer],
    Records[Answer],
):
    """Every answer is a JSON object; {} where there is no body. Lists are {"results", "next_cursor"}: see `iterate`."""
