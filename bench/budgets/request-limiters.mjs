import { findProgram } from '../decision/programs.mjs'
import { DESCRIPTOR, DOMAIN } from '../doors/grpc-methods.mjs'
import { findRatelimit, startRatelimit } from '../doors/ratelimit.mjs'
import { fetchFrom } from '../support/http-client.mjs'
import { startNginxWith } from '../support/nginx.mjs'
import { stop } from '../support/processes.mjs'

export const nginxFile = findProgram('nginx')

/** nginx in front of a backend. It counts requests: so many at once, and next to none after that. */
export async function startLimitingNginx(backendPort, requests) {
  const server = await startNginxWith(nginxFile, 4096, (port) => http(port, backendPort, requests))
  return { servers: [server], ports: [server.port], key: 'bench', end: () => stop(server) }
}

/**
 * envoyproxy/ratelimit is no proxy: it is asked about requests. So many pass in a day. Undefined where it is not installed.
 */
export async function startAskedRatelimit(requests) {
  const file = findRatelimit()
  if (file === undefined) return undefined
  const server = await startRatelimit(file, requests)
  return {
    servers: [server],
    redis: server.redis,
    /** Answers the status: 200 if the request may pass, 429 if not, another one if it could not say. */
    decide: async (key) => {
      const question = { domain: DOMAIN, descriptors: [{ entries: [{ key: DESCRIPTOR, value: key }] }] }
      const { status } = await fetchFrom(server.httpPort, '/json', { body: JSON.stringify(question) })
      return status
    },
    end: async () => {
      await stop(server)
      await stop(server.redis)
    },
  }
}

function http(port, backendPort, requests) {
  // limit_req admits one request beside those of `burst`.
  return `
  limit_req_zone $http_authorization zone=keys:1m rate=1r/m;
  limit_req_status 429;
  upstream backend {
    server 127.0.0.1:${backendPort};
    keepalive 64;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    limit_req zone=keys burst=${requests - 1} nodelay;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_buffering off;
    location / { proxy_pass http://backend; }
  }`
}
