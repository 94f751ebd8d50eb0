"""Who favours whom, as it was last looked at: kept, told once, and looked into by a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, NotFoundError
from apps.base.texts import require_text
from apps.calibration.models import FavourScreen
from apps.calibration.services import MANAGERS
from tentalis.core.canon import content_hash
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.scoring.favour import Group, Screen


def keep_screen(*, project: Project, screen: Screen, examples: Mapping[str, Sequence[int]], by: str) -> FavourScreen:
    """Keep what a look for favours found; the audit tells of a group that is named for the first time.

    A group is an old one, with its time and whatever a person said of it, where the line is the same and it shares two
    of its raters, or its only one.

    Args:
        examples: key of a group (`name_group`) -> ids of tasks that show it.
    """
    with transaction.atomic():
        now = timezone.now()
        kept, _ = FavourScreen.objects.select_for_update(no_key=True).get_or_create(
            project=project, defaults={"screened_at": now}
        )
        old, groups, new = list(kept.groups), [], []
        for group in screen.groups:
            row = _tell_group(group, examples.get(name_group(group), ()))
            known = next((one for one in old if _is_same_group(one, row)), None)
            row |= {name: known[name] if known else "" for name in ("dismissed_by", "dismiss_reason")}
            row["found_at"] = known["found_at"] if known else now.isoformat()
            groups.append(row)
            if not row["cleared"] and (known is None or known["cleared"]):
                new.append(row)
        kept.screened_at, kept.raters, kept.lines, kept.reason = now, screen.raters, screen.lines, screen.reason
        kept.groups = groups
        kept.save()
        for row in new:
            payload = {name: row[name] for name in ("line", "raters", "p", "tasks", "share", "expected")}
            record(Kind.FAVOUR_SUSPECTED, subject=kept, by=by, payload=payload)
    return kept


def dismiss_group(*, project: Project, key: str, reason: str, by: User) -> FavourScreen:
    """Say why a group that favours somebody is none to act on; it is shown with that from then on.

    Raises:
        NotFoundError, NotAllowedError: `by` may not, or the last look found no such group.
        BadInputError: no reason, or one that is too long, or one is in the group oneself.
    """
    require_role(by, project, *MANAGERS)
    words = require_text("reason", reason, MAX_REASON_CHARS)
    with transaction.atomic():
        kept = FavourScreen.objects.select_for_update(no_key=True).filter(project=project).first()
        row = next((one for one in (kept.groups if kept else ()) if one["key"] == key), None)
        if kept is None or row is None:
            raise NotFoundError(f"no group {key} in {project.slug}")
        if by.handle in row["raters"]:
            raise BadInputError("somebody else has to judge your group", errors={"reason": ["Ask another manager."]})
        row["dismissed_by"], row["dismiss_reason"] = by.handle, words
        kept.save(update_fields=["groups"])
        payload = {"line": row["line"], "raters": row["raters"], "reason": words}
        record(Kind.FAVOUR_DISMISSED, subject=kept, by=by.handle, payload=payload)
    return kept


def name_group(group: Group) -> str:
    """What a group is asked for by, in a project."""
    return content_hash([group.line, list(group.raters)])[:16]


def _tell_group(group: Group, examples: Sequence[int]) -> dict[str, Any]:
    return {
        "key": name_group(group),
        "line": group.line,
        "raters": list(group.raters),
        "p": float(f"{group.p:.2g}"),
        "tasks": group.tasks,
        "share": round(group.share, 4),
        "expected": round(group.expected, 4),
        "known_right": None if group.known.value is None else round(group.known.value, 4),
        "known_items": group.known.items,
        "cleared": group.is_cleared,
        "examples": list(examples),
    }


def _is_same_group(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    common = len(set(old["raters"]) & set(new["raters"]))
    return old["line"] == new["line"] and common >= min(2, len(old["raters"]), len(new["raters"]))
