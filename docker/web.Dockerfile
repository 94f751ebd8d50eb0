# The web side: web, relay and queue processes. No torch in it.
FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=tentalis.settings.prod TENTALIS_HOME=/var/lib/tentalis
WORKDIR /app
# --build-arg GUI=1: with what the world `gui` drives, some 700 MB more
ARG GUI
# what an agent in a sandbox finds beside Debian's least
RUN apt-get update && apt-get install -y --no-install-recommends git procps ${GUI:+chromium-headless-shell fonts-dejavu-core} \
    && rm -rf /var/lib/apt/lists/*
COPY docker/requirements docker/requirements
RUN pip install --no-cache-dir --no-deps --require-hashes -r docker/requirements/base.lock -r docker/requirements/benchmarks.lock \
    ${GUI:+-r docker/requirements/gui.lock}
COPY . .
RUN python -m compileall -q apps tentalis
RUN useradd --system --uid 10001 --home-dir /var/lib/tentalis --no-create-home tentalis \
    && mkdir -m 700 /sandboxes && mkdir -p /artifacts /users /var/lib/tentalis/models \
    && chown tentalis /artifacts /sandboxes && chown 999:999 /users \
    && TENTALIS_SECRET_KEY=only-for-collecting-static-files-0123456789-0123456789 \
       TENTALIS_DATABASE_URL=postgres://build@127.0.0.1:1/build TENTALIS_REDIS_URL=redis://127.0.0.1:1/0 \
       python manage.py collectstatic --noinput \
    && chown -R tentalis /var/lib/tentalis
USER tentalis
EXPOSE 8000
CMD ["uvicorn", "tentalis.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--loop", "uvloop", "--no-access-log", \
     "--http", "tentalis.inbound.protocol:BoundedProtocol", "--no-proxy-headers", "--no-server-header", \
     "--workers", "2", "--timeout-worker-healthcheck", "60", "--timeout-graceful-shutdown", "5"]
