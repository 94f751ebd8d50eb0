"""Projects, members, tokens, and signing in."""

from typing import Any, get_args

from django.core.validators import RegexValidator
from rest_framework import serializers

from apps.accounts.models import ApiToken, Invitation, Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import MAX_TOKEN_DAYS
from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import (
    NumberField,
    ObjectField,
    StrictSerializer,
    TextField,
    TrueFalseField,
    WholeNumberField,
    WordField,
)
from apps.feedback.judges import LEAST_RATE, MOST_MODEL_CHARS
from tentalis.core.field_limits import MAX_BATCH_TASKS, MAX_GROUP, MAX_GUIDELINES_CHARS, MAX_HELD_OUT_PERCENT
from tentalis.core.review_policy import Who

SLUG = RegexValidator(r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z", "wanted lower-case letters, digits and inner hyphens")
USERNAME = RegexValidator(r"^[\w.@+-]+\Z", "wanted letters, digits and @ . + - _")
SESSION_POLICY_HELP = (
    "How conversations are learnt from: learn (default false), idle_s, judge, votes, fastest_s (words that come "
    "sooner after an answer are a program's), people (all, named or nobody: in whose sessions next words count), "
    "redaction (mask, mask_loss_only or off), names to mask, "
    "sampling (keep, enforce or refuse: what the gateway does with a temperature and the like), keep_days (sessions "
    "that taught nothing are deleted so long after their last exchange; null: never); {}: the built-in."
)
LIMITS_HELP = (
    "What may be asked of models at most: requests_per_minute, tokens_per_minute, tokens_per_day, usd_per_day, "
    "usd_per_month; {}: no limits."
)


class ProjectOut(RowOut[Project]):
    """A team's space."""

    class Meta:
        model = Project
        fields = (
            "id slug name rubric constitution weight_profiles review_policy gate_policy recipe group_size batch_tasks "
            "held_out_percent learning_enabled limits session_policy training_policy archived_at created_at"
        )


class ProjectChange(StrictSerializer):
    """What of a project can change."""

    name = TextField(required=False, max_length=200)
    rubric = TextField(required=False, max_length=MAX_GUIDELINES_CHARS, allow_blank=True)
    constitution = TextField(required=False, max_length=MAX_GUIDELINES_CHARS, allow_blank=True)
    weight_profiles = ObjectField(required=False, help_text="environment -> {scorer: weight}; {}: the built-in.")
    review_policy = ObjectField(required=False, help_text="Which tasks wait for whom; {}: the built-in.")
    gate_policy = ObjectField(required=False, help_text="Margins and patience of the promotion gate.")
    recipe = ObjectField(required=False, help_text="Learning recipe; {}: the built-in.")
    group_size = WholeNumberField(required=False, min_value=1, max_value=MAX_GROUP)
    batch_tasks = WholeNumberField(required=False, min_value=1, max_value=MAX_BATCH_TASKS)
    held_out_percent = WholeNumberField(
        required=False,
        min_value=0,
        max_value=MAX_HELD_OUT_PERCENT,
        help_text="Share of its own work that is put aside to measure on, where its world holds none out; 0: none.",
    )
    learning_enabled = TrueFalseField(required=False)
    limits = ObjectField(required=False, help_text=LIMITS_HELP)
    session_policy = ObjectField(required=False, help_text=SESSION_POLICY_HELP)
    training_policy = ObjectField(required=False, help_text="Hours, calendar, quiet, quota and share of training.")


class ProjectIn(ProjectChange):
    """A new project."""

    slug = TextField(max_length=64, validators=[SLUG])
    name = TextField(max_length=200)


class JudgesOut(serializers.Serializer[Any]):
    """Who judges the work of a project, and how much of it."""

    who = serializers.ChoiceField(choices=get_args(Who))
    rate = serializers.FloatField(help_text="Share of the tasks that are judged.")
    human_rate = serializers.FloatField(help_text="Where both judge: share of these that a person judges as well.")
    model = serializers.CharField(help_text="Of the AI manager: SERVER/MODEL; empty: the installation's.")
    is_model_missing = serializers.BooleanField(
        help_text="An AI manager would say nothing here: no model is configured for it."
    )
    standing = serializers.CharField(
        help_text="Of the AI manager's model by its probes: above its bar, below it and why, or not probed."
    )
    left_open = serializers.IntegerField(
        help_text="Open reviews of who is not asked any more: each waits to be judged or skipped, or until it is due."
    )


class FavourOut(serializers.Serializer[Any]):
    """Reviewers, or one alone, who judge one worker or adapter apart from the rest, all kinder or all harder."""

    key = serializers.CharField()
    line = serializers.CharField(help_text="The worker or adapter.")
    raters = serializers.ListField(child=serializers.CharField())
    p = serializers.FloatField(help_text="Chance that anybody is ever named so where all judge independently.")
    tasks = serializers.IntegerField(help_text="Of the line, that they judged, each counted for itself.")
    share = serializers.FloatField(help_text="Of these, which they approve.")
    expected = serializers.FloatField(help_text="The same of the others, in the median.")
    known_right = serializers.FloatField(
        allow_null=True, help_text="Of the line, where the answer is known: share in which they are right."
    )
    known_items = serializers.IntegerField()
    cleared = serializers.BooleanField(help_text="Known answers agree with them there as often as elsewhere.")
    examples = serializers.ListField(child=serializers.IntegerField(), help_text="Ids of tasks.")
    found_at = serializers.DateTimeField()
    dismissed_by = serializers.CharField(help_text="Who looked into it; empty: nobody yet.")
    dismiss_reason = serializers.CharField()


class FavoursOut(serializers.Serializer[Any]):
    """The last look for reviewers who favour a worker or adapter, or hold one down."""

    screened_at = serializers.DateTimeField(allow_null=True, help_text="Null before the first look.")
    raters = serializers.IntegerField(help_text="That could be held beside others.")
    lines = serializers.IntegerField(help_text="Workers and adapters of which they judged enough.")
    reason = serializers.CharField(help_text="Why nothing can be told; empty where it can.")
    groups = FavourOut(many=True)


class JudgesChange(StrictSerializer):
    """Who judges from now on; what is left out stays."""

    who = WordField(required=False, choices=get_args(Who))
    rate = NumberField(required=False, min_value=LEAST_RATE, max_value=1)
    human_rate = NumberField(required=False, min_value=0, max_value=1)
    model = TextField(required=False, allow_blank=True, max_length=MOST_MODEL_CHARS)


class UserOut(RowOut[User]):
    """A person's account."""

    class Meta:
        model = User
        fields = "id username email is_active is_superuser may_make_projects date_joined last_login"


class NewUserOut(UserOut):
    """An account whose password was just set."""

    password = serializers.CharField(help_text="Theirs from now on; it is in this answer and nowhere else.")

    class Meta(UserOut.Meta):
        fields = UserOut.Meta.fields + " password"


class PasswordIn(StrictSerializer):
    """A password for somebody."""

    password = TextField(required=False, max_length=1000, help_text="Default: one is drawn.")


class ResetIn(PasswordIn):
    """Another password for somebody: this one, or one that is drawn."""

    password = TextField(required=False, max_length=1000)
    draw = TrueFalseField(required=False, help_text="true: one is drawn.")


class UserIn(PasswordIn):
    """A new person. They are in no project before they accept an invitation."""

    username = TextField(max_length=150, validators=[USERNAME])
    email = TextField(required=False, max_length=254)


class UserChange(StrictSerializer):
    """What of an account can change."""

    is_active = TrueFalseField(required=False, help_text="false: nobody signs in with it, its tokens open nothing.")
    may_make_projects = TrueFalseField(required=False)


class MemberOut(RowOut[Member]):
    """A user's role in a project."""

    username = serializers.CharField(source="user.username")
    is_agent = serializers.BooleanField(source="user.is_agent")

    class Meta:
        model = Member
        fields = "id project username is_agent role created_at"


class MemberIn(StrictSerializer):
    """A new member: an agent (a new one's name holds the project's: `claw@shop`) or, as an admin, yourself."""

    project = TextField(max_length=64)
    username = TextField(max_length=150, validators=[USERNAME])
    role = WordField(choices=Role.choices)


class InvitationOut(RowOut[Invitation]):
    """A role offered to a person. They are a member when they accept it."""

    role = serializers.ChoiceField(choices=Role.choices)

    class Meta:
        model = Invitation
        fields = "id project username role invited_by state expires_at created_at"


class NewInvitationOut(InvitationOut):
    """An invitation just made: the only answer that holds its link. A replay under an Idempotency-Key says null."""

    link = serializers.CharField(allow_null=True, help_text="Give it to the person.")

    class Meta(InvitationOut.Meta):
        fields = InvitationOut.Meta.fields + " link"


class InvitationIn(StrictSerializer):
    """Who is offered which role. Whether anybody has that name is not said."""

    project = TextField(max_length=64)
    username = TextField(max_length=150, validators=[USERNAME])
    role = WordField(choices=[choice for choice in Role.choices if choice[0] != Role.AGENT])


class MemberChange(StrictSerializer):
    """Another role."""

    role = WordField(choices=Role.choices)


class TokenOut(RowOut[ApiToken]):
    """A token, without its secret."""

    username = serializers.CharField(source="user.username")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Right.choices))
    made_with = serializers.IntegerField(
        source="made_with_id", allow_null=True, help_text="The token that made it, and with which it ends."
    )

    class Meta:
        model = ApiToken
        fields = "id key_id name username project scopes limits created_at expires_at last_used_at revoked_at made_with"


