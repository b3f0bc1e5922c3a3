# syntax=docker/dockerfile:1
# The service, and the simulated App Store to try it with. `docker build -t countersign .` takes as long as a release build,
# half an hour on two processors; the next one, unless Package.swift has changed, only what our own sources take.

FROM swift:6.3-bookworm AS build
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends \
      libcurl4-openssl-dev libjansson-dev libpq-dev libsqlite3-dev libssl-dev libyaml-dev pkg-config
WORKDIR /build
# The dependencies, built for targets with nothing in them: a layer that a change of our sources leaves alone. The manifest
# names the test targets too, so their folders have to be there, and stay empty.
COPY Package.swift ./
COPY scripts/stub-targets ./
RUN ./stub-targets
RUN swift build -c release --static-swift-stdlib --product countersign
RUN swift build -c release --static-swift-stdlib --product app-store-simulator
RUN rm -r Sources
COPY Sources ./Sources
# The service shows it under /problems.
COPY docs/reference/problems.md ./docs/reference/problems.md
RUN swift build -c release --static-swift-stdlib --product countersign
RUN swift build -c release --static-swift-stdlib --product app-store-simulator
RUN set -e; for program in countersign app-store-simulator; do \
      install -D -m 0755 .build/release/$program /staging/usr/local/bin/$program; \
      strip /staging/usr/local/bin/$program; \
    done

FROM debian:bookworm-slim
# What BuildInformation says, and the commit: --build-arg REVISION=$(git rev-parse HEAD)
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Countersign" \
      org.opencontainers.image.description="Validates App Store receipts and keeps each user's subscription tier true" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim"
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends \
      ca-certificates libcurl4 libjansson4 libpq5 libsqlite3-0 libssl3 libstdc++6 libyaml-0-2 tzdata \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/countersign --shell /usr/sbin/nologin countersign \
 && install --directory --mode 0700 --owner countersign --group countersign /var/lib/countersign
COPY LICENSE /usr/share/doc/countersign/LICENSE
COPY --from=build /staging/ /
# By its number, as Kubernetes can tell of a number alone that it is not root.
USER 10001:10001
WORKDIR /var/lib/countersign
VOLUME /var/lib/countersign
ENV COUNTERSIGN_SERVER_HOST=0.0.0.0 COUNTERSIGN_LEDGER_PATH=/var/lib/countersign/countersign.sqlite
EXPOSE 8080
# At the address of the configuration that COUNTERSIGN_CONFIG and the other variables name.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/local/bin/countersign", "health"]
ENTRYPOINT ["/usr/local/bin/countersign"]
CMD ["serve"]
