# syntax=docker/dockerfile:1

FROM swift:6.3-bookworm AS build
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends \
      libcurl4-openssl-dev libjansson-dev libsqlite3-dev libssl-dev pkg-config
WORKDIR /build
COPY Package.swift ./
COPY Sources ./Sources
# The manifest names the test targets, so their folders have to be there.
COPY Tests ./Tests
RUN swift build -c release --static-swift-stdlib --product countersign
RUN install -D -m 0755 .build/release/countersign /staging/usr/local/bin/countersign \
 && strip /staging/usr/local/bin/countersign

FROM debian:bookworm-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends \
      ca-certificates libcurl4 libjansson4 libsqlite3-0 libssl3 libstdc++6 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/countersign --shell /usr/sbin/nologin countersign \
 && install --directory --mode 0700 --owner countersign --group countersign /var/lib/countersign
COPY --from=build /staging/ /
USER countersign
WORKDIR /var/lib/countersign
VOLUME /var/lib/countersign
ENV COUNTERSIGN_SERVER_HOST=0.0.0.0 COUNTERSIGN_LEDGER_PATH=/var/lib/countersign/countersign.sqlite
EXPOSE 8080
# The image has no HTTP client, and needs none for one line.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/bin/bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/${COUNTERSIGN_SERVER_ADMIN_PORT:-${COUNTERSIGN_SERVER_PORT:-8080}} && printf 'GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r line <&3 && [[ $line == *' 200 '* ]]"]
ENTRYPOINT ["/usr/local/bin/countersign"]
CMD ["serve"]
