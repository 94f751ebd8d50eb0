"""Requests drawn from the OpenAPI schema, valid and not, sent as several callers to a project that holds everything.

What a request does is taken back after it, so that each meets the same rows. Schemathesis draws and checks: no 5xx, no
status, media type, header or body the schema does not tell of, nothing accepted that the schema refuses.
"""

import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import InvalidArgument, Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.supervision.models import Proposal
from tests.edges.lived_in import EVERY_ROLE, make_lived_in

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STRICT = [*CHECKS, negative_data_rejection]
REFUSALS = [400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429]
CALLERS = ("owner", "owner", "agent", "reviewer")
NAMES = {
    "projects": "slug", "members": "member", "tokens": "token", "providers": "provider", "workers": "worker",
    "ensembles": "ensemble", "prices": "price", "tasks": "task", "attempts": "attempt", "episodes": "episode",
    "reviews": "review", "feedback": "feedback",
    "rollouts": "rollout", "proposals": "proposal", "batches": "batch", "runs": "run", "adapters": "adapter",
    "dead-letters": "segment", "sessions": "session", "exchanges": "exchange", "turns": "turn", "skills": "skill",
    "gold": "gold", "manager-runs": "manager_run", "reward-models": "reward_model",
    "checks": "check",
    "tasksets": "taskset", "datasets": "dataset", "benchmarks": "benchmark", "courses": "course",
    "evaluations": "evaluation", "regradings": "regrading",
    "judge-probes": "judge_probe", "experiments": "experiment", "webhooks": "webhook",
    "deliveries": "delivery", "bridge": "task", "repo-tasks": "repo_task",
    "repo-task-admissions": "admission", "uploads": "upload",
}  # fmt: skip
ALL_HEALTH = tuple(HealthCheck)


@dataclass
class Report:
    """What came of it.

    Attributes:
        faults: `VERB path` and the finding, with how often.
    """

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, case: Any, failures: Sequence[Exception]) -> None:
        for failure in failures:
            title = f"{case.method} {case.operation.path}: {getattr(failure, 'title', type(failure).__name__)}"
            self.faults[title] += 1
            self.examples.setdefault(title, f"{getattr(failure, 'message', failure)}\n{case.as_curl_command()}")


@contextmanager
def connection_kept() -> Iterator[None]:
    """As Django's own test client does: the end of a request closes no connection, which holds our transaction."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)


def load_operations(urlconf: str | None = None) -> list[Any]:
    """Every operation of the schema as it is generated now, in its order."""
    raw = SchemaGenerator(urlconf=urlconf).get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    refusals = {"negative_data_rejection": {"expected-statuses": REFUSALS}}
    # constants are those of the modules that are imported by then: other tests' doing, and a sixth of the time
    config = schemathesis.Config.from_dict({"checks": refusals, "analysis": {"constants": {"enabled": False}}})
    schema = schemathesis.openapi.from_dict(raw, config=config)
    schema.app = WSGIHandler()
    return [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]


class Fuzzer:
    """Sends what is drawn.

    Args:
        project: gets a row of everything.
    """

    def __init__(self, project: Project) -> None:
        self.ids = make_lived_in(project)
        Proposal.objects.filter(project=project).update(
            state="approved", decided_by="user:bob", decided_at=timezone.now()
        )
        self.tokens = {
            role: create_token(user=user, name="fuzz", scopes=Right.values, by=user)[1]
            for role in set(CALLERS)
            for user in [User.objects.get(username=EVERY_ROLE[role])]
        }
        self.report = Report()

    def run(self, operation: Any, *, cases: int, number: int) -> None:
        """Draw and send some cases of one operation: half of them invalid on purpose, half with ids of real rows."""
        for place, (mode, is_real) in enumerate(
            (mode, is_real) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) for is_real in (True, False)
        ):
            self._run(operation, mode, is_real, cases=cases // 4, number=number * 4 + place)

    def _run(self, operation: Any, mode: Any, is_real: bool, *, cases: int, number: int) -> None:
        drawn = random.Random(number)
        known = self._find_real(operation) if is_real else {}
        strategy = operation.as_strategy(generation_mode=mode, **({"path_parameters": known} if known else {}))

        @seed(number)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=ALL_HEALTH,
        )
        @given(strategy)
        def send(case: Any) -> None:
            self.send(case, drawn, is_valid=mode == GenerationMode.POSITIVE)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(Unsatisfiable, InvalidArgument):  # nothing of it can be invalid, or nothing more be drawn
                send()

    def send(self, case: Any, drawn: random.Random, *, is_valid: bool) -> None:
        if is_valid:
            self._fill_in(case, drawn)
        else:
            case.headers.pop("If-Match", None)  # what was changed meanwhile is refused before anything is read
        if self.report.cases % 500 == 0:
            forget_callers()
        self.report.cases += 1
        headers = {"Authorization": f"Bearer {self.tokens[drawn.choice(CALLERS)]}"}
        with transaction.atomic(), connection_kept():
            response = case.call(headers=headers)
            transaction.set_rollback(True)
        self.report.statuses[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS if is_valid else STRICT)
        except FailureGroup as group:
            self.report.add(case, group.exceptions)

    def _find_real(self, operation: Any) -> dict[str, Any]:
        path = operation.path.removeprefix("/api/v1").strip("/")
        name = NAMES.get(path.split("/")[0], "")
        return {parameter.name: self.ids[name] for parameter in operation.path_parameters if name}

    def _fill_in(self, case: Any, drawn: random.Random) -> None:
        """Names of what there is, mostly: of a project nobody has, nothing more is asked."""
        body = case.body if isinstance(case.body, dict) else {}
        query = case.query if isinstance(case.query, dict) else {}
        for values in (body, query):
            for name, real in (("project", self.ids["slug"]), ("worker", "echo"), ("task", self.ids["task"])):
                if name in values and drawn.random() < 0.9:
                    values[name] = real
