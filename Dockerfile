# The image of refaug: the command, its libraries, and nothing of the development tools. docs/docker.md says how to use it.

FROM python:3.11-slim AS builder

# A further package index, for a torch build of your own choice (CPU, another CUDA); empty: the default index alone.
ARG TORCH_INDEX=

WORKDIR /src
RUN python -m venv /opt/refaug
COPY pyproject.toml requirements.lock ./
# What the project depends on with all extras but dev; the lock is a constraint, so that every version is the lock's.
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = project['optional-dependencies']; lists = [extras[name] for name in extras if name != 'dev']; \
print(*(text for one in [project['dependencies'], *lists] for text in one if not text.startswith('refaug[')), sep='\n')" \
        > dependencies.txt \
    && /opt/refaug/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        --constraint requirements.lock --requirement dependencies.txt
COPY README.md LICENSE ./
COPY refaug refaug
RUN /opt/refaug/bin/pip install --no-cache-dir --constraint requirements.lock setuptools \
    && /opt/refaug/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/refaug/bin/pip check
# What is in the image, as CycloneDX JSON.
RUN mkdir -p /opt/refaug/share/refaug \
    && cd / && /opt/refaug/bin/python -m refaug.cli.server.bill_of_materials > /opt/refaug/share/refaug/sbom.cdx.json
# The loops that numba compiles, for any processor of this kind: the image travels. They lie beside the code.
ENV NUMBA_CPU_NAME=generic
RUN cd / && /opt/refaug/bin/python -m refaug.cli.server.kernels


FROM python:3.11-slim

# The ids are fixed, so that a volume or a folder of the host can be given to them by number.
RUN groupadd --gid 10001 refaug \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin refaug \
    && install --directory --owner refaug --group refaug --mode 0750 /data
COPY --from=builder /opt/refaug /opt/refaug

ENV PATH=/opt/refaug/bin:$PATH \
    REFAUG_HOME=/data \
    NUMBA_CPU_NAME=generic \
    NUMBA_CACHE_DIR=/data/cache/numba \
    MPLCONFIGDIR=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# For a container that is kept running; one that runs a single command tells how it went by its exit code. A container
# that serves has a check of its own in compose.yaml.
HEALTHCHECK --interval=5m --timeout=60s --start-period=10s CMD ["refaug", "admin", "doctor", "--json"]
ENTRYPOINT ["refaug"]
CMD ["--help"]
