"""ASGI entry point: HTTP by Django, the live socket by Channels; both behind what no request gets past."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.dev")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import get_resolver  # noqa: E402
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: E402

from apps.console.origins import SameOrigin  # noqa: E402
from apps.console.routing import websocket_urlpatterns  # noqa: E402
from apps.console.socket_callers import TokensElseBrowsers  # noqa: E402
from tentalis.garbage import settle_garbage  # noqa: E402
from tentalis.inbound.alive import AnswersAlive, LoopWatch  # noqa: E402
from tentalis.inbound.bodies import BoundedBodies  # noqa: E402
from tentalis.limits import LIMITS  # noqa: E402
from tentalis.platform.processes import end_with_parent  # noqa: E402

end_with_parent()  # one of several web processes does not outlive what started it

sockets = URLRouter(websocket_urlpatterns)
application = ProtocolTypeRouter(
    {
        "http": AnswersAlive(
            BoundedBodies(http, most_bytes=LIMITS.web_body_bytes, most_s=LIMITS.body_s), watch=LoopWatch()
        ),
        "websocket": TokensElseBrowsers(sockets, browsers=SameOrigin(AuthMiddlewareStack(sockets))),
    }
)
if settings.TENTALIS["TRUSTED_PROXIES"]:  # who else says for whom it asks is not believed
    application = ProxyHeadersMiddleware(application, trusted_hosts=settings.TENTALIS["TRUSTED_PROXIES"])

get_resolver().url_patterns  # noqa: B018  (every view is loaded now and not by the first request)
settle_garbage()
