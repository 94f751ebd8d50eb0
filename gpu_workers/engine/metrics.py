"""What /metrics shows, under vLLM's names where vLLM has one."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from gpu_workers.engine.bases import Bases
from gpu_workers.engine.engine import Engine
from gpu_workers.engine.jobs import Job


class EngineMetrics(Collector):
    """Request counts and latencies, and the engine's own gauges read when scraped."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "vllm:request_success", "Finished choices", ["model_name", "finished_reason"], registry=self._registry
        )
        self._failures = Counter(
            "tentalis_engine_request_failures", "Requests without an answer", ["reason"], registry=self._registry
        )
        self._latency = Histogram(
            "vllm:e2e_request_latency_seconds", "From arrival to the whole answer", registry=self._registry
        )
        self._first_token = Histogram(
            "vllm:time_to_first_token_seconds", "From arrival to the first streamed token", registry=self._registry
        )

    def count_request(self, job: Job) -> None:
        """Note a request that is over, one way or another."""
        if job.is_cancelled or job.error is not None or job.unfinished:
            self._failures.labels("cancelled" if job.is_cancelled else "error").inc()
            return
        self._latency.observe(time.monotonic() - job.created_s)
        for sample in job.finished_samples():
            self._requests.labels(job.loaded.name, sample.finish_reason).inc()

    def note_first_token(self, job: Job) -> None:
        self._first_token.observe(time.monotonic() - job.created_s)

    def expose(self) -> bytes:
        """The Prometheus text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        engines = list(self._bases.loaded())
        loads = [engine.scheduler for engine in engines]
        adapters = sum(len(engine.models.now()) - 1 for engine in engines)
        for name, help_text, value in (
            ("vllm:num_requests_running", "Choices that decode now", sum(load.running_rows for load in loads)),
            ("vllm:num_requests_waiting", "Prompts that wait", sum(load.waiting_prompts for load in loads)),
            ("tentalis_engine_adapters", "Adapters that can be asked for", adapters),
            ("tentalis_engine_bases", "Base models in memory", len(engines)),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)
        arithmetic = GaugeMetricFamily(
            "tentalis_engine_arithmetic", "What a base model computes in", labels=["model_name", "precision", "device"]
        )
        for engine in engines:
            if isinstance(engine, Engine):
                arithmetic.add_metric([engine.base.name, engine.computes_in, engine.device], 1)
        yield arithmetic
        tally = self._bases.count_up()
        for name, help_text, value in (
            ("vllm:prompt_tokens", "Prompt tokens read (shared ones once)", tally.prompt_tokens),
            ("vllm:prefix_cache_queries", "Prompt tokens looked for", tally.prompt_tokens + tally.reused_tokens),
            ("vllm:prefix_cache_hits", "Prompt tokens known from before, and not read", tally.reused_tokens),
            ("vllm:generation_tokens", "Tokens drawn", tally.generation_tokens),
            ("tentalis_engine_steps", "Steps of the scheduler", tally.steps),
        ):
            yield CounterMetricFamily(name, help_text, value=value)
