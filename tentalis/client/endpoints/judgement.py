"""Reviews, feedback, and what a person wants forgotten."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tentalis.client.endpoints.calls import Answer, Call, Sender


class Judgement(Sender[Answer]):
    """Reviews, feedback, and what a person wants forgotten."""

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

    def give_feedback(self, review_id: int, **judgement: Any) -> Answer:
        """Close a review.

        Args:
            judgement: score, text, steps ([{attempt, index, score, comment}]), preferred_attempt, edited_answer.
        """
        return self._post(f"reviews/{review_id}/feedback", **judgement)

    def give_task_feedback(self, task_id: int, **judgement: Any) -> Answer:
        """Judge a task nobody asked about; `judgement` as in `give_feedback`."""
        return self._post("feedback", task=task_id, **judgement)

    def give_session_feedback(self, session_id: int | str, **judgement: Any) -> Answer:
        """Judge the last answer of a conversation, by its number or its key; `judgement` as in `give_feedback`."""
        return self._post(f"sessions/{quote(str(session_id), safe='')}/feedback", **judgement)

    def give_exchange_feedback(self, exchange_id: int | str, **judgement: Any) -> Answer:
        """Judge one answer of a conversation; `judgement` as in `give_feedback`.

        Args:
            exchange_id: its number, its public id, or the id of the answer's body.
        """
        return self._post(f"exchanges/{quote(str(exchange_id), safe='')}/feedback", **judgement)

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

    def keep_feedback(self, feedback_id: int, *, right: str = "", match: str = "") -> Answer:
        """Make a person's correction a regression case; `right`: what is right, where neither task nor edit says it,
        `match`: exact, contains or number."""
        told = {"right": right, "match": match} if right else {}
        return self._post(f"feedback/{feedback_id}/keep", **{name: value for name, value in told.items() if value})

    def appeal_feedback(self, feedback_id: int, *, reason: str) -> Answer:
        """Ask a third person about a judgement; the answer is their review."""
        return self._post(f"feedback/{feedback_id}/appeal", reason=reason)

    def list_gold(self, **params: Any) -> Answer:
        """Control items: tasks whose right judgement is known."""
        return self._get("gold", **params)

    def get_gold(self, gold_id: int) -> Answer:
        return self._get(f"gold/{gold_id}")

    def add_gold(
        self, task_id: int, *, feedback: int | None = None, expected: Mapping[str, Any] | None = None
    ) -> Answer:
        """Hand a task out as a control item; the truth is a feedback, `expected`, or else what was verified.

        Args:
            expected: {"score": 0..1, "attempts": {"<index>": 0..1}}, either of them.
        """
        return self._post("gold", task=task_id, feedback=feedback, expected=expected)

    def remove_gold(self, gold_id: int) -> Answer:
        return self._delete(f"gold/{gold_id}")
