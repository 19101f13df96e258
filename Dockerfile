# A Turnstile server in a container. Stateless on DynamoDB; with SQLite everything is in the volume /data.
#
#   docker build -t turnstile .
#   docker run -p 8750:8750 -v turnstile:/data -e TURNSTILE_TOKEN=... turnstile
#   docker run -p 8750:8750 -e TURNSTILE_TOKEN=... -e TURNSTILE_LAKE=s3://bucket/lake \
#       turnstile --store dynamodb:turnstile-refs,turnstile-objs
#
# Background work alone, beside servers that were started with --fleet --roles none (docs/fleet.md); it has no port and no health to ask for:
#
#   docker run --no-healthcheck --entrypoint turnstile turnstile work --store dynamodb:turnstile-refs,turnstile-objs
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/bootstrap.txt requirements/server.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/bootstrap.txt \
    && python -m venv /opt/turnstile \
    && uv pip install --python /opt/turnstile/bin/python --require-hashes -r requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY layers layers
COPY server server
COPY cli cli
COPY infra infra
# docker build --build-arg VERSION="$(.venv/bin/turnstile --version | cut -d' ' -f2)" ...: what /v1, doctor and --version say
ARG VERSION=""
RUN if [ -n "$VERSION" ]; then echo "$VERSION" > layers/turnstile_release/built.txt; fi
RUN uv pip install --python /opt/turnstile/bin/python --no-deps --no-build-isolation ./layers . \
    && /opt/turnstile/bin/python -m compileall -q /opt/turnstile/lib

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home turnstile && install -d -o turnstile /data
COPY --from=build /opt/turnstile /opt/turnstile
USER turnstile
ENV PATH=/opt/turnstile/bin:$PATH PYTHONUNBUFFERED=1 TURNSTILE_HOME=/data TURNSTILE_HOST=0.0.0.0
VOLUME /data
EXPOSE 8750
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8750/readyz', timeout=2)"]
ENTRYPOINT ["turnstile", "serve"]
