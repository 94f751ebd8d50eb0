"""Training data, trainings, step scorers, what managers learnt."""

from typing import Any

from tentalis.client.endpoints.calls import Answer, Sender, leave_out_none


class Runs(Sender[Answer]):
    """Training data, trainings, step scorers, what managers learnt."""

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
        name: str | None = None,
    ) -> Answer:
        """Train now, with what the worker's batch holds, or one person's; `recipe` holds fields for this run alone."""
        return self._post(
            "runs", project=project, worker=worker, backend=backend, recipe=recipe, end_user=end_user, name=name
        )

    def describe_run(
        self, run_id: int, *, name: str | None = None, comment: str | None = None, tags: list[str] | None = None
    ) -> Answer:
        """Give a run a name, a comment, tags (all of them, anew); what is None stays."""
        return self._patch(f"runs/{run_id}", **leave_out_none({"name": name, "comment": comment, "tags": tags}))

    def train_scorer(self, *, project: str, worker: str, backend: str | None = None) -> Answer:
        """Train a step scorer now, on what is labelled; the answer is the run."""
        return self._post("reward-models", project=project, worker=worker, backend=backend)

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

    def get_run_cost(self, run_id: int) -> Answer:
        """What a run cost beside what it brought."""
        return self._get(f"runs/{run_id}/cost")

    def cancel_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/cancel")

    def pause_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/pause")

    def resume_run(self, run_id: int) -> Answer:
        return self._post(f"runs/{run_id}/resume")

    def retry_run(self, run_id: int, *, recipe: dict[str, Any] | None = None, recipe_from: str | None = None) -> Answer:
        """Train again what failed, was refused or was cancelled; `recipe` holds fields to change, of the run's own
        recipe or (`recipe_from="worker"`) of the one its worker has by now."""
        return self._post(f"runs/{run_id}/retry", recipe=recipe, recipe_from=recipe_from)

    def list_manager_runs(self, **params: Any) -> Answer:
        """What managers learnt from audits."""
        return self._get("manager-runs", **params)

    def get_manager_run(self, manager_run_id: int) -> Answer:
        return self._get(f"manager-runs/{manager_run_id}")

    def roll_back_manager_run(self, manager_run_id: int, *, reason: str) -> Answer:
        """Let a manager judge by the weights before a fit again."""
        return self._post(f"manager-runs/{manager_run_id}/rollback", reason=reason)
