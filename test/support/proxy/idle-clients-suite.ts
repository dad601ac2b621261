import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bundle } from '../bundles/bundles.ts'
import { openMany } from '../service/crowds.ts'
import { describeWithProc, memoryKib, openFiles, untilCalm } from '../service/process-facts.ts'
import { scratchDirectory, serving } from '../service/running.ts'
import { until } from '../until.ts'
import { HttpBackend } from './backend.ts'
import { proxyEnv } from './proxy.ts'

/** What a process has open beside its connections, amply. */
const SPARE_FILES = 500
const BATCH = 100
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

/** So many clients that keep their connections: half have asked once, so that both kinds of idleness are there. */
export function idleClientsSuite(connections: number, wire: string, maxKib: number): void {
  describeWithProc(`${connections} idle clients of a proxy on the wire ${wire}`, () => {
    test(`cost less than ${maxKib} KiB each, are served when they ask, and leave nothing behind`, async ({ skip }) => {
      const allowed = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim()
      if (Number(allowed) < connections + SPARE_FILES) skip(`a process may open ${allowed} files only`)
      const backend = await HttpBackend.start()
      const path = join(await scratchDirectory(), 'bundle.json')
      await writeFile(path, JSON.stringify(bundle(1)))
      const cli = await serving({ ...proxyEnv(backend.url), EDGE_CONFIG_FILE: path, EDGE_STORE_SIZE: '1m', EDGE_PROXY_WIRE: wire })
      // What a process needs for its first requests is nobody's in particular.
      const first = await openMany(cli.port, BATCH)
      for (let i = 0; i < 10; i++) await askAll(first)
      for (const socket of first) socket.destroy()
      await untilCalm(cli)
      const [before, files] = [await memoryKib(cli, 'VmRSS'), await openFiles(cli)]

      const sockets = await openMany(cli.port, connections)
      await askAll(sockets.slice(0, connections / 2))
      expect(((await memoryKib(cli, 'VmRSS')) - before) / connections).toBeLessThan(maxKib)
      await askAll(sockets)
      for (const socket of sockets) socket.destroy()
      // Connections to the backend stay for those who come next.
      await until(async () => (await openFiles(cli)) <= files + BATCH)
    }, 300_000)
  })
}

/** Each asks once and gets its response, some at a time. */
async function askAll(sockets: readonly Socket[]): Promise<void> {
  for (let from = 0; from < sockets.length; from += BATCH) {
    await Promise.all(sockets.slice(from, from + BATCH).map(ask))
  }
}

function ask(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let received = ''
    const onData = (chunk: Buffer): void => {
      received += chunk.toString('latin1')
      if (!received.endsWith('hello')) return
      socket.off('data', onData)
      if (received.startsWith('HTTP/1.1 200 ')) resolve()
      else reject(new Error(`an idle client got ${received}`))
    }
    socket.on('data', onData)
    socket.write(GET)
  })
}
