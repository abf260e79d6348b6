# gedbd on a CPU: docker build -t gedbd . && docker run --rm gedbd --help
# Serve an index of this machine, to this machine; others need a proxy that buffers (docs/guides/serving.md):
#   docker run -v "$PWD/my-index:/data/my-index" -p 127.0.0.1:8080:8080 -e GEDBD_TOKEN \
#       gedbd serve index=my-index host=0.0.0.0 proxy=true
FROM python:3.11-slim AS build
# Debian removes old versions of a package from its servers, so that a pinned one could not be installed later.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
RUN python -m venv /opt/gedbd
ENV PATH=/opt/gedbd/bin:$PATH
COPY constraints.txt .
# PyTorch first, from its index of CPU builds: PyPI's build for CUDA is several gigabytes larger.
RUN pip install --no-cache-dir --constraint constraints.txt torch --index-url https://download.pytorch.org/whl/cpu
COPY pyproject.toml setup.py README.md LICENSE ./
COPY conf conf
COPY gedbd gedbd
COPY hydra_plugins hydra_plugins
RUN pip install --no-cache-dir --constraint constraints.txt '.[serve]'

FROM python:3.11-slim
# libgomp1 is the OpenMP library that LightGBM and scikit-learn load; git reads repositories for `gedbd locate`.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 gedbd \
    && install --directory --owner=gedbd /data
LABEL org.opencontainers.image.source=https://github.com/OWNER/gedbd org.opencontainers.image.licenses=MIT
COPY --from=build /opt/gedbd /opt/gedbd
ENV PATH=/opt/gedbd/bin:$PATH PYTHONUNBUFFERED=1
USER 1000
WORKDIR /data
EXPOSE 8080
# Asks the service of `gedbd serve`; other commands end before the first check.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/api/health', timeout=4)"]
ENTRYPOINT ["gedbd"]
CMD ["--help"]
