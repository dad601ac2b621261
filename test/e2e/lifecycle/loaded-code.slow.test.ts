import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Cli } from '../../support/service/cli.ts'
import { scratchDirectory } from '../../support/service/running.ts'

/** Packages that few workers need, or none. */
const HEAVY = /\/node_modules\/(?:ioredis|zod|js-yaml|mmdb-lib|@opentelemetry)\//

describe.concurrent('a thread loads what it uses', () => {
  test('a worker of decision_service: no Redis client, no schemas, no YAML, no countries, no proxy, no OpenTelemetry', async (t) => {
    const { main, workers } = await loadedBy(t)
    expect(workers).toHaveLength(2)
    for (const loaded of workers) {
      expect(loaded.filter((file) => HEAVY.test(file))).toEqual([])
      expect(own(loaded)).toContain('worker-thread-decision-server.js')
      expect(own(loaded).filter((name) => /proxy|fleet|country|tracing/.test(name))).toEqual([])
    }
    expect(main.filter((file) => /\/node_modules\/(?:ioredis|mmdb-lib|@opentelemetry)\//.test(file))).toEqual([])
    expect(own(main).filter((name) => /worker|state-file|bundle-url|country|fake-llm|help/.test(name))).toEqual([])
  })

  test('a worker of reverse_proxy: the proxy, and not the wire of decisions', async (t) => {
    const { workers } = await loadedBy(t, { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' })
    expect(workers).toHaveLength(2)
    for (const loaded of workers) {
      expect(loaded.filter((file) => HEAVY.test(file))).toEqual([])
      expect(own(loaded)).toContain('worker-thread-proxy-front.js')
      expect(own(loaded)).not.toContain('worker-thread-decision-server.js')
    }
  })

  test('a worker with a rule by country: the reader of countries', async (t) => {
    const { workers } = await loadedBy(t, {}, 'ip:country')
    expect(workers).toHaveLength(2)
    for (const loaded of workers) expect(loaded.some((file) => file.includes('/node_modules/mmdb-lib/'))).toBe(true)
  })

  test("a worker that traces: OpenTelemetry's SDK; the main thread never", async (t) => {
    const { main, workers } = await loadedBy(t, { EDGE_OTLP_URL: 'http://127.0.0.1:9' })
    const ofSdk = (loaded: readonly string[]): string[] => loaded.filter((file) => file.includes('/node_modules/@opentelemetry/sdk-trace/'))
    expect(workers).toHaveLength(2)
    for (const loaded of workers) expect(ofSdk(loaded)).not.toEqual([])
    expect(ofSdk(main)).toEqual([])
  })
})

interface Loaded {
  readonly main: readonly string[]
  readonly workers: readonly (readonly string[])[]
}

/** Starts `edge serve`, stops it, and returns the files that each thread had loaded, as V8 noted them. */
async function loadedBy(t: TestContext, env: Readonly<Record<string, string>> = {}, key = 'header:x-api-key'): Promise<Loaded> {
  const scratch = await scratchDirectory(t)
  const path = join(scratch, 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] }))))
  const directory = join(scratch, 'coverage')
  const cli = await Cli.serve({ EDGE_CONFIG_FILE: path, EDGE_WORKERS: '2', NODE_V8_COVERAGE: directory, ...env })
  expect(await cli.stop()).toBe(0)
  const threads: string[][] = []
  for (const name of await readdir(directory)) {
    const { result } = JSON.parse(await readFile(join(directory, name), 'utf8')) as { result: readonly { url: string }[] }
    threads.push(result.map(({ url }) => url))
  }
  const has = (loaded: readonly string[], name: string): boolean => loaded.some((file) => nameOf(file) === name)
  return { main: threads.find((loaded) => has(loaded, 'edge.js'))!, workers: threads.filter((loaded) => has(loaded, 'worker-thread.js')) }
}

/** The program's own files. */
function own(loaded: readonly string[]): string[] {
  return loaded.filter((file) => file.includes('/program/')).map(nameOf)
}

function nameOf(file: string): string {
  return file.slice(file.lastIndexOf('/') + 1)
}
