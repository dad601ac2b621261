import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Cli } from '../../support/service/cli.ts'
import { loadedFiles } from '../../support/service/loaded-files.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const PROGRAM = new URL('../../../program/', import.meta.url)

/** Packages that few workers need, or none. */
const HEAVY = /^(?:ioredis|zod|js-yaml|mmdb-lib|@opentelemetry\/.*)$/

describe.concurrent('a thread loads what it uses', () => {
  test('a worker of decision_service: no Redis client, no schemas, no YAML, no countries, no proxy, no OpenTelemetry', async (t) => {
    const { main, workers } = await loadedBy(t)
    expect(workers).toHaveLength(2)
    for (const loaded of workers) {
      expect(await packagesIn(loaded)).toContain('pino')
      expect(await packagesIn(loaded)).not.toEqual(expect.arrayContaining([expect.stringMatching(HEAVY)]))
      expect(loaded).toContain('worker-thread-decision-server.js')
      expect(loaded.filter((name) => /proxy|fleet|country|tracing/.test(name))).toEqual([])
    }
    expect(await packagesIn(main)).toContain('zod')
    expect(await packagesIn(main)).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(?:ioredis|mmdb-lib|@opentelemetry)/)]))
    expect(main.filter((name) => /worker|state-file|bundle-url|country|fake-llm|help/.test(name))).toEqual([])
  })

  test('a worker of reverse_proxy: the proxy, and not the wire of decisions', async (t) => {
    const { workers } = await loadedBy(t, { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' })
    expect(workers).toHaveLength(2)
    for (const loaded of workers) {
      expect(await packagesIn(loaded)).not.toEqual(expect.arrayContaining([expect.stringMatching(HEAVY)]))
      expect(loaded).toContain('worker-thread-proxy-listeners.js')
      expect(loaded).not.toContain('worker-thread-decision-server.js')
    }
  })

  test('a worker with a rule by country: the reader of countries', async (t) => {
    const { workers } = await loadedBy(t, {}, 'ip:country')
    expect(workers).toHaveLength(2)
    for (const loaded of workers) expect(await packagesIn(loaded)).toContain('mmdb-lib')
  })

  test("a worker that traces: OpenTelemetry's SDK; the main thread never", async (t) => {
    const { main, workers } = await loadedBy(t, { EDGE_OTLP_URL: 'http://127.0.0.1:9' })
    expect(workers).toHaveLength(2)
    for (const loaded of workers) expect(await packagesIn(loaded)).toContain('@opentelemetry/sdk-trace')
    expect(await packagesIn(main)).not.toContain('@opentelemetry/sdk-trace')
  })
})

/** The names of the program's files. */
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
  const threads = await loadedFiles(directory)
  return {
    main: threads.find((loaded) => loaded.includes('serve-main.js'))!,
    workers: threads.filter((loaded) => loaded.includes('worker-thread-main.js')),
  }
}

/** The packages whose code is in these files. The bundler notes where each part comes from. */
async function packagesIn(names: readonly string[]): Promise<string[]> {
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, PROGRAM), 'utf8')))
  const origins = texts.flatMap((text) => [...text.matchAll(/^\s*\/\/#region (?:\S*\/)?node_modules\/((?:@[^/\s]+\/)?[^/\s]+)/gm)])
  return [...new Set(origins.map(([, name]) => name!))]
}
