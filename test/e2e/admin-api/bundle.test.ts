import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const HASH = /^[0-9a-f]{64}$/
const NONE = { added: 0, removed: 0, changed: 0, unchanged: 0 }
const PER_KEY = bucketRule('per-key', ['header:x-k'], 10, 5)

async function bundleOf(port: number) {
  return (await askAdmin(port, 'GET', 'bundle')).json
}

describe('GET bundle', () => {
  test('has no bundle, nothing before it and no changes at first, and says what is wrong with the source', async () => {
    const edge = await running({ env: ADMIN_ENV })
    expect(await bundleOf(edge.adminPort)).toEqual({
      bundle: null,
      source: {
        path: edge.bundlePath,
        url: null,
        cached: false,
        signature_required: false,
        looks: expect.any(Number),
        problem: 'there is no such file',
        refused: null,
      },
      previous: null,
      changes: null,
    })
    await edge.publish(bundle(3, policy('p', { rules: [] })))
    expect(await bundleOf(edge.adminPort)).toEqual({
      bundle: { version: '3', hash: expect.stringMatching(HASH), applied_at: expect.stringMatching(TIME), policies: 1 },
      source: {
        path: edge.bundlePath,
        url: null,
        cached: false,
        signature_required: false,
        looks: expect.any(Number),
        problem: null,
        refused: null,
      },
      previous: null,
      changes: null,
    })
  })

  test('says what changed since the bundle before: policies, their fields, their rules, the fields of these', async () => {
    const clock = new ManualClock()
    const gone = policy('gone', { selector: { pathPrefix: '/old' }, rules: [PER_KEY] })
    const kept = policy('kept', { rules: [PER_KEY] })
    const api = policy('api', { mode: 'shadow', selector: { pathPrefix: '/api' }, rules: [PER_KEY, bucketRule('dropped', [], 7)] })
    const edge = await running({ bundle: bundle(1, gone, kept, api), env: ADMIN_ENV, clock })
    const first = (await bundleOf(edge.adminPort)).bundle
    clock.advance(5000)
    const vip = matching({ 'header:x-plan': 'gold' }, bucketRule('vip', ['header:x-k'], 100, 50))
    await edge.publish(
      bundle(
        2,
        policy('kept', { rules: [PER_KEY] }),
        policy('api', {
          selector: { pathPrefix: '/api', methods: ['GET'] },
          rules: [bucketRule('per-key', ['header:x-k', 'ip:address'], 20, 5), vip],
        }),
        policy('new', { rules: [] }),
      ),
    )
    const { bundle: active, previous, changes } = await bundleOf(edge.adminPort)
    expect(previous).toEqual(first)
    expect(active).toMatchObject({ version: '2', policies: 3 })
    expect(Date.parse(active.applied_at) - Date.parse(previous.applied_at)).toBe(5000)
    expect(changes).toMatchObject({
      policies: { added: 1, removed: 1, changed: 1, unchanged: 1 },
      reordered: false,
      prices: NONE,
      complete: true,
      price_changes: [],
    })
    const [changed, removed, added] = changes.policy_changes
    expect(changed).toEqual({
      kind: 'changed',
      policy: 'api',
      fields: [
        { field: 'mode', before: 'shadow', after: 'enforce' },
        { field: 'selector.methods', before: null, after: '["GET"]' },
      ],
      rules: [
        {
          kind: 'changed',
          rule: 'per-key',
          fields: [
            { field: 'limit_keys', before: '["header:x-k"]', after: '["header:x-k","ip:address"]' },
            { field: 'algorithm_config.burst', before: '10', after: '20' },
          ],
        },
        {
          kind: 'removed',
          rule: 'dropped',
          fields: expect.arrayContaining([{ field: 'algorithm_config.burst', before: '7', after: null }]),
        },
        { kind: 'added', rule: 'vip', fields: expect.arrayContaining([{ field: 'match.header:x-plan', before: null, after: 'gold' }]) },
      ],
      left_out: 0,
    })
    expect(removed).toMatchObject({
      kind: 'removed',
      policy: 'gone',
      fields: [
        { field: 'mode', before: 'enforce', after: null },
        { field: 'selector.pathPrefix', before: '/old', after: null },
      ],
      rules: [{ kind: 'removed', rule: 'per-key' }],
    })
    expect(added).toEqual({
      kind: 'added',
      policy: 'new',
      fields: [{ field: 'mode', before: null, after: 'enforce' }],
      rules: [],
      left_out: 0,
    })
  })

  test('says what changed in the prices', async () => {
    const edge = await running({
      bundle: {
        ...bundle(1),
        prices: { main: { 'gpt-5': { input: 1, output: 8 }, old: { input: 1, output: 1 }, '*': { input: 9, output: 9 } } },
      },
      env: ADMIN_ENV,
    })
    await edge.publish({
      ...bundle(2),
      prices: {
        main: { '*': { output: 9, input: 9 }, 'gpt-5': { input: 1.25, output: 8 } },
        constructor: { '*': { input: 2, output: 2 } },
      },
    })
    const { changes } = await bundleOf(edge.adminPort)
    expect(changes.prices).toEqual({ added: 1, removed: 1, changed: 1, unchanged: 1 })
    expect(changes.price_changes).toEqual([
      { kind: 'changed', table: 'main', model: 'gpt-5', fields: [{ field: 'input', before: '1', after: '1.25' }] },
      { kind: 'removed', table: 'main', model: 'old', fields: [expect.objectContaining({ before: '1', after: null }), expect.anything()] },
      {
        kind: 'added',
        table: 'constructor',
        model: '*',
        fields: [expect.objectContaining({ before: null, after: '2' }), expect.anything()],
      },
    ])
  })

  test('keeps the last change after a bundle that is refused, and says why that was', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    await edge.publish(bundle(2, policy('p', { rules: [] })))
    const before = await bundleOf(edge.adminPort)
    writeFileSync(edge.bundlePath, JSON.stringify({ bundle_version: 3, policies: Array.from({ length: 60 }, () => ({})) }))
    await until(async () => (await bundleOf(edge.adminPort)).source.refused !== null)
    const { source, ...others } = await bundleOf(edge.adminPort)
    expect(source.problem).toMatch(/refused/)
    expect(source.refused.problems).toHaveLength(50)
    expect(source.refused.problems[0]).toMatch(/^policies\[0\]\.id: /)
    expect(source.refused.problems_in_all).toBeGreaterThan(100)
    expect(source.refused.hash).toBe(createHash('sha256').update(readFileSync(edge.bundlePath)).digest('hex'))
    expect(others).toEqual({ bundle: before.bundle, previous: before.previous, changes: before.changes })
    rmSync(edge.bundlePath)
    await until(async () => (await bundleOf(edge.adminPort)).source.refused === null)
    expect((await bundleOf(edge.adminPort)).source.problem).toBe('there is no such file')
    await edge.publish(bundle(4))
    expect((await bundleOf(edge.adminPort)).source).toMatchObject({ problem: null, refused: null })
  })

  test('of a URL shows no secret in it', async () => {
    const edge = await running({ env: { ...ADMIN_ENV, EDGE_CONFIG_FILE: '', EDGE_CONFIG_URL: 'http://127.0.0.1:1/b.json?key=secret' } })
    expect((await bundleOf(edge.adminPort)).source).toMatchObject({ path: null, url: 'http://127.0.0.1:1/b.json?…' })
  })

  test('needs the token, and takes no parameters', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    expect((await askAdmin(edge.adminPort, 'GET', 'bundle', { token: undefined })).status).toBe(401)
    expect((await askAdmin(edge.adminPort, 'GET', 'bundle?x=1')).status).toBe(400)
    expect((await askAdmin(edge.adminPort, 'POST', 'bundle', { body: {} })).status).toBe(405)
  })
})
