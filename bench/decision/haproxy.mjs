import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MEASURED, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { freePort, listening } from './free-port.mjs'

/** HAProxy with one stick-table by a header. */
export async function startHaproxy(file, limit) {
  const port = await freePort()
  const path = join(newScratchDirectory(), 'haproxy.cfg')
  writeFileSync(path, configuration(port, limit))
  const child = startProgram(MEASURED, file, ['-db', '-f', path])
  await listening(port)
  return Object.assign(child, { port })
}

function configuration(port, limit) {
  return `
global
  nbthread 1
  maxconn 1024
defaults
  mode http
  timeout client 60s
  timeout connect 5s
  timeout server 60s
frontend bench
  bind 127.0.0.1:${port}
  stick-table type string len 32 size 2m expire 1h store http_req_rate(10s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt ${limit} }
  http-request return status 200
`
}
