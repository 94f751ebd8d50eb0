"""Answers kept, so that a request sent twice acts once."""

from django.conf import settings
from django.db import models

from apps.base.models import Timestamped


class IdempotencyKey(Timestamped):
    """The first answer to a keyed request, written in the transaction of its effect.

    Attributes:
        key_hash: SHA-256 of the key as sent.
        fingerprint: SHA-256 of method, path and body; another one under the same key is refused.
        body: the answer's bytes as text, without secrets that are shown once.
        project: whose words it may hold; None where it concerned none.
        is_forgotten: its words went with a person's; the request acted once and does not again.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    project = models.ForeignKey("accounts.Project", models.SET_NULL, null=True, related_name="+")
    key_hash = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.TextField(blank=True)
    location = models.CharField(max_length=300, blank=True)
    is_forgotten = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key_hash"], name="one_answer_per_key")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_key_age")]

    def __str__(self) -> str:
        return f"answer {self.status} of user {self.user_id}"
