# syntax=docker/dockerfile:1
# LiveAnchor as an image: docker build --target cpu -t liveanchor:cpu .   (or --target cuda). What to give it: docs/deploy.md.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# Our own code as a wheel.
FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kernels kernels
COPY engines engines
COPY pipeline pipeline
COPY deployments deployments
COPY liveanchor liveanchor
COPY serve_app serve_app
COPY training training
COPY benchmarks benchmarks
# pip's own configuration (an index or a proxy of yours) comes as a secret and stays in no layer.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# What every target has: a user without rights, an environment, and the tools that probes and hooks call.
FROM ${PYTHON_IMAGE} AS base
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# wget: KubeRay's probes; procps: the drain hook of deploy/kubernetes/base/rayservice.yaml. KubeRay before 1.4 starts Ray in a login shell,
# where /etc/profile sets PATH anew.
RUN apt-get update \
    && apt-get install -y --no-install-recommends procps tini wget \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 liveanchor \
    && useradd --uid 10001 --gid 10001 --create-home liveanchor \
    && install -d -o liveanchor -g liveanchor /data/liveanchor /tmp/ray \
    && python -m venv /opt/venv \
    && echo "PATH=/opt/venv/bin:\$PATH" > /etc/profile.d/venv.sh
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LIVEANCHOR_HOME=/data/liveanchor \
    LIVEANCHOR_FACE_DIR=/opt/liveanchor/weights/face \
    RAY_AUTH_MODE=disabled \
    RAY_USAGE_STATS_ENABLED=0 \
    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=serve_app.http.proxy_sockets:bounded_sockets \
    RAY_timeout_ms_task_wait_for_death_info=200 \
    RAY_core_worker_internal_heartbeat_ms=200 \
    RAY_worker_niceness=0
WORKDIR /data/liveanchor

# Other people's packages: this layer changes with pyproject.toml and constraints.txt alone.
FROM base AS cpu-packages
COPY pyproject.toml constraints.txt /build/
COPY deploy/requirements.py /build/deploy/requirements.py
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=cache,target=/root/.cache/pip \
    python /build/deploy/requirements.py serve live livekit speech onnx redis objects c2pa tracing > /build/requirements.txt \
    && python -m pip install --constraint /build/constraints.txt --requirement /build/requirements.txt

FROM base AS cuda-packages
COPY pyproject.toml constraints.txt /build/
COPY deploy/requirements.py /build/deploy/requirements.py
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=cache,target=/root/.cache/pip \
    python /build/deploy/requirements.py serve live livekit speech onnx redis objects c2pa tracing gpu musetalk > /build/requirements.txt \
    && python -m pip install --constraint /build/constraints.txt --requirement /build/requirements.txt

# The face models (1.7 MB), so that portraits need no network; this layer is made again only when the packages change.
FROM cpu-packages AS weights
COPY --from=wheel /wheels /wheels
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python -m pip install --no-cache-dir --no-deps /wheels/*.whl \
    && LIVEANCHOR_HOME=/opt/liveanchor liveanchor weights pull face

FROM cuda-packages AS cuda
# Triton compiles its launchers where it runs. The driver comes from the host (NVIDIA's container toolkit).
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility,video
COPY --from=weights /opt/liveanchor/weights /opt/liveanchor/weights
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-deps /wheels/*.whl
USER 10001:10001
EXPOSE 8000
VOLUME ["/data/liveanchor"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=6 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8000/healthz"]
ENTRYPOINT ["tini", "--"]
CMD ["liveanchor", "serve", "--host", "0.0.0.0", "--port", "8000"]

FROM cpu-packages AS cpu
COPY --from=weights /opt/liveanchor/weights /opt/liveanchor/weights
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-deps /wheels/*.whl
USER 10001:10001
EXPOSE 8000
VOLUME ["/data/liveanchor"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=6 \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8000/healthz"]
ENTRYPOINT ["tini", "--"]
CMD ["liveanchor", "serve", "--host", "0.0.0.0", "--port", "8000"]
