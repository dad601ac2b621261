import { readdirSync } from 'node:fs'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { succeed } from '../support/packaging/npm.ts'
import { ROOT } from '../support/packaging/source-copy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import type { Cli } from '../support/service/cli.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory, serving, thisTest } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { original } from '../support/service/wire.ts'
import { OtlpReceiver } from '../support/traces/otlp-receiver.ts'
import { callerSpan } from '../support/traces/trace-contexts.ts'
import { until } from '../support/until.ts'

/** `program/` copied to a folder above which there are no packages, as images and system packages install it. */
let folder: string
let program: string

describe('program/ without the rest of the package', () => {
  const suite = thisSuite()
  beforeAll(async () => {
    folder = await scratchDirectory(suite)
    await cp(join(ROOT, 'program'), folder, { recursive: true })
    program = join(folder, 'edge.js')
  })

  test('loads nothing but itself and Node: every other name that its files require is in it', async () => {
    for (const name of readdirSync(folder).filter((name) => name.endsWith('.js'))) {
      const required = [...(await readFile(join(folder, name), 'utf8')).matchAll(/\brequire\("([^"]+)"\)/g)].map(([, id]) => id!)
      // The package `debug` asks for this one in a `try`, to have colours.
      const foreign = required.filter((id) => !isBuiltin(id) && !id.startsWith('./') && id !== 'supports-color')
      expect(foreign, name).toEqual([])
    }
  })

  test('has its version, its licence and the notices of what it contains', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    expect(await succeed(folder, program, '--version')).toBe(`${version}\n`)
    for (const name of ['LICENSE', 'THIRD-PARTY-NOTICES'])
      expect(await readFile(join(folder, name), 'utf8')).toBe(await readFile(join(ROOT, name), 'utf8'))
  })

  test('checks and tests bundles', async () => {
    expect(await succeed(folder, program, 'validate', join(ROOT, 'examples/quickstart.json'))).toMatch(/: ok\b/)
  })

  test('decides by country in two workers, traces to a collector, and shows the page and the API', async () => {
    const receiver = await OtlpReceiver.start()
    const edge = await started({ ...receiver.env, EDGE_DEBUG_SESSION_SECRET: SECRET }, 'ip:country')
    const login = await ask(adminPortOf(edge), 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    const facts = [
      ['X-Forwarded-For', '8.8.8.8'],
      ['Cookie', login.headers['set-cookie']!.split(';')[0]!],
      ['traceparent', callerSpan().traceparent],
    ] as const
    const answer = await ask(edge.port, 'POST', '/v1/decision', original('/', ...facts))
    expect([answer.status, answer.headers['x-edge-debug-descriptor-1-value']]).toEqual([200, 'US'])
    await until(() => receiver.spans.length === 1)
    const token = [['Authorization', `Bearer ${SECRET}`]] as const
    for (const [path, text] of ADMIN_TEXTS)
      expect(await ask(adminPortOf(edge), 'GET', path, token)).toMatchObject({ status: 200, body: text })
    expect(await edge.stop()).toBe(0)
  })

  test('proxies', async () => {
    const backend = await HttpBackend.start()
    const edge = await started({ EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: backend.url })
    expect((await ask(edge.port, 'GET', '/hello')).status).toBe(200)
    expect(backend.seen).toHaveLength(1)
    expect(await edge.stop()).toBe(0)
  })

  describeWithRedis('with Redis', () => {
    test('counts there', async () => {
      const redis = await runningRedis()
      const edge = await started({ EDGE_REDIS_URL: redis.url })
      expect((await ask(edge.port, 'POST', '/v1/decision', original('/'))).status).toBe(200)
      expect(await redis.command('DBSIZE')).not.toBe(0)
      expect(await edge.stop()).toBe(0)
    })
  })
})

const SECRET = 'a-secret-for-tests-0123456789-0123456789'
/** What the admin port serves from files that the program has beside it. */
const ADMIN_TEXTS = [
  ['/', expect.stringContaining('/console/console.js')],
  ['/console/console.js', expect.stringContaining('THIRD-PARTY-NOTICES')],
  ['/admin/v1/openapi.json', expect.stringContaining('"openapi"')],
] as const

function adminPortOf(edge: Cli): number {
  return Number(/admin\s+http:\/\/\S+?:(\d+)/.exec(edge.stdout)![1])
}

/** With two workers and an admin port. */
async function started(env: Readonly<Record<string, string>>, key = 'header:x-api-key'): Promise<Cli> {
  const bundleFile = join(await scratchDirectory(), 'bundle.json')
  await writeFile(bundleFile, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [key], 100)] }))))
  const settings = {
    EDGE_CONFIG_FILE: bundleFile,
    EDGE_WORKERS: '2',
    EDGE_ADMIN_PORT: '0',
    EDGE_ADMIN_HOST: '127.0.0.1',
    EDGE_ADMIN_TOKEN: SECRET,
    ...env,
  }
  return serving(settings, [], thisTest, { program })
}
