import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { greeting } from '../../../src/cli/greeting.ts'
import { readConfig } from '../../../src/config/config.ts'
import { describeWithCurl } from '../../docs/shell.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { type Environment, running, scratchDirectory } from '../../support/service/running.ts'

const run = promisify(execFile)

const SELECTOR = { pathPrefix: '/orders', methods: ['PUT'], hosts: ['*.shop.example'] }
const BUNDLE = bundle(3, policy('orders', { selector: SELECTOR, rules: [bucketRule('r', ["header:x-it's", 'query:team'], 1, 0.001)] }))

const ENTRY = { name: 'okta', issuer: 'https://okta.test', audiences: ['edge'], jwks_file: 'okta.json' }

const QUESTION = "-H 'X-Original-Method: PUT' -H 'X-Original-URI: /orders/hello?team=alice' -H 'X-Original-Host: www.shop.example'"

describeWithCurl('what edge serve says can be tried', () => {
  test('is a request that the active bundle limits', async () => {
    const edge = await running({ bundle: BUNDLE, clock: new ManualClock() })
    const command = trialOf(edge)!
    expect(command).toBe(`curl -i -X POST http://127.0.0.1:${edge.port}/v1/decision ${QUESTION} -H 'X-It'\\''s: alice'`)
    expect([await statusOf(command), await statusOf(command)]).toEqual([200, 429])
  })

  test('is sent to the backend in reverse_proxy', async () => {
    const backend = await HttpBackend.start()
    const env = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: backend.url }
    const edge = await running({ bundle: BUNDLE, clock: new ManualClock(), env })
    const command = trialOf(edge, env)!
    const url = `http://127.0.0.1:${edge.port}/orders/hello?team=alice`
    expect(command).toBe(`curl -i -X PUT '${url}' -H 'Host: www.shop.example' -H 'X-It'\\''s: alice'`)
    expect([await statusOf(command), await statusOf(command)]).toEqual([200, 429])
  })
})

test('a bundle that covers no requests is tried with any, and one that is missing or refused with none', async () => {
  const edge = await running({ bundle: bundle(1) })
  const question = "-H 'X-Original-Method: GET' -H 'X-Original-URI: /'"
  expect(trialOf(edge)).toBe(`curl -i -X POST http://127.0.0.1:${edge.port}/v1/decision ${question}`)
  const refused = await running({ bundle: 'nonsense' })
  expect(trialOf(refused)).toBeUndefined()
  expect(trialOf(await running({}))).toBeUndefined()
})

test('the backend is EDGE_BACKEND_URL, or what the routes of the bundle say', async () => {
  const hosts = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_HOSTS: 'api.example.com' }
  const edge = await running({ bundle: bundle(1), env: hosts })
  expect(textOf(edge, hosts)).toContain('\n  backend as the routes of the bundle say\n')
  expect(textOf(edge, hosts)).not.toContain('  try ')
  expect(textOf(edge, { ...hosts, EDGE_BACKEND_URL: 'http://localhost:9000/' })).toContain('\n  backend http://localhost:9000\n')
})

test.each<[string, object, string, string]>([
  ['a token', { jwt: [ENTRY] }, 'Authorization: Bearer TOKEN', 'a token of okta for TOKEN'],
  ['a key', { keys: {} }, 'Authorization: Bearer KEY', 'an issued key (edge keys create) for KEY'],
  ['a key in a field', { keys: { from: ['header:x-team-key'] } }, 'X-Team-Key: KEY', 'an issued key (edge keys create) for KEY'],
  ['either', { jwt: [ENTRY], keys: {} }, 'Authorization: Bearer TOKEN', 'a token of okta, or an issued key (edge keys create) for TOKEN'],
])('where callers are enforced, %s is to be put in, and it is said that it gets 401 otherwise', async (_, callers, field, kinds) => {
  const env = { EDGE_SECRETS_DIR: await scratchDirectory() }
  const edge = await running({ bundle: { ...BUNDLE, callers: { ...callers, mode: 'enforce' } }, env })
  const said = textOf(edge)
  expect(said).toContain(` -H '${field}'\n          with ${kinds}; otherwise it gets 401\n`)
  await edge.publish({ ...BUNDLE, bundle_version: 4, callers: { ...callers, mode: 'enforce', except_paths: ['/orders'] } })
  await expect.poll(() => textOf(edge)).not.toContain('401')
  await edge.publish({ ...BUNDLE, bundle_version: 5, callers: { ...callers, mode: 'enforce' } })
  await expect.poll(() => textOf(edge)).toContain('401')
  await edge.publish({ ...BUNDLE, bundle_version: 6, callers })
  await expect.poll(() => textOf(edge)).not.toContain('401')
})

/** The command of the greeting's last line; undefined if it has none. */
function trialOf(edge: Edge, env: Environment = {}): string | undefined {
  return /^ {2}try {5}(.*)\n$/m.exec(textOf(edge, env))?.[1]
}

function textOf(edge: Edge, env: Environment = {}): string {
  const result = readConfig({ EDGE_HOST: '127.0.0.1', EDGE_CONFIG_FILE: edge.bundlePath, ...env }, {})
  if (!result.ok) throw new Error(result.problems.join('\n'))
  return greeting(result.config, edge.service)
}

async function statusOf(command: string): Promise<number> {
  const { stdout } = await run('sh', ['-c', command])
  return Number(/^HTTP\/1\.1 (\d+)/.exec(stdout)![1])
}
