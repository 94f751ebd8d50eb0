"""A client of the REST API: `Client` and `AsyncClient`, typed errors, and retries that never act twice."""

from tentalis.client.clients import AsyncClient, Client
from tentalis.client.endpoints import Endpoints, Json
from tentalis.client.errors import (
    ApiError,
    BadRequestError,
    ClientError,
    ConflictError,
    NotAllowedError,
    NotFoundError,
    NotSignedInError,
    ServerFaultError,
    TooManyRequestsError,
    UnreachableError,
)
from tentalis.core.webhooks import SignatureError, verify_webhook

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadRequestError",
    "Client",
    "ClientError",
    "ConflictError",
    "Endpoints",
    "Json",
    "NotAllowedError",
    "NotFoundError",
    "NotSignedInError",
    "ServerFaultError",
    "SignatureError",
    "TooManyRequestsError",
    "UnreachableError",
    "verify_webhook",
]
