# Builds `edge` from source. Both bases need Node 22 as `node`; the second needs nothing else, and may have no shell. A release sets them with digests.
ARG BUILD_IMAGE=node:22-bookworm-slim
ARG RUN_IMAGE=node:22-bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# The script that builds needs the source, which comes later: packages are installed again only if their versions change.
RUN npm ci --ignore-scripts
COPY . .
RUN npm run --silent build \
  && mkdir -p /image/usr/lib /image/usr/local/bin /image/etc/edge /state \
  && find program -name '*.js.map' -delete \
  && mv program /image/usr/lib/edge \
  && ln -s ../../lib/edge/edge.js /image/usr/local/bin/edge

FROM ${RUN_IMAGE}
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /state /var/lib/edge
USER 65532:65532
WORKDIR /
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["node", "/usr/lib/edge/edge.js", "health"]
ENTRYPOINT ["node", "/usr/lib/edge/edge.js"]
CMD ["serve"]
