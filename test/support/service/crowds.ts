import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { until } from '../until.ts'
import type { Cli } from './cli.ts'
import { Load } from './load.ts'
import { describeWithProc, memoryKib, openFiles } from './process-facts.ts'
import { type Environment, scratchDirectory, serving, thisTest } from './running.ts'
import { decisionBytes, original } from './wire.ts'

/** What a process has open beside its connections, amply. */
const SPARE_FILES = 500
const QUESTION = decisionBytes(original('/'))

export function idleConnectionsSuite(connections: number): void {
  describeWithProc(`${connections} idle connections`, () => {
    test('cost some KiB each, and others are served as before', async ({ skip }) => {
      const allowed = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim()
      if (Number(allowed) < connections + SPARE_FILES) skip(`a process may open ${allowed} files only`)
      const cli = await unlimited()
      const before = await memoryKib(cli, 'VmRSS')
      const files = await openFiles(cli)
      const sockets = await openMany(cli.port, connections)
      // Half of them have asked once, so that both kinds of idleness are there.
      const half = connections / 2
      let answered = 0
      for (const socket of sockets.slice(0, half)) {
        socket.once('data', () => answered++)
        socket.write(QUESTION)
      }
      await until(() => answered === half)
      expect(await answersUnderLoad(cli, 300)).toEqual([200])
      const perConnectionKib = ((await memoryKib(cli, 'VmRSS')) - before) / sockets.length
      expect(perConnectionKib).toBeLessThan(20)
      // They are still there, and still served.
      answered = 0
      for (const socket of sockets) {
        socket.once('data', () => answered++)
        socket.write(QUESTION)
      }
      await until(() => answered === sockets.length)
      for (const socket of sockets) socket.destroy()
      await until(async () => (await openFiles(cli)) <= files)
    }, 300_000)
  })
}

/** `edge serve` with a limit that nobody reaches, warm. */
export async function unlimited(env: Environment = {}, owner = thisTest): Promise<Cli> {
  const path = join(await scratchDirectory(owner), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] }))))
  const cli = await serving({ EDGE_CONFIG_FILE: path, EDGE_STORE_SIZE: '1m', ...env }, [], owner)
  // What a process needs for its first requests is nobody's in particular.
  await answersUnderLoad(cli, 500)
  return cli
}

export async function openMany(port: number, count: number, owner = thisTest): Promise<Socket[]> {
  const sockets: Socket[] = []
  owner.onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  while (sockets.length < count) {
    // No more at once than a listener's queue holds.
    const batch = Array.from({ length: Math.min(200, count - sockets.length) }, () => connect(port, '127.0.0.1'))
    for (const socket of batch) socket.on('error', () => {}) // being cut may look like a reset
    sockets.push(...batch)
    await Promise.all(batch.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  }
  return sockets
}

/** The statuses that other clients get meanwhile, each once. */
export async function answersUnderLoad(cli: Cli, count: number): Promise<number[]> {
  const load = new Load(cli.port, original('/'), 4)
  await until(() => load.total >= count || load.errors.length > 0)
  await load.stop()
  expect(load.errors).toEqual([])
  return [...load.statuses.keys()]
}
