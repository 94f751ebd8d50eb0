"""Environments as REST shows them."""

from typing import Any, get_args

from rest_framework import serializers

from apps.api.serializers.strict import StrictSerializer, TextField, WholeNumberField, WordField
from apps.worlds.certificates import State
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.repos.admitting import PARSERS
from tentalis.limits import LIMITS
from tentalis.verification.store import SPLITS


class WorldCheckOut(serializers.Serializer[Any]):
    """One thing that an examination looked at."""

    name = serializers.CharField()
    passed = serializers.BooleanField(allow_null=True, help_text="null: it could not be looked at.")
    words = serializers.CharField()


class WorldCertificateOut(serializers.Serializer[Any]):
    """What an examination of an environment found."""

    id = serializers.IntegerField()
    sha256 = serializers.CharField(help_text="Of all files that the environment was made of.")
    passed = serializers.BooleanField()
    checks = WorldCheckOut(many=True)
    figures = serializers.DictField(help_text="Episodes, steps, steps a second, medians in ms, memory in MiB.")
    accepted = serializers.CharField(help_text="Why it may train although it did not pass; empty: it may not.")
    examined_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class WorldOut(serializers.Serializer[Any]):
    """An environment that tasks can be in."""

    name = serializers.CharField()
    title = serializers.CharField(source="label", help_text="What people call it.")
    noun = serializers.CharField(help_text="What a task is called there.")
    has_turns = serializers.BooleanField(help_text="Its attempts are episodes of calls and observations.")
    version = serializers.CharField()
    sha256 = serializers.CharField(help_text="Of all files that it is made of now.")
    may_train = serializers.BooleanField(allow_null=True, help_text="null: there is nothing to examine, and it may.")
    state = serializers.ChoiceField(
        choices=get_args(State), help_text="Of its examination; changed: it is another than was examined."
    )
    words = serializers.CharField(help_text="Why it may or may not.")
    certificate = WorldCertificateOut(allow_null=True, help_text="Of it as it is now.")


class WorldsOut(serializers.Serializer[Any]):
    """All environments of this installation."""

    results = WorldOut(many=True)


class RepoTaskOut(serializers.Serializer[Any]):
    """A task of a repository of one's own."""

    name = serializers.CharField(help_text="With the first digits of its hash: another text is another task.")
    split = serializers.ChoiceField(choices=SPLITS, help_text="Whether it is trained on, or only ever measured on.")
    tests = serializers.IntegerField(help_text="How many decide.")
    issue = serializers.CharField(help_text="The first line of what is asked, its beginning.")
    fault = serializers.CharField(help_text="Why it cannot be read; empty: it can.")


class RepoTasksOut(serializers.Serializer[Any]):
    """All tasks of own repositories of this installation."""

    results = RepoTaskOut(many=True)


class RepoTasksIn(StrictSerializer):
    """Tasks of own repositories that are handed in, all of one repository and one environment."""

    text = TextField(
        max_length=LIMITS.import_chars,
        help_text="JSON lines: rows of SWE-bench, or tasks as task.json has them (docs/guides/repo-tasks.md).",
    )
    split = WordField(choices=SPLITS, help_text="What they are added to: only ever measured on, or trained on.")
    repository = TextField(
        max_length=64,
        help_text="sha256 of a file that was sent to `uploads`: a git bundle that has the rows' commits, or a zip or "
        "tar of the files of the one that all rows have.",
    )
    wheels = serializers.DictField(
        child=TextField(max_length=64),
        default=dict,
        help_text="Name -> sha256 of each file that was sent to `uploads` and is installed for the tests.",
    )
    python = TextField(
        max_length=10,
        default="",
        allow_blank=True,
        help_text="Such as 3.11; empty: the machine's own. Of SWE-bench's rows.",
    )
    parser = WordField(
        choices=("", *PARSERS),
        default="",
        help_text="Whose tests they are; empty: django's own way for django, else by pytest. Of SWE-bench's rows.",
    )


class DroppedTestOut(serializers.Serializer[Any]):
    """A test that is not asked any more."""

    test = serializers.CharField()
    why = serializers.CharField()


class RepoTaskAdmissionOut(serializers.ModelSerializer[RepoTaskAdmission]):
    """A task that was handed in, and whether it may be used: then it is one of `repo-tasks`."""

    runs_wanted = serializers.IntegerField(source="RUNS", help_text="Three on the base, three on the gold patch.")
    tests = serializers.SerializerMethodField(help_text="How many decide; null until that is found out.")
    leak = serializers.FloatField(
        source="report.leak", default=None, allow_null=True, help_text="Share of the fix that stands in the issue."
    )
    dropped = DroppedTestOut(source="report.dropped", many=True, default=(), help_text="Flaky ones.")

    class Meta:
        model = RepoTaskAdmission
        fields = (
            "id", "name", "split", "state", "runs", "runs_wanted", "tests", "leak", "dropped", "reason", "added_as",
            "asked_by", "created_at", "finished_at",
        )  # fmt: skip
        extra_kwargs = {
            "runs": {"help_text": "Of its tests, that are done."},
            "reason": {"help_text": "Why it is quarantined, or why nothing could be found out."},
            "added_as": {"help_text": "Its name among `repo-tasks`."},
        }

    def get_tests(self, row: RepoTaskAdmission) -> int | None:
        return row.count_tests()


class RepoTaskAdmissionsOut(serializers.Serializer[Any]):
    """Tasks that were handed in."""

    results = RepoTaskAdmissionOut(many=True)


class UploadOut(serializers.Serializer[Any]):
    """How far a file has come."""

    sha256 = serializers.CharField()
    received_bytes = serializers.IntegerField(help_text="Of its beginning: where the next part starts.")
    whole = serializers.BooleanField(help_text="All of it is there.")


class UploadPartIn(StrictSerializer):
    """A part of a file."""

    size_bytes = WholeNumberField(min_value=1, max_value=LIMITS.upload_bytes, help_text="Of the whole file.")
    offset = WholeNumberField(min_value=0, max_value=LIMITS.upload_bytes, help_text="Of the part in it.")
    part = TextField(max_length=LIMITS.import_chars, help_text="The part's bytes in base64.")
