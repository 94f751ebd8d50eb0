"""Workers, tasks, attempts, and proposals of what an agent may do."""

from collections.abc import Mapping, Sequence
from typing import Any

from tentalis.client.endpoints.calls import Answer, Sender


class Work(Sender[Answer]):
    """Workers, tasks, attempts, and proposals of what an agent may do."""

    def list_workers(self, **params: Any) -> Answer:
        return self._get("workers", **params)

    def get_worker(self, worker_id: int) -> Answer:
        return self._get(f"workers/{worker_id}")

    def create_worker(self, *, project: str, name: str, kind: str, **settings: Any) -> Answer:
        return self._post("workers", project=project, name=name, kind=kind, **settings)

    def change_worker(self, worker_id: int, **changes: Any) -> Answer:
        return self._patch(f"workers/{worker_id}", **changes)

    def compare_base(self, worker_id: int) -> Answer:
        """Compare a worker's base weights with its model server; `base_compared` is what was found."""
        return self._post(f"workers/{worker_id}/compare")

    def delete_worker(self, worker_id: int) -> Answer:
        """Remove a worker that never worked."""
        return self._delete(f"workers/{worker_id}")

    def roll_back_worker(self, worker_id: int) -> Answer:
        """Return a worker to what served it before."""
        return self._post(f"workers/{worker_id}/rollback")

    def list_ensembles(self, **params: Any) -> Answer:
        return self._get("ensembles", **params)

    def get_ensemble(self, ensemble_id: int) -> Answer:
        return self._get(f"ensembles/{ensemble_id}")

    def create_ensemble(self, *, project: str, name: str, members: Sequence[str], wait_s: int | None = None) -> Answer:
        """Have workers of a project asked together, by the gateway's model `ensemble/NAME`."""
        return self._post("ensembles", project=project, name=name, members=list(members), wait_s=wait_s)

    def change_ensemble(self, ensemble_id: int, **changes: Any) -> Answer:
        return self._patch(f"ensembles/{ensemble_id}", **changes)

    def delete_ensemble(self, ensemble_id: int) -> Answer:
        return self._delete(f"ensembles/{ensemble_id}")

    def submit_task(
        self,
        *,
        project: str,
        prompt: str,
        environment: str,
        worker: str | None = None,
        group_size: int | None = None,
        reference: Any = None,
        checks: Any = None,
        parent: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        seed: int | None = None,
        taskset: int | None = None,
    ) -> Answer:
        """Submit a task; `taskset`: the task is an item of it, which says what is right."""
        return self._post(
            "tasks",
            project=project,
            prompt=prompt,
            environment=environment,
            worker=worker,
            group_size=group_size,
            reference=reference,
            checks=checks,
            parent=parent,
            metadata=dict(metadata) if metadata is not None else None,
            seed=seed,
            taskset=taskset,
        )

    def import_tasks(
        self,
        *,
        project: str,
        text: str,
        form: str,
        environment: str,
        rows: str | None = None,
        name: str | None = None,
        worker: str | None = None,
        group_size: int | None = None,
        checks: Any = None,
    ) -> Answer:
        """Submit what a file holds, all of it or none: tasks, or finished work with its judgement; `checks`: of tasks
        whose row says none."""
        return self._post(
            "tasks/import",
            project=project,
            text=text,
            form=form,
            environment=environment,
            rows=rows,
            name=name,
            worker=worker,
            group_size=group_size,
            checks=checks,
        )

    def take_from_sessions(
        self,
        *,
        project: str,
        sessions: Sequence[int],
        environment: str,
        worker: str | None = None,
        group_size: int | None = None,
    ) -> Answer:
        """Submit what was asked first in recorded sessions (`list_asked`), all of them or none."""
        return self._post(
            "tasks/from-sessions",
            project=project,
            sessions=list(sessions),
            environment=environment,
            worker=worker,
            group_size=group_size,
        )

    def list_tasks(self, **params: Any) -> Answer:
        return self._get("tasks", **params)

    def get_task(self, task_id: int, *, wait_s: int | None = None, seen: str | None = None) -> Answer:
        """A task; with `wait_s` (at most 30, and less than this client's timeout) once its state is not `seen`."""
        return self._get(f"tasks/{task_id}", wait=wait_s, seen=seen)

    def cancel_task(self, task_id: int) -> Answer:
        return self._post(f"tasks/{task_id}/cancel")

    def list_attempts(self, task_id: int, **params: Any) -> Answer:
        return self._get(f"tasks/{task_id}/attempts", **params)

    def list_steps(self, attempt_id: int, **params: Any) -> Answer:
        """The steps of an attempt with their scores."""
        return self._get(f"attempts/{attempt_id}/steps", **params)

    def list_episodes(self, **params: Any) -> Answer:
        """Attempts that are played in turns, those under way among them."""
        return self._get("episodes", **params)

    def get_episode(self, episode_id: int) -> Answer:
        return self._get(f"episodes/{episode_id}")

    def list_episode_turns(self, episode_id: int, **params: Any) -> Answer:
        """The turns of an episode in order, as they happen; `after`: those behind this index."""
        return self._get(f"episodes/{episode_id}/turns", **params)

    def submit_attempt(
        self,
        *,
        task: int,
        answer: str,
        steps: Sequence[Mapping[str, Any]] = (),
        index: int | None = None,
        last: bool | None = None,
    ) -> Answer:
        """Hand in an outside agent's own try at a task: the only one, or the `index`-th of its group.

        Without steps the calls it made through the gateway for this try (`X-Tentalis-Task`, `X-Tentalis-Attempt`) are
        its steps.
        """
        own = [dict(step) for step in steps]
        return self._post("attempts", task=task, steps=own, answer=answer, index=index, last=last)

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

    def decide_proposal(self, proposal_id: int, *, decision: str, **fields: Any) -> Answer:
        """Say what becomes of a proposal.

        Args:
            decision: approve, reject, edit, hint or take_over.
            fields: reason of reject, action of edit, hint of hint, answer of take_over.
        """
        return self._post(f"proposals/{proposal_id}/decide", decision=decision, **fields)
