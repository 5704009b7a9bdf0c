# Vectrial from the wheels for this machine in dist/, with small embedded stores.
#
#   make wheel image
#   docker run --rm -v "$PWD:/work" -v vectrial:/cache vectrial:0.2.0 run demo
#
# /work has the runs, /cache the datasets. Any `--user` can write where a volume lets it.
ARG BASE=python:3.11-slim
FROM ${BASE}
# Extras of the package, one per store: see pyproject.toml.
ARG EXTRAS=quick
# Extras of vectrial-web: "serve" for `vectrial serve`; of vectrial-ray: "ray" for `--on ray`.
ARG WEB_EXTRAS=
ARG RAY_EXTRAS=
COPY dist/*.whl /tmp/dist/
RUN python -m pip install --no-cache-dir "$(ls /tmp/dist/vectrial-*_$(uname -m).whl)[${EXTRAS}]" \
        "$(ls /tmp/dist/vectrial_web-*.whl)${WEB_EXTRAS:+[$WEB_EXTRAS]}" \
        "$(ls /tmp/dist/vectrial_ray-*.whl)${RAY_EXTRAS:+[$RAY_EXTRAS]}" \
        /tmp/dist/vectrial_datasets-*.whl /tmp/dist/vectrial_reproduce-*.whl \
    && rm -r /tmp/dist \
    && useradd --create-home --uid 1000 vectrial \
    && mkdir -m 1777 /work /cache
ENV VECTRIAL_HOME=/cache
USER vectrial
WORKDIR /work
VOLUME ["/work", "/cache"]
ENTRYPOINT ["vectrial"]
CMD ["--help"]
