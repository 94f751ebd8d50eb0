"""People and agents, the projects they share, their rights and their tokens."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.base.models import Stateful, Timestamped

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class User(AbstractUser):
    """Someone who signs in, or an agent that holds tokens."""

    is_agent = models.BooleanField(default=False, help_text="An agent: has tokens, never a password.")
    may_make_projects = models.BooleanField(
        default=False, help_text="A person who may make projects; admins may anyway."
    )

    @property
    def handle(self) -> str:
        """How the audit names this user."""
        return f"agent:{self.username}" if self.is_agent else f"user:{self.username}"


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: "User | AnonymousUser") -> "ProjectQuerySet":
        """Projects the user is a member of; all of them for a superuser; none for nobody."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_superuser:
            return self
        return self.filter(members__user=user)

    def active(self) -> "ProjectQuerySet":
        """Those that were not archived."""
        return self.filter(archived_at=None)


class Project(Timestamped):
    """A team's space. Nothing crosses projects."""

    slug = models.SlugField(unique=True, max_length=64)
    name = models.CharField(max_length=200)
    rubric = models.TextField(
        blank=True, help_text="What good work is, in the team's words; judges and managers read it."
    )
    constitution = models.TextField(
        blank=True, help_text="Principles that hold above the rubric, in every task; judges and managers read them."
    )
    weight_profiles = models.JSONField(
        default=dict, blank=True, help_text="environment -> {scorer: weight}; empty: the built-in."
    )
    review_policy = models.JSONField(
        default=dict, blank=True, help_text="Which tasks wait for whom; empty: the built-in."
    )
    gate_policy = models.JSONField(default=dict, blank=True, help_text="Panel, margin, patience of the promotion gate.")
    recipe = models.JSONField(default=dict, blank=True, help_text="Learning recipe; empty: the built-in.")
    training_policy = models.JSONField(
        default=dict,
        blank=True,
        help_text="When and at what cost to train: hours, calendar, idle time, quota; empty: at once.",
    )
    group_size = models.PositiveSmallIntegerField(default=8, help_text="Attempts at a task, compared with each other.")
    batch_tasks = models.PositiveIntegerField(default=24, help_text="Tasks that fill a training batch.")
    learning_enabled = models.BooleanField(default=True)
    held_out_percent = models.PositiveSmallIntegerField(
        default=10,
        db_default=10,
        help_text="Share of its own work that is put aside to measure on, where its world holds none out; 0: none.",
    )
    has_held_out = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Items of its own are held out, or once were."
    )
    session_policy = models.JSONField(
        default=dict,
        blank=True,
        help_text="How conversations are learnt from: idle time, signals, redaction; empty: the built-in.",
    )
    limits = models.JSONField(
        default=dict,
        blank=True,
        help_text="requests_per_minute, tokens_per_minute, tokens_per_day, usd_per_day; empty: none.",
    )
    archived_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it takes no new task and no gateway call; null: it takes them."
    )

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(group_size__gte=1, group_size__lte=64), name="group_size_is_1_to_64"),
            models.CheckConstraint(condition=Q(batch_tasks__gte=1), name="batch_tasks_is_positive"),
            models.CheckConstraint(condition=Q(held_out_percent__lte=50), name="held_out_percent_is_0_to_50"),
        ]

    def __str__(self) -> str:
        return self.slug


class Role(models.TextChoices):
    OWNER = "owner"
    MANAGER = "manager"
    REVIEWER = "reviewer"
    AUDITOR = "auditor"
    VIEWER = "viewer"
    AGENT = "agent"


class Member(Timestamped):
    """A user's role in a project."""

    GOES_WITH_PROJECT: ClassVar = True  # no evidence of work: a project that holds only such rows can be deleted

    project = models.ForeignKey(Project, models.CASCADE, related_name="members")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_role_per_member"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="member_role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class Invitation(Stateful):
    """A role in a project, offered to a person by name. It makes them a member when they accept it.

    Attributes:
        username: as the owner wrote it; whether anybody has that name is not said.
        code_hash: keyed hash of the code in the link, which is shown once.
    """

    GOES_WITH_PROJECT: ClassVar = True

    class State(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    MOVES: ClassVar = {
        State.OPEN: frozenset({State.ACCEPTED, State.DECLINED, State.WITHDRAWN}),
        State.ACCEPTED: frozenset(),
        State.DECLINED: frozenset(),
        State.WITHDRAWN: frozenset(),
    }
    EVENTS: ClassVar = {
        State.ACCEPTED: "invitation.accepted",
        State.DECLINED: "invitation.declined",
        State.WITHDRAWN: "invitation.withdrawn",
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="invitations")
    username = models.CharField(max_length=150)
    role = models.CharField(max_length=16, choices=Role.choices)
    code_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "username"], condition=Q(state="open"), name="one_open_invitation_per_name"
            ),
            models.CheckConstraint(
                condition=Q(role__in=[role for role in Role.values if role != Role.AGENT]), name="invited_to_a_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username} as {self.role} of {self.project}"


class ApiToken(Timestamped):
    """A bearer token `tnt_<key id>_<secret>`; only the secret's keyed hash is kept."""

    key_id = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64)
    name = models.CharField(max_length=100)
    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True, related_name="tokens")
    scopes = models.JSONField(default=list)
    limits = models.JSONField(default=dict, blank=True, help_text="As a project's, for this token alone.")
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    confirmed_at = models.DateTimeField(
        null=True, blank=True,
        help_text="Made by signing in: when its person last proved who they are. Null: made for a program.",
    )  # fmt: skip
    made_with = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="children",
        help_text="The token that made this one: it ends with that one at the latest.",
    )  # fmt: skip

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"tnt_{self.key_id}_…"


class BrowserSession(AbstractBaseSession):
    """A browser that is signed in, or about to be. Only the keyed hash of its cookie is kept.

    Attributes:
        user: None while nobody is signed in.
        address, device: of the browser when it signed in; `device` in its own words.
    """

    session_key = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="browser_sessions")
    address = models.CharField(max_length=64, blank=True)
    device = models.CharField(max_length=300, blank=True)
    signed_in_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"browser of {self.user}"

    @classmethod
    def get_session_store_class(cls) -> Any:
        from apps.accounts.browser_sessions import SessionStore

        return SessionStore


class AuthenticatorApp(Timestamped):
    """The secret that a person shares with an app on their phone, which shows a code of six digits (RFC 6238).

    Attributes:
        confirmed_at: None until a first code was right; it asks nobody for anything before.
        last_step: the time step, of 30 s since 1970, of the last code that was used: none of it or before works again.
    """

    user = models.OneToOneField(User, models.CASCADE, related_name="authenticator_app")
    secret_sealed = models.BinaryField(default=bytes)
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"app of {self.user}"

    def sealed_for(self, field: str = "secret_sealed") -> str:
        return f"accounts_authenticatorapp {self.user_id} {field}"


class Passkey(Timestamped):
    """A key pair that a person's device or stick keeps for this installation (WebAuthn); here is its public half."""

    user = models.ForeignKey(User, models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=100)
    credential_id = models.BinaryField(unique=True)
    credential = models.BinaryField(help_text="Attested credential data as WebAuthn writes it, the public key in it.")
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"


class RecoveryCode(Timestamped):
    """A code for the day the phone is lost; it works once, and only its keyed hash is kept."""

    user = models.ForeignKey(User, models.CASCADE, related_name="recovery_codes")
    code_hash = models.CharField(max_length=64, unique=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"recovery code of {self.user}"
