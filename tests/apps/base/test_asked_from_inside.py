"""Behind a proxy that has the certificate, what stands on the inner network asks past it, without TLS."""

import pytest
from django.conf import settings
from django.test import Client, override_settings

TOKEN = "whoever-has-this-reads-figures"


@pytest.mark.django_db
def test_figures_and_readiness_are_asked_without_tls_and_nothing_else_is() -> None:
    inner = Client()
    with override_settings(SECURE_SSL_REDIRECT=True, TENTALIS=settings.TENTALIS | {"METRICS_TOKEN": TOKEN}):
        figures = inner.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert figures.status_code == 200
        assert inner.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
        assert inner.get("/readyz").status_code in {200, 503}
        assert [inner.get(path).status_code for path in ("/", "/sign-in/", "/metrics/x", "/api/v1/tasks")] == [301] * 4
