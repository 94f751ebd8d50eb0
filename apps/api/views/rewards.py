"""Rewards for a trainer that samples its own answers, by OpenRLHF's protocol. The address is the credential."""

import json
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.tokens import hash_secret
from apps.api.permissions import PUBLIC
from apps.api.serializers.rewards import RewardOut, RewardQuestion
from apps.api.throttles import SharedThrottle
from apps.api.views.base import ApiView
from apps.base.errors import BadInputError
from apps.training import rewards


class RewardThrottle(SharedThrottle):
    """By address of the request and of the endpoint: a trainer asks once an answer, hundreds at a time."""

    scope = "reward"
    limit = 20_000

    def name_caller(self, request: Request) -> str:
        view: Any = request.parser_context["view"] if request.parser_context else None
        secret = view.kwargs.get("secret", "") if view is not None else ""
        return f"{super().name_caller(request)} {hash_secret(secret)}"


class GuessThrottle(SharedThrottle):
    """By address: who tries secrets."""

    scope = "reward-guess"
    limit = 40_000


class RewardView(ApiView):
    """What an answer that a run sampled is worth."""

    rights: ClassVar = {"post": PUBLIC}
    authentication_classes = []
    throttle_classes = [RewardThrottle, GuessThrottle]
    extra_problems: ClassVar = {"post": (404, 503)}

    @extend_schema(request=RewardQuestion, responses={200: RewardOut}, operation_id="reward", auth=[])
    def post(self, request: Request, secret: str) -> Response:
        """Reward one answer. The same question gets the same answer; 503 where nobody could score it now."""
        endpoint = rewards.find_endpoint(secret)
        body = self.read_body(RewardQuestion)
        found = rewards.reward(
            endpoint,
            task_id=_read_task(body["labels"][0]),
            query=body["query"][0],
            prompt=body["prompts"][0],
            parts=body.get("parts"),
            is_cut=body.get("is_cut", False),
        )
        return Response(found)


def _read_task(label: str) -> int:
    """Raises BadInputError for a label that names no task."""
    try:
        found: Any = json.loads(label)["task"]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 2**63:
        raise BadInputError.at("labels", 'wanted a JSON object with the "task" that was answered')
    return found
