import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, listening } from '../decision/free-port.mjs'
import { MEASURED, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

/** HAProxy before the backend, with one stick-table by a header. */
export async function startHaproxy(file, { backend, limit }) {
  const port = await freePort()
  const path = join(newScratchDirectory(), 'haproxy.cfg')
  writeFileSync(path, configuration({ port, backend, limit }))
  const child = startProgram(MEASURED, file, ['-db', '-f', path])
  await listening(port)
  return Object.assign(child, { port })
}

// http-no-delay: events are passed on as they come.
function configuration({ port, backend, limit }) {
  return `
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout client 60s
  timeout connect 5s
  timeout server 60s
  option http-no-delay
frontend bench
  bind 127.0.0.1:${port}
  stick-table type string len 32 size 100k expire 1h store http_req_rate(10s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${limit} }
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  option forwardfor
  default_backend service
backend service
  http-reuse always
  server one 127.0.0.1:${backend.port}
`
}
