"""Model endpoints, and the calls made to them with their exact tokens."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.base.models import Timestamped
from tentalis.core.packing import unpack_bools, unpack_float32, unpack_int32


class Provider(Timestamped):
    """An OpenAI-compatible model server. `project` None: offered to every project."""

    class Kind(models.TextChoices):
        ENGINE = "engine"
        VLLM = "vllm"
        OPENAI = "openai"
        OLLAMA = "ollama"
        CUSTOM = "custom"

    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True, related_name="providers")
    name = models.SlugField(max_length=64)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.CUSTOM)
    base_url = models.URLField(max_length=500)
    api_key_sealed = models.BinaryField(
        default=b"", editable=False, help_text="Encrypted; empty when the server wants none."
    )
    default_model = models.CharField(max_length=200, blank=True)
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="provider_name_is_unique", nulls_distinct=False),
        ]

    def __str__(self) -> str:
        return self.name


class Session(Timestamped):
    """A conversation seen by the gateway."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="sessions")
    key = models.CharField(max_length=200)
    worker_name = models.CharField(max_length=64, blank=True)
    last_seen_at = models.DateTimeField(auto_now=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="session_key_is_unique")]

    def __str__(self) -> str:
        return self.key


class Exchange(Timestamped):
    """One request and its answer, token for token.

    Attributes:
        adapter_name: what really served it; "" for the base model.
        policy_version: version number of that adapter; 0 for the base model.
        prompt_token_ids, token_ids: packed little-endian int32; empty where the server gave none.
        logprobs: packed float32, natural log; same length as token_ids, 0 where not sampled.
        sampled: packed bits, 1 where the policy chose the token (tool results are 0).
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="exchanges")
    session = models.ForeignKey(Session, models.CASCADE, null=True, blank=True, related_name="exchanges")
    provider = models.ForeignKey(Provider, models.SET_NULL, null=True, blank=True, related_name="+")
    worker_name = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=200)
    adapter_name = models.CharField(max_length=200, blank=True)
    policy_version = models.PositiveIntegerField(default=0)
    messages = models.JSONField(default=list)
    text = models.TextField(blank=True)
    tool_calls = models.JSONField(default=list)
    finish_reason = models.CharField(max_length=32, blank=True)
    prompt_token_ids = models.BinaryField(default=b"")
    token_ids = models.BinaryField(default=b"")
    logprobs = models.BinaryField(default=b"")
    sampled = models.BinaryField(default=b"")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    latency_ms = models.FloatField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "-id"], name="exchange_by_project"),
            models.Index(fields=["session", "id"], condition=Q(session__isnull=False), name="exchange_by_session"),
        ]

    def __str__(self) -> str:
        return f"exchange {self.pk} with {self.adapter_name or self.model}"

    @property
    def has_exact_tokens(self) -> bool:
        """Whether the server told its token ids and log-probs, without which nothing can be trained."""
        return bool(self.token_ids) and bool(self.prompt_token_ids) and len(self.logprobs) == len(self.token_ids)

    def unpack_prompt_token_ids(self) -> list[int]:
        return unpack_int32(self.prompt_token_ids)

    def unpack_token_ids(self) -> list[int]:
        return unpack_int32(self.token_ids)

    def unpack_logprobs(self) -> list[float]:
        return unpack_float32(self.logprobs)

    def unpack_sampled(self) -> list[bool]:
        return unpack_bools(self.sampled, len(self.token_ids) // 4)
