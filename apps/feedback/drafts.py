"""What somebody has typed into a review and not sent: kept through a closed tab, a dead server and a lost lease."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.services import require_role
from apps.base.errors import BadInputError
from apps.feedback.errors import DraftClosedError, StaleDraftError
from apps.feedback.judgement import JudgementInput
from apps.feedback.models import Feedback, Review, ReviewDraft
from apps.feedback.rights import REVIEWERS

MAX_DRAFT_BYTES = 256 * 1024


def save_draft(*, review: Review, by: User, data: Mapping[str, Any], version: int) -> ReviewDraft:
    """Keep what `by` has typed so far, whoever holds the review now.

    Saving the same again is no fault: an answer that was lost on its way may be asked for twice.

    Args:
        data: the form's fields by name.
        version: of the draft that was changed; 0 where there was none.
    Raises:
        NotFoundError, NotAllowedError: `by` may not review in the project.
        BadInputError: more than 256 KB of JSON, or a NUL in it.
        StaleDraftError: another tab saved a newer one, which the error carries.
        DraftClosedError: `by` has given the judgement already.
    """
    require_role(by, review.project, *REVIEWERS)
    _check(data)
    if _has_given(review, by):
        raise DraftClosedError(f"review {review.pk} has {by.handle}'s judgement; there is nothing left to draft")
    mine = ReviewDraft.objects.filter(review=review, user=by)
    with transaction.atomic():
        changed = mine.filter(version=version).update(data=dict(data), version=F("version") + 1, updated_at=Now())
        if not changed and version == 0:
            _, changed = ReviewDraft.objects.get_or_create(review=review, user=by, defaults={"data": dict(data)})
    newer = mine.first()
    if not changed and (newer is None or newer.data != dict(data)):
        found = f"version {newer.version}" if newer else "none"
        raise StaleDraftError(f"draft of review {review.pk}: wanted version {version}, found {found}", newer=newer)
    if newer is None:
        raise StaleDraftError(f"draft of review {review.pk}: it was removed meanwhile", newer=None)
    return newer


def find_draft(review: Review, by: User) -> ReviewDraft | None:
    """What `by` typed and has not sent; None where there is nothing, or the judgement was given."""
    draft = ReviewDraft.objects.filter(review=review, user=by).first()
    return None if draft is None or _has_given(review, by) else draft


def close_draft(review: Review, by: User, *, kept: Mapping[str, Any] | None, is_kept: bool) -> None:
    """Put the draft away when the judgement is given; others' drafts of the review stay theirs.

    Args:
        kept: what `by` sent, to bring back with an undo; None keeps what was saved last.
        is_kept: whether it is kept at all, out of sight.
    """
    if not is_kept:
        ReviewDraft.objects.filter(review=review, user=by).delete()
    elif kept is not None and _is_storable(kept):
        ReviewDraft.objects.update_or_create(review=review, user=by, defaults={"data": dict(kept)})


def reopen_draft(review: Review, by: User, judgement: JudgementInput) -> ReviewDraft:
    """Bring the draft back after an undo; where nothing was typed, {"words": what was said in the API's terms}."""
    draft, is_new = ReviewDraft.objects.get_or_create(
        review=review, user=by, defaults={"data": {"words": judgement.to_json()}}
    )
    if not is_new:
        ReviewDraft.objects.filter(pk=draft.pk).update(version=F("version") + 1)
        draft.refresh_from_db()
    return draft


def _has_given(review: Review, by: User) -> bool:
    return Feedback.objects.standing().filter(review=review, author=by.handle).exists()


def _is_storable(data: Mapping[str, Any]) -> bool:
    try:
        _check(data)
    except BadInputError:
        return False
    return True


def _check(data: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        size_bytes = len(text.encode())
    except (TypeError, ValueError) as error:
        raise BadInputError(f"draft: wanted JSON, found {error}") from None
    if size_bytes > MAX_DRAFT_BYTES:
        raise BadInputError(f"draft: wanted at most {MAX_DRAFT_BYTES:,} bytes, found {size_bytes:,}")
    if "\\u0000" in text.replace("\\\\", ""):
        raise BadInputError("draft: wanted text without NUL characters, found one")
