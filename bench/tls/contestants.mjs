import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { freePort, listening } from '../decision/free-port.mjs'
import { policy, rule } from '../support/bundle.mjs'
import { startNginxWith } from '../support/nginx.mjs'
import { MEASURED, start } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

/** What edge prefers; nginx is told to use no other. */
const CIPHER = 'TLS_AES_128_GCM_SHA256'
/** Full again at once, so that all responses have the same length. */
const RULE = rule('per-key', ['header:x-api-key'], 1_000_000_000, 1_000_000_000)
const HERE = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Each server with TLS and without: `decides` answers by itself, `proxies` passes on to the backend. nginx does all of that in one process;
 * edge has a process for each.
 */
export async function startContestants({ nginx, backend, pair, against, hasNodeWire }) {
  return {
    ...(nginx !== undefined && { nginx: await startNginx(nginx, backend, pair) }),
    edge: await startEdges(HERE, backend, pair),
    ...(hasNodeWire && { node: await startEdges(HERE, backend, pair, { EDGE_PROXY_WIRE: 'node' }) }),
    ...(against !== undefined && { other: await startEdges(resolve(against), backend, pair) }),
  }
}

async function startEdges(directory, backend, pair, env = {}) {
  const servers = {}
  for (const isSecure of [false, true]) {
    const proxyEnv = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: `http://127.0.0.1:${backend.port}`, ...env }
    servers[isSecure ? 'secured' : 'plain'] = {
      decides: await startEdge({ directory, pair, isSecure }),
      proxies: await startEdge({ directory, pair, isSecure, env: proxyEnv }),
    }
  }
  return servers
}

/** edge with one rule that nobody reaches, and one worker. */
export async function startEdge({ directory = HERE, pair, isSecure, env = {} }) {
  const bundle = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(bundle, JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/', [RULE])] }))
  const common = { EDGE_CONFIG_FILE: bundle, EDGE_HOST: '127.0.0.1', EDGE_PORT: '0', EDGE_LOG_LEVEL: 'error', EDGE_WORKERS: '1' }
  const tls = isSecure ? { EDGE_TLS_CERT_FILE: pair.certificate, EDGE_TLS_KEY_FILE: pair.key } : {}
  const main = pathToFileURL(join(directory, 'program/edge.js'))
  return start(MEASURED, main, { args: ['serve'], env: { ...common, ...tls, ...env } })
}

/** nginx with the same on two ports. */
export async function startNginx(file, backend, pair) {
  const securePort = await freePort()
  const server = await startNginxWith(file, 8192, (port) => http(port, securePort, backend.port, pair))
  await listening(securePort)
  const on = (port) => ({ decides: { pid: server.pid, port }, proxies: { pid: server.pid, port } })
  return { child: server, plain: on(server.port), secured: on(securePort) }
}

// Answers of 256 KiB fit into memory, and events are passed on as they come.
function http(port, securePort, backendPort, { certificate, key }) {
  return `
  upstream backend {
    server 127.0.0.1:${backendPort};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    listen 127.0.0.1:${securePort} ssl backlog=4096;
    ssl_certificate ${certificate};
    ssl_certificate_key ${key};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites ${CIPHER};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_buffers 32 16k;
    proxy_max_temp_file_size 0;
    location / { return 200; }
    location /items { proxy_pass http://backend; }
    location /files { proxy_pass http://backend; }
    location /streams {
      proxy_pass http://backend;
      proxy_buffering off;
    }
  }`
}
