import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { ask } from '../support/service/http.ts'

const START = fileURLToPath(new URL('../../examples/fleet/start.mjs', import.meta.url))
const BURST = 5
const TOKENS_PER_SECOND = 0.05

describeWithRedis('examples/fleet', () => {
  // SIGHUP: its terminal was closed.
  test.each(['SIGINT', 'SIGHUP'] as const)('two instances by one command enforce one limit, and end with it on %s', async (signal) => {
    // By default an instance enforces the limit by itself when Redis takes 50 ms.
    const env = { ...process.env, EDGE_REDIS_TIMEOUT_MS: '60000' }
    const fleet = spawn(process.execPath, [START, '0'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => end(fleet))
    const ports = await printedPorts(fleet)
    expect(new Set(ports).size).toBe(2)

    const startedMs = performance.now()
    const statuses: number[] = []
    for (let i = 0; i < 4 * BURST; i++) statuses.push(await statusOf(ports[i % 2]!))
    const elapsedS = (performance.now() - startedMs) / 1000
    const allowed = statuses.filter((status) => status === 200).length
    expect(new Set(statuses)).toEqual(new Set([200, 429]))
    expect(allowed).toBeGreaterThanOrEqual(BURST)
    expect(allowed).toBeLessThanOrEqual(BURST + Math.floor(elapsedS * TOKENS_PER_SECOND))

    fleet.stdout!.destroy()
    await end(fleet, signal)
    expect(fleet.exitCode).toBe(0)
    for (const port of ports) await expect(ask(port, 'GET', '/livez')).rejects.toThrow('ECONNREFUSED')
  })
})

/** The instances' ports, once the example says what to try. */
async function printedPorts(fleet: ChildProcess): Promise<number[]> {
  let printed = ''
  for await (const chunk of fleet.stdout!) {
    printed += String(chunk)
    if (printed.includes('Ctrl-C')) break
  }
  return [...printed.matchAll(/^ +http:\/\/127\.0\.0\.1:(\d+)$/gm)].map((match) => Number(match[1]))
}

async function statusOf(port: number): Promise<number> {
  const fields = [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/api/hello'],
    ['X-Api-Key', 'alice'],
  ] as const
  return (await ask(port, 'POST', '/v1/decision', fields)).status
}

async function end(fleet: ChildProcess, signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
  if (fleet.exitCode !== null || fleet.signalCode !== null) return
  fleet.kill(signal)
  await once(fleet, 'exit')
}
