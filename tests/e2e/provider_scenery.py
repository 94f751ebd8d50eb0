"""Model servers in every state: one that answers, one that can be trained on, one whose key is wrong."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from apps.accounts.models import Project
from apps.inference.models import Exchange, Price, Provider

_GOOD: dict[str, Any] = {
    "ok": True,
    "fault": "",
    "is_reachable": True,
    "accepts_key": True,
    "knows_model": True,
    "streams": True,
    "calls_tools": True,
}


def add_servers(project: Project) -> Provider:
    """The first of them, which was paid something."""
    now = timezone.now()
    cloud = Provider.objects.create(
        project=project,
        name="claude",
        kind="anthropic",
        base_url="https://api.anthropic.com",
        api_key_sealed=b"sealed",
        default_model="claude-sonnet-4-6",
        requests_per_minute=120,
        probed_at=now - timedelta(minutes=7),
        probe=_GOOD
        | {
            "words": "claude-sonnet-4-6 answered in 812 ms; what it says cannot be trained on",
            "model": "claude-sonnet-4-6",
            "models": ["claude-opus-4-8", "claude-sonnet-4-6", "claude-haiku-4-5"],
            "tells_tokens": False,
            "tells_logprobs": False,
            "can_train": False,
            "latency_ms": 812.4,
            "first_token_ms": 390.2,
            "is_priced": True,
            "remarks": ["Training takes exact token ids and log-probs: the Tentalis engine and vLLM tell them."],
        },
    )
    Provider.objects.create(
        project=project,
        name="gpu-box",
        kind="vllm",
        base_url="http://10.0.0.7:8000/v1",
        more_urls=["http://10.0.0.8:8000/v1"],
        allow_private=True,
        probed_at=now - timedelta(hours=2),
        probe=_GOOD
        | {
            "words": "qwen3-8b answered in 96 ms; what it says can be trained on",
            "model": "qwen3-8b",
            "models": ["qwen3-8b"],
            "accepts_key": None,
            "tells_tokens": True,
            "tells_logprobs": True,
            "can_train": True,
            "latency_ms": 96.0,
            "first_token_ms": 31.0,
            "is_priced": False,
            "remarks": ["It answers without a key."],
        },
    )
    Provider.objects.create(
        project=project,
        name="old-account",
        kind="openai",
        base_url="https://api.openai.com/v1",
        api_key_sealed=b"sealed",
        probed_at=now - timedelta(days=3),
        probe={
            "ok": False,
            "fault": "key",
            "words": "the key is not accepted: is it whole, and of this vendor? Incorrect API key provided",
            "model": "gpt-5",
            "models": [],
            "is_reachable": True,
            "accepts_key": False,
            "can_train": False,
            "latency_ms": None,
            "first_token_ms": None,
            "remarks": [],
        },
    )
    Price.objects.create(
        provider=cloud,
        model="claude-sonnet-*",
        input=Decimal("2.4"),
        cached_input=Decimal("0.24"),
        output=Decimal(12),
        valid_from=now - timedelta(days=20),
        source="our contract",
    )
    for turn, calls in (("main", 4), ("judge", 2)):
        Exchange.objects.bulk_create(
            Exchange(
                project=project,
                provider=cloud,
                turn=turn,
                model="claude-sonnet-4-6",
                prompt_tokens=2_400,
                completion_tokens=300,
                cost_usd=Decimal("0.00936"),
            )
            for _ in range(calls)
        )
    return cloud
