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

    def _patch(self, path: str, **body: Any) -> Answer:
        return self.send(Call("PATCH", path, body=body))

    def _delete(self, path: str) -> Answer:
        return self.send(Call("DELETE", path))

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
        limits: Mapping[str, Any] | None = None,
    ) -> Answer:
        """A token for a program; its text is in this answer and nowhere else.

        Args:
            limits: requests_per_minute, tokens_per_minute, tokens_per_day, usd_per_day.
        """
        return self._post(
            "tokens",
            name=name,
            scopes=list(scopes) if scopes is not None else None,
            project=project,
            username=username,
            expires_in_days=expires_in_days,
            limits=dict(limits) if limits is not None else None,
        )

    def change_token(self, token_id: int, *, limits: Mapping[str, Any]) -> Answer:
        return self._patch(f"tokens/{token_id}", limits=dict(limits))

    def revoke_token(self, token_id: int) -> Answer:
        return self._delete(f"tokens/{token_id}")

    # --- projects and members ---
    def list_projects(self, **params: Any) -> Answer:
        return self._get("projects", **params)

    def get_project(self, slug: str) -> Answer:
        return self._get(f"projects/{quote(slug, safe='')}")

    def create_project(self, *, slug: str, name: str, **settings: Any) -> Answer:
        return self._post("projects", slug=slug, name=name, **settings)

    def change_project(self, slug: str, **changes: Any) -> Answer:
        return self._patch(f"projects/{quote(slug, safe='')}", **changes)

    def delete_project(self, slug: str) -> Answer:
        """Delete a project that holds no work."""
        return self._delete(f"projects/{quote(slug, safe='')}")

    def why(self, slug: str) -> Answer:
        """Why nothing trains in a project."""
        return self._get(f"projects/{quote(slug, safe='')}/why")

    def list_members(self, **params: Any) -> Answer:
        return self._get("members", **params)

    def add_member(self, *, project: str, username: str, role: str) -> Answer:
        return self._post("members", project=project, username=username, role=role)

    def change_member(self, member_id: int, *, role: str) -> Answer:
        return self._patch(f"members/{member_id}", role=role)

    def remove_member(self, member_id: int) -> Answer:
        return self._delete(f"members/{member_id}")

    # --- workers ---
    def list_workers(self, **params: Any) -> Answer:
        return self._get("workers", **params)

    def get_worker(self, worker_id: int) -> Answer:
        return self._get(f"workers/{worker_id}")

    def create_worker(self, *, project: str, name: str, kind: str, **settings: Any) -> Answer:
        return self._post("workers", project=project, name=name, kind=kind, **settings)

    def change_worker(self, worker_id: int, **changes: Any) -> Answer:
        return self._patch(f"workers/{worker_id}", **changes)

    def delete_worker(self, worker_id: int) -> Answer:
        """Remove a worker that never worked."""
        return self._delete(f"workers/{worker_id}")

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

    def renew_review(self, review_id: int) -> Answer:
        """Keep a review that is yours for another while."""
        return self._post(f"reviews/{review_id}/renew")

    def assign_review(self, review_id: int, *, to: str | None) -> Answer:
        """Say whose a review is; None: anyone's."""
        return self.send(Call("POST", f"reviews/{review_id}/assign", body={"to": to}))

    def skip_review(self, review_id: int, *, reason: str, then: str | None = None) -> Answer:
        """Pass a review over: then to nobody (the default), later, others or an expert."""
        return self._post(f"reviews/{review_id}/skip", reason=reason, then=then)

    def get_draft(self, review_id: int) -> Answer:
        """What you typed into a review and have not sent; {} when there is nothing."""
        return self._get(f"reviews/{review_id}/draft")

    def save_draft(self, review_id: int, *, version: int, data: Mapping[str, Any]) -> Answer:
        """Keep what you typed; `version` is that of the draft it was made from, 0 for none."""
        return self.send(Call("PUT", f"reviews/{review_id}/draft", body={"version": version, "data": dict(data)}))

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

    def get_feedback(self, feedback_id: int) -> Answer:
        return self._get(f"feedback/{feedback_id}")

    def undo_feedback(self, feedback_id: int) -> Answer:
        """Take your judgement back as if it had not been; the answer is the review, yours again."""
        return self._post(f"feedback/{feedback_id}/undo")

    def retract_feedback(self, feedback_id: int, *, reason: str) -> Answer:
        """Let a judgement count for nothing from now on; `effect` says what had learnt from it."""
        return self._post(f"feedback/{feedback_id}/retract", reason=reason)

    def appeal_feedback(self, feedback_id: int, *, reason: str) -> Answer:
        """Ask a third person about a judgement; the answer is their review."""
        return self._post(f"feedback/{feedback_id}/appeal", reason=reason)

    # --- what the gateway saw ---
    def list_sessions(self, **params: Any) -> Answer:
        return self._get("sessions", **params)

    def get_session(self, session_id: int) -> Answer:
        return self._get(f"sessions/{session_id}")

    def list_exchanges(self, **params: Any) -> Answer:
        """Exchanges, newest first: `session=…` for those of one conversation."""
        return self._get("exchanges", **params)

    def get_exchange(self, exchange_id: int | str) -> Answer:
        """An exchange with its words and exact tokens, by its number or its public id."""
        return self._get(f"exchanges/{quote(str(exchange_id), safe='')}")

    # --- skills, data sets, benchmark runs, experiments ---
    def list_skills(self, **params: Any) -> Answer:
        return self._get("skills", **params)

    def get_skill(self, skill_id: int) -> Answer:
        return self._get(f"skills/{skill_id}")

    def write_skill(self, *, project: str, name: str, description: str, body: str) -> Answer:
        """A new skill, or the next version of the one of this name."""
        return self._post("skills", project=project, name=name, description=description, body=body)

    def switch_skill(self, skill_id: int, *, is_active: bool) -> Answer:
        return self._patch(f"skills/{skill_id}", is_active=is_active)

    def list_datasets(self, **params: Any) -> Answer:
        return self._get("datasets", **params)

    def list_eval_runs(self, **params: Any) -> Answer:
        return self._get("eval-runs", **params)

    def list_eval_results(self, run_id: int, **params: Any) -> Answer:
        return self._get(f"eval-runs/{run_id}/results", **params)

    def list_experiments(self, **params: Any) -> Answer:
        return self._get("experiments", **params)

    # --- webhooks ---
    def list_webhooks(self, **params: Any) -> Answer:
        return self._get("webhooks", **params)

    def get_webhook(self, webhook_id: int) -> Answer:
        return self._get(f"webhooks/{webhook_id}")

    def create_webhook(self, *, project: str, url: str, **settings: Any) -> Answer:
        """Tell an address what happens; the answer's `secret` is shown this once.

        Args:
            settings: name, kinds, include_details, allow_private.
        """
        return self._post("webhooks", project=project, url=url, **settings)

    def change_webhook(self, webhook_id: int, **changes: Any) -> Answer:
        return self._patch(f"webhooks/{webhook_id}", **changes)

    def delete_webhook(self, webhook_id: int) -> Answer:
        return self._delete(f"webhooks/{webhook_id}")

    def rotate_webhook(self, webhook_id: int) -> Answer:
        """A new secret, in the answer; the old one signs too for a day."""
        return self._post(f"webhooks/{webhook_id}/rotate")

    def try_webhook(self, webhook_id: int) -> Answer:
        """Send a test message; the answer is its delivery."""
        return self._post(f"webhooks/{webhook_id}/test")

    def redeliver_all(self, webhook_id: int) -> Answer:
        """Send again what was given up."""
        return self._post(f"webhooks/{webhook_id}/redeliver")

    def list_deliveries(self, **params: Any) -> Answer:
        """Messages to webhooks: `state="dead"` for those given up."""
        return self._get("deliveries", **params)

    def redeliver(self, delivery_id: int) -> Answer:
        return self._post(f"deliveries/{delivery_id}/redeliver")

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
        end_user: str | None = None,
    ) -> Answer:
        """Train now, with what the worker's batch holds, or one person's; `recipe` holds fields for this run alone."""
        return self._post("runs", project=project, worker=worker, backend=backend, recipe=recipe, end_user=end_user)

    def train_scorer(self, *, project: str, worker: str) -> Answer:
        """Train a step scorer now, on what is labelled; the answer is the run."""
        return self._post("reward-models", project=project, worker=worker)

    def list_scorers(self, **params: Any) -> Answer:
        return self._get("reward-models", **params)

    def get_scorer(self, scorer_id: int) -> Answer:
        return self._get(f"reward-models/{scorer_id}")

    def retire_scorer(self, scorer_id: int) -> Answer:
        return self._post(f"reward-models/{scorer_id}/retire")

    def list_runs(self, **params: Any) -> Answer:
        return self._get("runs", **params)

    def get_run(self, run_id: int) -> Answer:
        return self._get(f"runs/{run_id}")

    def get_run_metrics(self, run_id: int) -> Answer:
        return self._get(f"runs/{run_id}/metrics")

    def cancel_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/cancel")

    def pause_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/pause")

    def resume_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/resume")

    def list_manager_runs(self, **params: Any) -> Answer:
        """What managers learnt from audits."""
        return self._get("manager-runs", **params)

    def get_manager_run(self, manager_run_id: int) -> Answer:
        return self._get(f"manager-runs/{manager_run_id}")

    def roll_back_manager_run(self, manager_run_id: int, *, reason: str) -> Answer:
        """Let a manager judge by the weights before a fit again."""
        return self._post(f"manager-runs/{manager_run_id}/rollback", reason=reason)

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

    def quarantine_adapter(self, adapter_id: int, *, reason: str) -> Answer:
        """Put an adapter under suspicion."""
        return self._post(f"adapters/{adapter_id}/quarantine", reason=reason)

    def release_adapter(self, adapter_id: int, *, reason: str) -> Answer:
        """Let an adapter out of quarantine."""
        return self._post(f"adapters/{adapter_id}/release", reason=reason)

    def roll_back_adapter(self, adapter_id: int) -> Answer:
        """Take a serving adapter out of service."""
        return self._post(f"adapters/{adapter_id}/rollback")

    def get_canary(self, adapter_id: int) -> Answer:
        """How the trial of an adapter stands."""
        return self._get(f"adapters/{adapter_id}/canary")

    def start_canary(self, adapter_id: int, *, percent: int) -> Answer:
        """Try an adapter on a share of its worker's new tasks."""
        return self._post(f"adapters/{adapter_id}/canary", percent=percent)

    def change_canary(self, adapter_id: int, *, percent: int) -> Answer:
        """Give a trial another share; what was seen so far counts no more."""
        return self._patch(f"adapters/{adapter_id}/canary", percent=percent)

    def stop_canary(self, adapter_id: int) -> Answer:
        return self._delete(f"adapters/{adapter_id}/canary")

    def get_shadow(self, adapter_id: int) -> Answer:
        """How an adapter does in the shadow of what serves."""
        return self._get(f"adapters/{adapter_id}/shadow")

    def start_shadow(self, adapter_id: int, *, percent: int) -> Answer:
        """Have an adapter answer a share of its worker's new tasks once more, shown to nobody."""
        return self._post(f"adapters/{adapter_id}/shadow", percent=percent)

    def stop_shadow(self, adapter_id: int) -> Answer:
        return self._delete(f"adapters/{adapter_id}/shadow")

    # --- records ---
    def list_audit(self, **params: Any) -> Answer:
        return self._get("audit", **params)

    def verify_audit(self) -> Answer:
        return self._get("audit/verify")

    def get_learning(self, *, project: str, worker: str) -> Answer:
        """A worker's learning curve."""
        return self._get("metrics/learning", project=project, worker=worker)

    def get_cost(self, *, project: str, **params: Any) -> Answer:
        """What a project's models cost."""
        return self._get("metrics/cost", project=project, **params)

    def get_queues(self, *, project: str | None = None) -> Answer:
        return self._get("metrics/queues", project=project)

    def list_dead_letters(self, **params: Any) -> Answer:
        return self._get("dead-letters", **params)

    def replay(self, dead_letter_id: int) -> Answer:
        """Take up a dead letter at the link it died at."""
        return self._post(f"dead-letters/{dead_letter_id}/replay")


def _given(body: Mapping[str, Any]) -> Json:
    return {name: value for name, value in body.items() if value is not None}
