import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { bundleJsonSchema } from '../../src/policy/schema/bundle.ts'
import { blockRule, bucketRule, bundle, llmRule, matching, policy, unlimitedRule } from '../support/bundles/bundles.ts'
import { matches } from '../support/bundles/json-schema.ts'
import { runs } from '../support/run/property-runs.ts'

const SCHEMA = JSON.parse(JSON.stringify(bundleJsonSchema())) as Record<string, unknown>

const streaming = {
  enabled: true,
  enforce_mid_stream: true,
  buffer_tokens: 1,
  on_limit_exceeded: 'error_chunk',
  include_partial_usage: true,
}
const config = { tokens_per_minute: 5000, tokens_per_day: 5000, burst_tokens: 5000, max_completion_tokens: 1, streaming }
const selector = { pathPrefix: '/', exceptPaths: ['/health'], methods: ['GET'], hosts: ['a.com'] }
const matched = matching({ 'ip:tor': ['true'] }, bucketRule('m', [], 5))
const block = blockRule('b', { bearer: 'x*' }, { expires_at: '2999-01-01T00:00:00Z', message: 'no', cut_streams: true })
const FULL = JSON.stringify({
  $schema: 's',
  metadata: {},
  backends: { a: { url: 'https://a.example', headers: { 'x-key': '{KEY}' }, headers_timeout_seconds: 5 }, b: { url: 'https://b.example' } },
  routes: [
    {
      selector,
      match: { 'llm:model': 'gpt-*' },
      backends: [{ name: 'a', weight: 2 }],
      fallback: [{ name: 'b', model: 'm' }],
      stick_to: ['ip:address'],
      retry: { on: ['timeout', 429], attempts: 1 },
    },
  ],
  ...bundle(1, {
    ...policy('p', {
      mode: 'shadow',
      selector,
      rules: [bucketRule('r', [], 5), llmRule('l', ['ip:tor'], config), matched, block, unlimitedRule('u', { bearer: 'y' })],
    }),
    ...{ metadata: {} },
  }),
})

const KNOWN = [
  'bundle_version',
  'policies',
  'id',
  'spec',
  'mode',
  'selector',
  'rules',
  'pathPrefix',
  'hosts',
  'name',
  'limit_keys',
  'algorithm',
]
const NOTES = ['metadata', '$schema', 'issued_at', 'expires_at', 'description', 'labels', 'x-', 'x-note', 'X-Note', 'x-\n']
const ODD = [
  '__proto__',
  'constructor',
  'x_note',
  'x',
  '',
  'Metadata',
  'metadata ',
  'burst',
  'streaming',
  'enabled',
  'names',
  'match',
  '<<',
]

const name = fc.oneof(fc.constantFrom(...KNOWN, ...NOTES, ...ODD), fc.string())
const value = fc.constantFrom<unknown>({}, { mode: 1 }, [], 'x', 7, null, true)

/** At the top of the bundle, so that both happen. */
const ACCEPTED: [number, string, unknown][] = ['issued_at', 'description', 'x-note', 'X-Note'].map((each) => [0, each, 'x'])
const REFUSED: [number, string, unknown][] = ['x_note', 'Metadata', '__proto__', 'burst'].map((each) => [0, each, 'x'])

test('the JSON Schema marks the fields that the service refuses, and no others', () => {
  const seen = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(fc.nat(), name, value, (place, field, content) => {
      const data = JSON.parse(FULL) as object
      const objects = objectsIn(data)
      const object = objects[place % objects.length]!
      if (Object.hasOwn(object, field) && field !== 'metadata') return
      Object.defineProperty(object, field, { value: content, enumerable: true, configurable: true, writable: true })
      const { ok } = parseBundle(JSON.stringify(data))
      expect(matches(SCHEMA, data)).toBe(ok)
      seen[ok ? 'accepted' : 'refused']++
    }),
    { numRuns: runs(30), examples: [...ACCEPTED, ...REFUSED] },
  )
  expect(seen.accepted).toBeGreaterThanOrEqual(ACCEPTED.length)
  expect(seen.refused).toBeGreaterThanOrEqual(REFUSED.length)
})

/** The bundle itself and every object inside it. */
function objectsIn(data: object): object[] {
  const inside = Object.values(data).filter((item): item is object => typeof item === 'object' && item !== null)
  return [...(Array.isArray(data) ? [] : [data]), ...inside.flatMap(objectsIn)]
}
