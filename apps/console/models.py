"""What people set for themselves: how the console looks and answers, and the filters they come back to."""

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Project, User
from apps.base.models import Timestamped

TOUR_DISMISSED: Final = -1
MAX_VIEW_NAME_CHARS: Final = 60
MAX_QUERY_CHARS: Final = 500


class Theme(models.TextChoices):
    SYSTEM = "system", _("As the system")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


# as short as the switch needs them
THEME_WORDS = {Theme.LIGHT: _("Light"), Theme.DARK: _("Dark"), Theme.SYSTEM: _("System")}


class Preference(models.Model):
    """One person's settings. Somebody without a row has every default."""

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="preference")
    theme = models.CharField(max_length=8, choices=Theme.choices, default=Theme.SYSTEM)
    time_zone = models.CharField(max_length=64, blank=True, help_text="IANA name; empty: as the browser says.")
    keys_enabled = models.BooleanField(default=True, help_text="Whether single keys do anything.")
    keys = models.JSONField(default=dict, blank=True, help_text="action -> key, where it is not the built-in one.")
    tour_step = models.SmallIntegerField(default=0, help_text="Steps of the tour that are done; -1: dismissed.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(theme__in=Theme.values), name="theme_is_known"),
            models.CheckConstraint(condition=Q(tour_step__gte=TOUR_DISMISSED), name="tour_step_is_a_step"),
        ]

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"

    @property
    def themes(self) -> list[tuple[str, str]]:
        """What there is to choose from, in the words of the switch."""
        return [(value.value, str(label)) for value, label in THEME_WORDS.items()]


class SavedView(Timestamped):
    """A list's filter under a name: one person's, or with no owner the whole team's."""

    GOES_WITH_PROJECT: ClassVar = True

    project = models.ForeignKey(Project, models.CASCADE, related_name="saved_views")
    owner = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="saved_views")
    page = models.CharField(max_length=40, help_text="Name of the list's path: `task-list`, `review-list`…")
    name = models.CharField(max_length=MAX_VIEW_NAME_CHARS)
    query = models.CharField(
        max_length=MAX_QUERY_CHARS, blank=True, help_text="Query string without page cursor or fragment."
    )

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "owner", "page", "name"], nulls_distinct=False, name="one_view_of_a_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.page})"
