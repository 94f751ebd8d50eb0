"""Addresses that are told what happens, and the messages to them."""

from typing import Any

from tentalis.client.endpoints.calls import Answer, Sender


class Webhooks(Sender[Answer]):
    """Addresses that are told what happens, and the messages to them."""

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
