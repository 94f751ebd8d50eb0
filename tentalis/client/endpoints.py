"""The REST API, one method an operation, written once for the waiting and the async client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

Json = dict[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call:
    """One request before it is sent.

    Args:
        params: query parameters; None values are left out.
        body: JSON object; None for none.
    """

    verb: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Json | None = None


class Endpoints(Generic[Answer]):
    """Every answer is a JSON object; {} where there is no body. Lists are {"results", "next_cursor"}: see `iterate`."""

    def send(self, call: Call) -> Answer:
        """Send a request, again where that is safe and may help."""
        raise NotImplementedError

    def _get(self, path: str, **params: Any) -> Answer:
        return self.send(Call("GET", path, params))

    def _post(self, path: str, **body: Any) -> Answer:
        return self.send(Call("POST", path, body=_given(body)))

    # --- who ---
    def login(self, *, username: str, password: str, name: str) -> Answer:
        """A token for a name and password; the answer's `token` is shown this once."""
        return self._post("login", username=username, password=password, name=name)

    def logout(self) -> Answer:
        """Revoke the token this client uses."""
        return self._post("logout")

    def whoami(self) -> Answer:
        return self._get("whoami")

    def list_tokens(self, **params: Any) -> Answer:
        return self._get("tokens", **params)

    def create_token(
        self,
        *,
        name: str,
        scopes: Sequence[str] | None = None,
        project: str | None = None,
        username: str | None = None,
        expires_in_days: int | None = None,
    ) -> Answer:
        chosen = list(scopes) if scopes is not None else None
        return self._post(
            "tokens", name=name, scopes=chosen, project=project, username=username, expires_in_days=expires_in_days
        )

    def revoke_token(self, token_id: int) -> Answer:
        return self.send(Call("DELETE", f"tokens/{token_id}"))

    # --- projects and members ---
    def list_projects(self, **params: Any) -> Answer:
        return self._get("projects", **params)

    def get_project(self, slug: str) -> Answer:
        return self._get(f"projects/{quote(slug, safe='')}")

    def create_project(self, *, slug: str, name: str, **settings: Any) -> Answer:
        return self._post("projects", slug=slug, name=name, **settings)

    def change_project(self, slug: str, **changes: Any) -> Answer:
        return self.send(Call("PATCH", f"projects/{quote(slug, safe='')}", body=changes))

    def why(self, slug: str) -> Answer:
        """Why nothing trains in a project."""
        return self._get(f"projects/{quote(slug, safe='')}/why")

    def list_members(self, **params: Any) -> Answer:
        return self._get("members", **params)

    def add_member(self, *, project: str, username: str, role: str) -> Answer:
        return self._post("members", project=project, username=username, role=role)

    # --- workers ---
    def list_workers(self, **params: Any) -> Answer:
        return self._get("workers", **params)

    def get_worker(self, worker_id: int) -> Answer:
        return self._get(f"workers/{worker_id}")

    def create_worker(self, *, project: str, name: str, kind: str, **settings: Any) -> Answer:
        return self._post("workers", project=project, name=name, kind=kind, **settings)

    def change_worker(self, worker_id: int, **changes: Any) -> Answer:
        return self.send(Call("PATCH", f"workers/{worker_id}", body=changes))

    def roll_back_worker(self, worker_id: int) -> Answer:
        """Return a worker to what served it before."""
        return self._post(f"workers/{worker_id}/rollback")

    # --- tasks and attempts ---
    def submit_task(
        self,
        *,
        project: str,
        prompt: str,
        environment: str,
        worker: str | None = None,
        group_size: int | None = None,
        reference: Any = None,
        parent: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Answer:
        return self._post(
            "tasks",
            project=project,
            prompt=prompt,
            environment=environment,
            worker=worker,
            group_size=group_size,
            reference=reference,
            parent=parent,
            metadata=dict(metadata) if metadata is not None else None,
            seed=seed,
        )

    def list_tasks(self, **params: Any) -> Answer:
        return self._get("tasks", **params)

    def get_task(self, task_id: int) -> Answer:
        return self._get(f"tasks/{task_id}")

    def cancel_task(self, task_id: int) -> Answer:
        return self._post(f"tasks/{task_id}/cancel")

    def list_attempts(self, task_id: int, **params: Any) -> Answer:
        return self._get(f"tasks/{task_id}/attempts", **params)

    def list_steps(self, attempt_id: int, **params: Any) -> Answer:
        """The steps of an attempt with their scores."""
        return self._get(f"attempts/{attempt_id}/steps", **params)

    def submit_attempt(self, *, task: int, steps: Sequence[Mapping[str, Any]], answer: str) -> Answer:
        """Hand in an outside agent's own work."""
        return self._post("attempts", task=task, steps=[dict(step) for step in steps], answer=answer)

    # --- proposals ---
    def propose(
        self,
        *,
        task: int,
        action: Mapping[str, Any],
        step_index: int | None = None,
        context: str | None = None,
        risk: str | None = None,
    ) -> Answer:
        """Ask whether an action may be done; `outcome` says what to do now.

        Args:
            action: {"kind": "tool", "tool", "arguments"}, {"kind": "message", "text"} or {"kind": "answer", "text"}.
        """
        return self._post(
            "proposals", task=task, action=dict(action), step_index=step_index, context=context, risk=risk
        )

    def list_proposals(self, **params: Any) -> Answer:
        return self._get("proposals", **params)

    def get_proposal(self, proposal_id: int, *, wait_s: int | None = None) -> Answer:
        """A proposal; with `wait_s` (at most 30, and less than this client's timeout) once it is decided."""
        return self._get(f"proposals/{proposal_id}", wait=wait_s)

    def decide_proposal(self, proposal_id: int, *, decision: str, **said: Any) -> Answer:
        """Say what becomes of a proposal.

        Args:
            decision: approve, reject, edit, hint or take_over.
            said: reason of reject, action of edit, hint of hint, answer of take_over.
        """
        return self._post(f"proposals/{proposal_id}/decide", decision=decision, **said)

    # --- reviews and feedback ---
    def list_reviews(self, **params: Any) -> Answer:
        return self._get("reviews", **params)

    def get_review(self, review_id: int) -> Answer:
        return self._get(f"reviews/{review_id}")

    def claim_next_review(self, *, project: str) -> Answer:
        """The oldest open review, now yours; {} when there is none."""
        return self._post("reviews/claim", project=project)

    def claim_review(self, review_id: int) -> Answer:
        return self._post(f"reviews/{review_id}/claim")

    def release_review(self, review_id: int) -> Answer:
        return self._post(f"reviews/{review_id}/release")

    def skip_review(self, review_id: int, *, reason: str) -> Answer:
        return self._post(f"reviews/{review_id}/skip", reason=reason)

    def give_feedback(self, review_id: int, **words: Any) -> Answer:
        """Close a review.

        Args:
            words: score, text, steps ([{attempt, index, score, comment}]), preferred_attempt, edited_answer.
        """
        return self._post(f"reviews/{review_id}/feedback", **words)

    def give_task_feedback(self, task_id: int, **words: Any) -> Answer:
        """Judge a task nobody asked about; `words` as in `give_feedback`."""
        return self._post("feedback", task=task_id, **words)

    def give_session_feedback(self, session_id: int, **words: Any) -> Answer:
        """Judge the last answer of a conversation; `words` as in `give_feedback`."""
        return self._post(f"sessions/{session_id}/feedback", **words)

    def give_exchange_feedback(self, exchange_id: int, **words: Any) -> Answer:
        """Judge one answer of a conversation; `words` as in `give_feedback`."""
        return self._post(f"exchanges/{exchange_id}/feedback", **words)

    def list_turns(self, **params: Any) -> Answer:
        return self._get("turns", **params)

    def forget(
        self, slug: str, *, end_user: str | None = None, text: str | None = None, dry_run: bool = True
    ) -> Answer:
        """Delete what is known of a person in a project; a dry run only counts."""
        return self._post(f"projects/{slug}/forget", end_user=end_user, text=text, dry_run=dry_run)

    def list_feedback(self, **params: Any) -> Answer:
        return self._get("feedback", **params)

    # --- learning ---
    def list_rollouts(self, **params: Any) -> Answer:
        return self._get("rollouts", **params)

    def get_rollout(self, rollout_id: int) -> Answer:
        return self._get(f"rollouts/{rollout_id}")

    def list_batches(self, **params: Any) -> Answer:
        return self._get("batches", **params)

    def train(
        self,
        *,
        project: str,
        worker: str | None = None,
        backend: str | None = None,
        recipe: dict[str, Any] | None = None,
    ) -> Answer:
        """Train now, with what the worker's batch holds; `recipe` holds fields for this run alone."""
        return self._post("runs", project=project, worker=worker, backend=backend, recipe=recipe)

    def list_runs(self, **params: Any) -> Answer:
        return self._get("runs", **params)

    def get_run(self, run_id: int) -> Answer:
        return self._get(f"runs/{run_id}")

    def get_run_metrics(self, run_id: int) -> Answer:
        return self._get(f"runs/{run_id}/metrics")

    def cancel_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/cancel")

    def list_adapters(self, **params: Any) -> Answer:
        return self._get("adapters", **params)

    def get_adapter(self, adapter_id: int) -> Answer:
        return self._get(f"adapters/{adapter_id}")

    def list_verdicts(self, adapter_id: int, **params: Any) -> Answer:
        return self._get(f"adapters/{adapter_id}/verdicts", **params)

    def get_provenance(self, adapter_id: int) -> Answer:
        return self._get(f"adapters/{adapter_id}/provenance")

    def promote_adapter(self, adapter_id: int) -> Answer:
        return self._post(f"adapters/{adapter_id}/promote")

    def roll_back_adapter(self, adapter_id: int) -> Answer:
        """Take a serving adapter out of service."""
        return self._post(f"adapters/{adapter_id}/rollback")

    # --- records ---
    def list_audit(self, **params: Any) -> Answer:
        return self._get("audit", **params)

    def verify_audit(self) -> Answer:
        return self._get("audit/verify")

    def get_learning(self, *, project: str, worker: str) -> Answer:
        """A worker's learning curve."""
        return self._get("metrics/learning", project=project, worker=worker)

    def get_queues(self, *, project: str | None = None) -> Answer:
        return self._get("metrics/queues", project=project)

    def list_dead_letters(self, **params: Any) -> Answer:
        return self._get("dead-letters", **params)

    def replay(self, dead_letter_id: int) -> Answer:
        """Take up a dead letter at the link it died at."""
        return self._post(f"dead-letters/{dead_letter_id}/replay")


def _given(body: Mapping[str, Any]) -> Json:
    return {name: value for name, value in body.items() if value is not None}
