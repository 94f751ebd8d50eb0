"""Environments as REST shows them."""

from typing import Any, get_args

from rest_framework import serializers

from apps.worlds.certificates import State
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
