"""The audit, metrics, dead letters, and one search over everything."""

from typing import Any

from tentalis.client.endpoints.calls import Answer, Sender


class Records(Sender[Answer]):
    """The audit, metrics, dead letters."""

    def list_audit(self, **params: Any) -> Answer:
        return self._get("audit", **params)

    def verify_audit(self) -> Answer:
        return self._get("audit/verify")

    def get_learning(self, *, project: str, worker: str) -> Answer:
        """A worker's learning curve."""
        return self._get("metrics/learning", project=project, worker=worker)

    def get_gain(self, *, project: str, worker: str) -> Answer:
        """What each training of a worker cost beside what it brought, and all of them."""
        return self._get("metrics/gain", project=project, worker=worker)

    def get_cost(self, *, project: str, **params: Any) -> Answer:
        """What a project's models cost."""
        return self._get("metrics/cost", project=project, **params)

    def search(self, *, project: str, q: str) -> Answer:
        """What of a project holds all words of a text, or has its number."""
        return self._get("search", project=project, q=q)

    def get_queues(self, *, project: str | None = None) -> Answer:
        return self._get("metrics/queues", project=project)

    def list_dead_letters(self, **params: Any) -> Answer:
        return self._get("dead-letters", **params)

    def get_dead_letter(self, dead_letter_id: int) -> Answer:
        return self._get(f"dead-letters/{dead_letter_id}")

    def replay_all(self, *, project: str, kind: str | None = None, error: str | None = None) -> Answer:
        """Take up a project's dead letters: all, or those of a kind of work or with this type of error."""
        return self._post("dead-letters/replay", project=project, kind=kind, error=error)

    def replay(self, dead_letter_id: int) -> Answer:
        """Take up a dead letter at the link it died at."""
        return self._post(f"dead-letters/{dead_letter_id}/replay")
