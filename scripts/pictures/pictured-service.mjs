import { spawn } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { picturedBundle } from './pictured-bundle.mjs'

const PROGRAM = fileURLToPath(new URL('../../program/edge.js', import.meta.url))
export const TOKEN = 'only-for-pictures-of-the-operators-page'

/** Labels, end and reason of each key that is issued. */
const KEYS = [
  [{ team: 'search', user: 'ada' }, '90d', 'ticket 4688'],
  [{ team: 'search', user: 'grace' }, '90d', 'ticket 4689'],
  [{ team: 'payments', service: 'invoices' }, null, 'nightly batch'],
  [{ team: 'hackathon', user: 'linus' }, '2d', 'five dollars each, until Sunday'],
  [{ team: 'hackathon', user: 'edsger' }, '2d', 'five dollars each, until Sunday'],
]

/** Starts a reverse proxy with an admin port in front of a fake LLM. */
export async function startPicturedService(folder) {
  const bundleFile = join(folder, 'limits.json')
  const publish = (version) => {
    writeFileSync(`${bundleFile}.new`, JSON.stringify(picturedBundle(version), null, 2))
    renameSync(`${bundleFile}.new`, bundleFile)
  }
  publish(41)
  const llm = await start(['fake-llm', '--port', '0', '--delay-ms', '3', '--tokens', '180'], {}, /http:\/\/127\.0\.0\.1:(\d+)/)
  const env = {
    EDGE_MODE: 'reverse_proxy',
    EDGE_BACKEND_URL: `http://127.0.0.1:${llm.port}`,
    EDGE_HOST: '127.0.0.1',
    EDGE_PORT: '0',
    EDGE_ADMIN_PORT: '0',
    EDGE_ADMIN_TOKEN: TOKEN,
    EDGE_WORKERS: '2',
    EDGE_CONFIG_FILE: bundleFile,
    EDGE_STATE_FILE: join(folder, 'state'),
    EDGE_KEYS_FILE: join(folder, 'keys'),
  }
  const edge = await start(['serve'], env, /listens.*?http:\/\/127\.0\.0\.1:(\d+).*?admin\s+http:\/\/127\.0\.0\.1:(\d+)/s)
  const change = (path, body) => ask(edge.adminPort, path, body)
  return {
    port: edge.port,
    adminPort: edge.adminPort,
    /** Does what operators do: publishes a new bundle, sets overrides for some callers and resets counters. */
    async operate() {
      publish(42)
      const values = (key) => ({ 'header:x-api-key': key })
      await change('overrides', {
        policy: 'search',
        rule: 'per-key',
        values: values('initech'),
        multiply: 3,
        until: '2h',
        reason: 'launch day, ticket 4711',
      })
      await change('overrides', {
        policy: 'checkout',
        rule: 'per-key',
        values: values('scraper-7'),
        block: true,
        until: '1d',
        reason: 'scraping, abuse report 88',
      })
      await change('overrides', {
        policy: 'chat',
        rule: 'tenant-tokens',
        values: values('umbrella'),
        set: { tokens_per_minute: 20_000 },
        until: '45m',
        reason: 'runaway agent',
      })
      await change('counters/reset', {
        policy: 'search',
        rule: 'per-key',
        values: values('globex'),
        reason: 'wrong client release, ticket 4702',
      })
      for (const [labels, expires_at, reason] of KEYS) await change('keys', { labels, expires_at, reason })
    },
    stop() {
      for (const { child } of [edge, llm]) child.kill()
    },
  }
}

/** `pattern` finds the ports in the startup message. */
function start(args, env, pattern) {
  const child = spawn(process.execPath, [PROGRAM, ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'ignore'] })
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout.on('data', (chunk) => {
      text += chunk
      const found = pattern.exec(text)
      if (found !== null) resolve({ child, port: Number(found[1]), adminPort: Number(found[2]) })
    })
    child.on('exit', () => reject(new Error(`edge ${args[0]} has ended: ${text}`)))
  })
}

async function ask(port, path, body) {
  const headers = { Authorization: `Bearer ${TOKEN}`, 'X-Edge-Actor': 'ada' }
  const response = await fetch(`http://127.0.0.1:${port}/admin/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
}
