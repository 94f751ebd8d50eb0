"""What an admin sees above every page while something is wrong with the installation."""

from django.http import HttpRequest

from apps.operations.services import count_open


def show_alarms(request: HttpRequest) -> dict[str, int]:
    """How many alarms are open, for admins alone."""
    user = getattr(request, "user", None)
    return {"open_alarms": count_open()} if user is not None and user.is_superuser else {}
