// `npm run bench:newcomers [-- --seconds 30] [--only TEXT] [--against DIR]`: how long newcomers and probes take while a flood stands.
//
// One worker is alone on the first core. The flood is a process of its own on the second: 700 connections, from one loopback address or from a hundred, each
// opened anew 200 ms after it is closed. Newcomers come from another address, one of each kind every 100 ms, each on a new connection; whoever is turned away comes again at
// once. Their time is from the first attempt to the response. `--against` measures another built checkout, too.

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cpuTimes, usedUs } from './decision/cpu-time.mjs'
import { freePort } from './decision/free-port.mjs'
import { policy, rule } from './support/bundle.mjs'
import { ask, MEASURED, OTHERS, start, startProgram, stop } from './support/processes.mjs'
import { newScratchDirectory } from './support/scratch.mjs'
import { line } from './support/text-table.mjs'
import { newCertificate } from './tls/certificate.mjs'

const HERE = fileURLToPath(new URL('../', import.meta.url))
const EVERY_MS = 100
const CONNECTIONS = 700
const OPEN_FILES = 600
/** No connection ends by itself while a flood stands. */
const PATIENT = { EDGE_HEADERS_TIMEOUT_MS: '600000', EDGE_REQUEST_TIMEOUT_MS: '600000', EDGE_KEEPALIVE_MS: '600000' }
const FLOODS = [
  ['nothing', 'main', 'silent'],
  ['silent TLS', 'main', 'silent', 'tls'],
  ['half heads', 'main', 'half-head'],
  ['half heads', 'admin', 'half-head'],
  ['ClientHellos, then silence', 'main', 'hello', 'tls'],
  ['ClientHellos, one after the other', 'main', 'churn', 'tls'],
  ['ClientHellos, then silence', 'admin', 'hello', 'tls'],
  ['bodies that nobody reads', 'admin', 'body'],
]
const { seconds, only, against } = parseArgs({
  options: { seconds: { type: 'string', default: '30' }, only: { type: 'string', default: '' }, against: { type: 'string' } },
}).values

const pair = newCertificate('openssl')
console.log(
  `node ${process.version}, ${seconds} s for each row, 600 open files (254 slots, 32 on the admin port), load of the machine ${loadavg()[0].toFixed(1)}`,
)
console.log(line('milliseconds: median, slowest', 'decision', '/livez', '/readyz', 'attempts', 'CPU', 'flood/s'))
for (const [name, port, what, tls] of FLOODS)
  for (const addresses of name === 'nothing' ? [0] : [1, 100])
    for (const checkout of [HERE, against].filter(Boolean)) {
      const title = `${checkout === HERE ? '' : 'other: '}${port}: ${name}${addresses > 0 ? `, ${addresses}` : ''}`
      if (title.includes(only))
        console.log(line(title, ...(await measure(resolve(checkout), { port, what, addresses, isTls: tls !== undefined }))))
    }
process.exit()

async function measure(checkout, { port, what, addresses, isTls }) {
  const { server, ports } = await startServer(checkout, isTls)
  const flood = await start(OTHERS, new URL('newcomers/flood.mjs', import.meta.url))
  if (addresses > 0) await ask(flood, 'begin', { port: ports[port], what, addresses, connections: CONNECTIONS })
  const before = cpuTimes(server.pid)
  const untilMs = performance.now() + Number(seconds) * 1000
  const question = 'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\n\r\n'
  const kinds = await Promise.all([
    newcomers(untilMs, { port: ports.main, isTls, text: question }),
    newcomers(untilMs, { port: ports.admin, isTls, text: probe('/livez') }),
    newcomers(untilMs, { port: ports.admin, isTls, text: probe('/readyz') }),
  ])
  const cpu = usedUs(before, cpuTimes(server.pid)) / 1e4 / Number(seconds)
  const { opened } = await ask(flood, 'count')
  await stop(flood)
  await stop(server)
  const attempts = Math.max(...kinds.map((kind) => kind.attempts))
  return [...kinds.map(({ times }) => summary(times)), String(attempts), `${cpu.toFixed(0)} %`, (opened / Number(seconds)).toFixed(0)]
}

async function startServer(checkout, isTls) {
  const bundle = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(bundle, JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/', [rule('per-key', ['header:x-api-key'])])] }))
  const admin = await freePort()
  const tls = isTls ? { EDGE_TLS_CERT_FILE: pair.certificate, EDGE_TLS_KEY_FILE: pair.key, EDGE_TLS_LISTENERS: 'main,admin' } : {}
  const common = {
    EDGE_CONFIG_FILE: bundle,
    EDGE_HOST: '127.0.0.1',
    EDGE_PORT: '0',
    EDGE_ADMIN_PORT: String(admin),
    EDGE_LOG_LEVEL: 'silent',
  }
  const env = { ...common, ...PATIENT, ...tls, EDGE_ADMIN_TOKEN: 't'.repeat(40), EDGE_WORKERS: '1' }
  const server = startProgram(
    MEASURED,
    'sh',
    ['-c', `ulimit -n ${OPEN_FILES}; exec "$@"`, 'sh', process.execPath, join(checkout, 'program/edge.js'), 'serve'],
    { env },
  )
  for (let printed = ''; ; ) {
    printed += (await once(server.stdout, 'data'))[0]
    const [, main] = /listens +https?:\S*:(\d+)/.exec(printed) ?? []
    if (main !== undefined) return { server, ports: { main: Number(main), admin } }
  }
}

function probe(path) {
  return `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
}

/** One after the other, as often as there is time. */
async function newcomers(untilMs, newcomer) {
  const times = []
  let attempts = 0
  while (performance.now() < untilMs) {
    const startMs = performance.now()
    let tried = 0
    do tried++
    while (!(await asked(newcomer)).startsWith('HTTP/1.1 200 ') && performance.now() < untilMs)
    attempts = Math.max(attempts, tried)
    times.push(performance.now() - startMs)
    await sleep(EVERY_MS)
  }
  return { times, attempts }
}

function asked({ port, isTls, text }) {
  const at = { port, host: '127.0.0.1', localAddress: '127.0.9.9' }
  const socket = isTls ? connectTls({ ...at, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }) : connect(at)
  return new Promise((resolve) => {
    let received = ''
    socket
      .on('error', () => {})
      .on('close', () => resolve(received))
      .on('data', (chunk) => {
        received += chunk.toString('latin1')
        if (received.includes('\r\n\r\n')) socket.destroy()
      })
      .write(text)
  })
}

function summary(times) {
  const sorted = times.toSorted((one, other) => one - other)
  return `${sorted[sorted.length >> 1].toFixed(0)}, ${sorted.at(-1).toFixed(0)}`
}
