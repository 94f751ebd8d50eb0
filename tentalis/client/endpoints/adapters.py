"""Adapters: their verdicts and origin, service, trials and shadows."""

from typing import Any

from tentalis.client.endpoints.calls import Answer, Sender


class Adapters(Sender[Answer]):
    """Adapters: their verdicts and origin, service, trials and shadows."""

    def list_adapters(self, **params: Any) -> Answer:
        return self._get("adapters", **params)

    def get_adapter(self, adapter_id: int) -> Answer:
        return self._get(f"adapters/{adapter_id}")

    def list_verdicts(self, adapter_id: int, **params: Any) -> Answer:
        return self._get(f"adapters/{adapter_id}/verdicts", **params)

    def get_regressions(self, adapter_id: int) -> Answer:
        """Corrections of answers before it, and which still hold."""
        return self._get(f"adapters/{adapter_id}/regressions")

    def ask_regressions(self, adapter_id: int) -> Answer:
        """Ask it the corrections that it inherits: the evaluations that do so."""
        return self._post(f"adapters/{adapter_id}/regressions")

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

    def compare_adapter(self, adapter_id: int) -> Answer:
        """Have people compare an adapter's answers blindly with those of what serves."""
        return self._post(f"adapters/{adapter_id}/compare")

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
