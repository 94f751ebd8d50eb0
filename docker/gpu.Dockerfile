# The training box and the engine: a broker, a job spec, an artifact store; no Django settings, no database.
# CUDA's libraries come with torch, by hash; of the machine it needs NVIDIA's driver and container toolkit alone.
FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /app
COPY docker/requirements docker/requirements
RUN pip install --no-cache-dir --no-deps --require-hashes -r docker/requirements/base.lock -r docker/requirements/torch.lock
COPY tentalis tentalis
COPY gpu_workers gpu_workers
RUN python -m compileall -q tentalis gpu_workers
RUN useradd --system --uid 10001 --create-home tentalis && mkdir -p /artifacts /var/lib/tentalis/models \
    && chown -R tentalis /artifacts /var/lib/tentalis
USER tentalis
CMD ["celery", "-A", "gpu_workers.celery", "worker", "-P", "solo", "-c", "1", "-Q", "gpu", \
     "--without-gossip", "--without-mingle", "--without-heartbeat"]
