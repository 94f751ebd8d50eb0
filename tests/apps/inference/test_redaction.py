"""No key, token or password comes through to the logs."""

import io
import logging
from typing import Any

import pytest
from django.conf import settings

from apps.inference.redaction import RedactingFormatter, redact

SECRET = "Zz9canary0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}', 'Accept': '*/*'}}",
        f'{{"authorization": "Basic {SECRET}"}}',
        f"headers=[('x-api-key', '{SECRET}')]",
        f"(b'Authorization', b'Bearer {SECRET}')",
        f"x-api-key={SECRET}",
        f"ModelClient(base_url='http://lab', api_key='{SECRET}')",
        f"OPENAI_API_KEY={SECRET} python run.py",
        f"Incorrect API key provided: sk-{SECRET}",
        f"sk-ant-{SECRET}, sk-proj-{SECRET}, sk-or-{SECRET}",
        f"gsk_{SECRET} xai-{SECRET} hf_{SECRET} csk-{SECRET} AIza{SECRET}",
        f"token tnt_{SECRET} and whsec_{SECRET}",
        f"postgres://me:{SECRET}@127.0.0.1/x",
        f"sent bearer {SECRET}",
        f"password={SECRET}&next=/",
        f"SECRET_KEY: {SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_cut(text: str) -> None:
    assert SECRET not in redact(text)
    assert "canary" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "task 7 is done in 812 ms",
        "http://127.0.0.1:8300/v1/chat/completions answered 404: no such model `desk@v3-1a2b3c4d`",
        "the key is not accepted: is it whole?",
        "adapter writer@v12-0123456789abcdef is deployed",
        "GET /api/v1/tasks?limit=20 200",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


def test_arguments_and_tracebacks_are_redacted_too() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(RedactingFormatter("{levelname} {message}", style="{"))
    logger = logging.getLogger("a-test")
    logger.addHandler(handler)
    try:
        raise ValueError(f"headers were {{'Authorization': 'Bearer {SECRET}'}}")
    except ValueError:
        logger.exception("asked with key %s", f"sk-{SECRET}")
    finally:
        logger.removeHandler(handler)
    assert SECRET not in out.getvalue()
    assert "ValueError: headers were" in out.getvalue()


def test_every_handler_of_ours_redacts() -> None:
    logs: dict[str, Any] = settings.LOGGING
    formatters = logs["formatters"]
    for handler in logs["handlers"].values():
        assert formatters[handler["formatter"]]["()"] == "apps.inference.redaction.RedactingFormatter"
