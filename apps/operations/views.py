"""Figures for Prometheus."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from apps.operations import metrics
from tentalis.inbound.metrics import METRICS_READERS, may_read_metrics

metrics.register()


def show_metrics(request: HttpRequest) -> HttpResponse:
    """For whoever has the token of the settings; without one, for who asks from this machine."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    if not may_read_metrics(address=address, headers=request.headers, token=settings.TENTALIS["METRICS_TOKEN"]):
        return HttpResponse(f"/metrics is for {METRICS_READERS}\n", status=403, content_type="text/plain")
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
