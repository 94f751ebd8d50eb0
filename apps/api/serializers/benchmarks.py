"""Benchmarks: the catalogue's, and those that projects have."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, WholeNumberField, WordField
from apps.api.serializers.work import PACKED
from apps.evals.asking import MOST_DRAW
from apps.evals.models import Benchmark
from apps.evals.pieces import MOST_PIECES
from apps.evals.row_files import FORMS
from tentalis.limits import LIMITS

ROW_FORMS = [(form, form) for form in (*FORMS, PACKED)]


class BenchmarkOut(RowOut[Benchmark]):
    """A benchmark as a project has it; its run is an evaluation."""

    class Meta:
        model = Benchmark
        fields = (
            "id project name version entry entry_version taskset split grader template tries licence needs source "
            "content_hash created_at"
        )


class CatalogueEntryOut(serializers.Serializer[Any]):
    """A benchmark that comes along."""

    name = serializers.CharField()
    version = serializers.CharField()
    about = serializers.CharField()
    group = serializers.CharField()
    licence = serializers.CharField()
    environment = serializers.CharField()
    grader = serializers.CharField(help_text="Empty: the environment verifies.")
    needs = serializers.ListField(child=serializers.CharField(), help_text="Beside a model.")
    columns = serializers.DictField(child=serializers.CharField(), help_text="Of a row that is brought for it.")
    sizes = serializers.DictField(child=serializers.IntegerField(), help_text="Items at first, by split.")
    origin = serializers.ListField(
        child=serializers.CharField(), help_text="Where a file of its rows is public: repository, configuration, split."
    )
    levels = serializers.IntegerField(help_text="Each a benchmark of its own, NAME:0 and so on; 0: none.")
    is_offline = serializers.BooleanField(help_text="It runs without a network and without a file.")


class CatalogueOut(serializers.Serializer[Any]):
    """All benchmarks that come along."""

    results = CatalogueEntryOut(many=True)


class BenchmarkIn(StrictSerializer):
    """A benchmark of the catalogue for a project."""

    project = TextField(max_length=64)
    name = TextField(max_length=100, help_text="Of the catalogue.")
    text = TextField(required=False, max_length=LIMITS.import_chars, help_text="Rows with the columns it wants.")
    form = WordField(required=False, choices=ROW_FORMS, help_text="Of the text.")
    pieces = serializers.ListField(
        required=False,
        child=TextField(max_length=64),
        allow_empty=False,
        max_length=MOST_PIECES,
        help_text="Hashes of pieces that were sent, in place of a text.",
    )
    origin = TextField(required=False, max_length=200, help_text="Where the rows come from, in words.")
    seed = WholeNumberField(min_value=0, max_value=MOST_DRAW, default=0, help_text="Of rows that it makes up.")


class PieceIn(StrictSerializer):
    """A packed file of rows."""

    project = TextField(max_length=64)
    packed = TextField(
        max_length=LIMITS.import_chars, help_text="A Parquet file, or a zip with one file of rows, in base64."
    )


class PieceOut(serializers.Serializer[Any]):
    """A piece that waits."""

    sha256 = serializers.CharField()


class RankedModelOut(serializers.Serializer[Any]):
    """A model of a leaderboard, and the places that it may have."""

    best = serializers.IntegerField(source="place.best", help_text="The best place that it may have, from 1.")
    worst = serializers.IntegerField(source="place.worst", help_text="The worst; between them nothing is shown.")
    evaluation = serializers.IntegerField(source="evaluation.pk")
    worker = serializers.CharField(source="evaluation.worker.name")
    adapter = serializers.CharField(source="evaluation.adapter.name", allow_null=True, default=None)
    items = serializers.IntegerField(source="evaluation.items", help_text="With an outcome.")
    mean_outcome = serializers.FloatField(source="evaluation.mean_outcome")
    low = serializers.FloatField(source="evaluation.low", help_text="Of the 95 % interval of the mean outcome.")
    high = serializers.FloatField(source="evaluation.high")
    behind = serializers.IntegerField(help_text="Others that are shown to be better.")
    ahead = serializers.IntegerField(help_text="Others that it is shown to be better than.")


class BoardOut(serializers.Serializer[Any]):
    """Models that were measured alike, best mean first."""

    rows = RankedModelOut(many=True)
    items = serializers.IntegerField()
    is_greedy = serializers.BooleanField(help_text="The likeliest answers instead of sampled ones.")
    graders = serializers.ListField(child=serializers.CharField(), help_text="With versions.")
    compared = serializers.IntegerField(help_text="Pairs of models; each p is corrected for all of them (Holm).")
    why = serializers.ListField(child=serializers.CharField(), help_text="Why others could not be compared.")
    left_out = serializers.IntegerField(help_text="Models beyond the newest that are ranked.")


class LeaderboardOut(serializers.Serializer[Any]):
    """Who does how well on a benchmark. Models of two boards were not measured alike and cannot be ranked."""

    benchmark = serializers.IntegerField(source="benchmark.pk")
    confidence = serializers.FloatField(help_text="That all places of a board hold together.")
    boards = BoardOut(many=True)
    elsewhere = serializers.ListField(
        child=serializers.CharField(), help_text="Models that were measured on other versions of it alone."
    )
