"""What the edge counts: plain numbers on the hot path, Prometheus' text when asked."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
PREFIX = "tentalis_gateway"
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Histogram:
    """Seconds in buckets."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def note(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sum_s += seconds

    def describe(self, name: str, text: str) -> HistogramMetricFamily:
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum_s)


class Metrics:
    """All of them.

    Attributes:
        answers: by dialect and status. failovers, fallbacks: by provider; 0: the installation's own.
        refusals: by code.
        gauges: read when asked.
    """

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.failovers: Counter[int] = Counter()
        self.fallbacks: Counter[int] = Counter()
        self.refusals: Counter[str] = Counter()
        self.truncated = 0
        self.tokens = 0
        self.latency = Histogram()
        self.first_byte = Histogram()
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def expose(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(f"{PREFIX}_answers", "Answers given.", labels=["api", "status"])
        for (api, status), count in self.answers.items():
            answers.add_metric([api, str(status)], count)
        yield answers
        for name, words, counts in (
            ("failovers", "Requests an upstream failed.", self.failovers),
            ("fallbacks", "Requests it answered in the place of a worker's own model.", self.fallbacks),
        ):
            family = CounterMetricFamily(f"{PREFIX}_{name}", words, labels=["provider"])
            for provider, count in counts.items():
                family.add_metric([str(provider)], count)
            yield family
        refusals = CounterMetricFamily(f"{PREFIX}_refusals", "Requests refused to shed load.", labels=["code"])
        for code, count in self.refusals.items():
            refusals.add_metric([code], count)
        yield refusals
        yield CounterMetricFamily(f"{PREFIX}_truncated", "Answers that broke off.", value=self.truncated)
        yield CounterMetricFamily(f"{PREFIX}_tokens", "Tokens of prompts and answers.", value=self.tokens)
        yield self.latency.describe(f"{PREFIX}_latency_seconds", "Until the answer's last byte.")
        yield self.first_byte.describe(f"{PREFIX}_first_byte_seconds", "Until the answer's first byte.")
        for name, (words, read) in self.gauges.items():
            yield GaugeMetricFamily(f"{PREFIX}_{name}", words, value=read())


def join_exposed(exposed: Mapping[str, bytes]) -> bytes:
    """What several processes expose, by name, as one: each sample has its process's name for a label more."""
    families: dict[str, Metric] = {}
    for process, text in exposed.items():
        for family in text_string_to_metric_families(text.decode()):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                known.samples.append(sample._replace(labels={**sample.labels, "process": process}))
    registry = CollectorRegistry()
    registry.register(_Joined(families.values()))
    return generate_latest(registry)


class _Joined(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
