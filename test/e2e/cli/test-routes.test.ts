import { describe, expect, test } from 'vitest'
import { bucketRule, policy } from '../../support/bundles/bundles.ts'
import { tested } from '../../support/cases/tested.ts'
import { replayed } from '../../support/replay/replaying.ts'

const PROXY = ['--mode', 'reverse_proxy']
const BUNDLE = {
  bundle_version: 1,
  policies: [policy('p', { selector: { pathPrefix: '/limited' }, rules: [bucketRule('r', [], 1)] })],
  backends: {
    a: { url: 'https://a.example.com', headers: { authorization: 'Bearer {A}' } },
    b: { url: 'https://b.example.com' },
    c: { url: 'https://c.example.com' },
  },
  routes: [
    { match: { 'llm:model': 'cheap-*' }, backends: [{ name: 'a' }, { name: 'b' }], fallback: [{ name: 'c' }] },
    { selector: { pathPrefix: '/v1' }, backends: [{ name: 'c', model: 'm' }] },
    { selector: { pathPrefix: '/limited' }, backends: [{ name: 'c' }] },
  ],
}
const chat = (model: string) => ({
  method: 'POST',
  uri: '/v1/chat/completions',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ model, messages: [] }),
})
const steps = (...all: readonly [request: object, expect: object][]) => [
  { name: 'it', steps: all.map(([request, expect]) => ({ request, expect })) },
]

describe('edge test and routes', () => {
  test('a case may expect the backend that a request is sent to, or none; no secret is needed', async () => {
    const cases = steps(
      [chat('cheap-1'), { backend: 'a' }],
      [chat('cheap-1'), { backend: 'b' }],
      [chat('dear'), { status: 200, backend: 'c' }],
      [
        { ...chat(''), body: 'no model' },
        { status: 400, reason: 'model_not_replaceable', backend: null },
      ],
      [{ uri: '/elsewhere' }, { status: 200, backend: null }],
      [{ uri: '/limited' }, { status: 200, backend: 'c' }],
      [{ uri: '/limited' }, { status: 429, backend: null }],
    )
    const { status, stdout, stderr } = await tested(BUNDLE, cases, ...PROXY)
    expect([status, status === 0 ? '' : stdout + stderr]).toEqual([0, ''])
  })

  test.each([
    [chat('cheap-1'), 'c', 'expected c, got a or b'],
    [chat('dear'), 'nobody', 'expected nobody (the bundle has no such backend), got c'],
    [chat('dear'), null, 'expected none, got c'],
    [{ uri: '/elsewhere' }, 'a', 'expected a, got none'],
  ])('a mismatch says what came instead: %j to %s', async (request, backend, text) => {
    const { status, stdout } = await tested(BUNDLE, steps([request, { backend }]), ...PROXY)
    expect(status).toBe(1)
    expect(stdout).toMatch(new RegExp(`backend +${text.replace(/[()]/g, '\\$&')}\n`))
  })

  test('in decision_service nothing is sent anywhere', async () => {
    const { stdout } = await tested(BUNDLE, steps([{ uri: '/limited' }, { backend: 'c' }]))
    expect(stdout).toContain('expected c, got none')
  })

  test('a replay of lines without bodies does not refuse what a route would change in them', async () => {
    const rules = [bucketRule('r', ['llm:model'], 9)]
    const bundle = { ...BUNDLE, policies: [policy('p', { rules })] }
    const line = JSON.stringify({ time: '2026-01-01T00:00:00Z', method: 'POST', uri: '/v1/chat/completions', host: 'h' })
    const report = await replayed({ 'b.json': JSON.stringify(bundle), log: `${line}\n` }, ['--bundle', 'b.json', ...PROXY, 'log'])
    expect(report.bundles[0]).toMatchObject({ allowed: 1, rejected: 0 })
  })
})