class NewTokenOut(TokenOut):
    """A token just made: the only answer that holds its text. A replay under an Idempotency-Key says null."""

    token = serializers.CharField(allow_null=True)

    class Meta(TokenOut.Meta):
        fields = TokenOut.Meta.fields + " token"


class TokenIn(StrictSerializer):
    """A new token."""

    name = TextField(max_length=100)
    scopes = serializers.ListField(
        child=WordField(choices=Right.choices), required=False, allow_empty=False, help_text="Default: every scope."
    )
    project = TextField(required=False, max_length=64, help_text="Bind it to one project.")
    username = TextField(required=False, max_length=150, help_text="An agent of a project you own; default: yourself.")
    expires_in_days = WholeNumberField(
        required=False, min_value=1, max_value=MAX_TOKEN_DAYS,
        help_text="Default 90, or what is left of the token that asks; never more than that.",
    )  # fmt: skip
    limits = ObjectField(required=False, help_text=LIMITS_HELP)


class TokenChange(StrictSerializer):
    """What of a token can change."""

    limits = ObjectField(help_text=LIMITS_HELP)


class SignIn(StrictSerializer):
    """Name and password for a token."""

    username = TextField(max_length=150)
    password = TextField(max_length=1000)
    name = TextField(required=False, max_length=100, help_text="What to call the token.")
    scopes = serializers.ListField(
        child=WordField(choices=Right.choices), required=False, allow_empty=False,
        help_text="Default: those that your roles have.",
    )  # fmt: skip
    code = TextField(
        required=False, max_length=40,
        help_text="Of your authenticator app, or a recovery code: where you have a second factor.",
    )  # fmt: skip


class ConfirmIn(StrictSerializer):
    """Who one is, proved anew: by the password, or by a code where there is a second factor."""

    password = TextField(required=False, max_length=1000)
    code = TextField(required=False, max_length=40, help_text="Of your authenticator app, or a recovery code.")


class ConfirmedOut(serializers.Serializer[Any]):
    """How long the proof holds."""

    confirmed_at = serializers.DateTimeField()
    confirmed_until = serializers.DateTimeField()


class MembershipOut(serializers.Serializer[Any]):
    project = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class WhoAmIOut(serializers.Serializer[Any]):
    """Who is asking, with which rights."""

    username = serializers.CharField()
    is_agent = serializers.BooleanField()
    is_superuser = serializers.BooleanField()
    scopes = serializers.ListField(child=serializers.CharField())
    token_expires_at = serializers.DateTimeField(allow_null=True)
    memberships = MembershipOut(many=True)


class FindingOut(serializers.Serializer[Any]):
    """One reason why something does not train."""

    words = serializers.CharField()
    count = serializers.IntegerField()
    kind = serializers.CharField()


class WhyOut(serializers.Serializer[Any]):
    """Why nothing trains: most immediate first; empty when nothing is in the way."""

    findings = FindingOut(many=True)
