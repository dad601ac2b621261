// How long `edge replay` takes for a million lines, and how much memory, beside a program that only reads the same lines.
// npm run bench:replay [-- REQUESTS]
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const REQUESTS = Number(process.argv[2] ?? 1_000_000)
const ROUNDS = 3
const EDGE = fileURLToPath(new URL('../program/edge.js', import.meta.url))
const READ_LINES = `
  const lines = require('node:readline').createInterface({ input: require('node:fs').createReadStream(process.argv[1]) })
  let count = 0
  lines.on('line', () => count++)`

const directory = mkdtempSync(join(tmpdir(), 'edge-replay-'))
const file = (name) => join(directory, name)
try {
  const rule = (burst) => ({
    name: 'per-address',
    limit_keys: ['ip:address'],
    algorithm: 'token_bucket',
    algorithm_config: { tokens_per_second: 0.5, burst },
  })
  for (const [i, name] of ['a.json', 'b.json'].entries()) {
    writeFileSync(file(name), JSON.stringify({ bundle_version: i + 1, policies: [{ id: 'api', spec: { rules: [rule(10 * (i + 1))] } }] }))
  }
  await writeLogs()
  const contestants = [
    ['reading the lines of combined.log', ['-e', READ_LINES, file('combined.log')]],
    ['edge replay, combined', [EDGE, 'replay', '--bundle', file('a.json'), '--json', file('combined.log')]],
    [
      'edge replay, combined, two bundles',
      [EDGE, 'replay', '--bundle', file('a.json'), '--bundle', file('b.json'), '--json', file('combined.log')],
    ],
    ['edge replay, JSON', [EDGE, 'replay', '--bundle', file('a.json'), '--json', file('json.log')]],
  ]
  const rounds = Array.from({ length: ROUNDS }, () => contestants.map(([, args]) => measured(args)))
  console.log(
    `${REQUESTS} requests, ${Math.round(statSync(file('combined.log')).size / 1e6)} MB in the combined format; CPU time (user + system), median of ${ROUNDS} rounds`,
  )
  for (const [i, [name]] of contestants.entries()) {
    const own = rounds.map((round) => round[i])
    const ratio = median(rounds.map((round) => round[i].cpuMs / round[0].cpuMs))
    console.log(
      `${name.padEnd(36)} ${(median(own.map(({ cpuMs }) => cpuMs)) / 1000).toFixed(2)} s  ${ratio.toFixed(1)} x  ${Math.round(median(own.map(({ rssMiB }) => rssMiB)))} MiB`,
    )
  }
} finally {
  rmSync(directory, { recursive: true })
}

/** The process says at its end what it took. */
function measured(args) {
  const report = `data:text/javascript,process.on('exit',()=>{const u=process.resourceUsage();process.stderr.write('\\n'+JSON.stringify([u.userCPUTime+u.systemCPUTime,u.maxRSS]))})`
  const { stderr, status } = spawnSync(process.execPath, ['--import', report, ...args], { encoding: 'utf8', maxBuffer: 2 ** 28 })
  if (status !== 0) throw new Error(stderr)
  const [cpuMicros, rssKiB] = JSON.parse(stderr.split('\n').at(-1))
  return { cpuMs: cpuMicros / 1000, rssMiB: rssKiB / 1024 }
}

async function writeLogs() {
  const [combined, json] = [createWriteStream(file('combined.log')), createWriteStream(file('json.log'))]
  let state = 1
  const below = (count) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % count
  }
  for (let i = 0; i < REQUESTS; i++) {
    const time = new Date(Date.UTC(2026, 0, 2) + Math.floor((i * 3600) / REQUESTS) * 1000).toISOString()
    const [client, uri] = [`203.${below(4)}.${below(50)}.${below(250)}`, `/api/items/${below(100_000)}?page=${below(10)}`]
    const agent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36'
    const local = `02/Jan/2026:${time.slice(11, 19)} +0000`
    const isFree = combined.write(
      `${client} - - [${local}] "GET ${uri} HTTP/1.1" 200 ${below(10_000)} "https://shop.example/" "${agent}"\n`,
    )
    json.write(`${JSON.stringify({ time, method: 'GET', uri, client, headers: { 'x-api-key': `key-${below(5000)}` } })}\n`)
    if (!isFree) await once(combined, 'drain')
  }
  for (const log of [combined, json]) {
    log.end()
    await once(log, 'finish')
  }
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}
