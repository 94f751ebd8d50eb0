# The training box and the engine: a broker, a job spec, an artifact store; no Django settings, no database.
FROM pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
WORKDIR /app
COPY docker/requirements docker/requirements
RUN pip install --no-cache-dir --no-deps --require-hashes -r docker/requirements/base.lock
COPY tentalis tentalis
COPY gpu_workers gpu_workers
RUN useradd --system --uid 10001 --create-home tentalis && mkdir /artifacts && chown tentalis /artifacts
USER tentalis
CMD ["celery", "-A", "gpu_workers.celery", "worker", "-P", "solo", "-c", "1", "-Q", "gpu", "--without-gossip", "--without-mingle"]
