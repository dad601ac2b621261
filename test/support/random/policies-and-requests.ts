/** Random bundles with every kind of rule, and random requests that their rules cover or just miss. */

import fc from 'fast-check'
import type { ExplainBody } from '../admin/explained.ts'
import {
  blockRule,
  bucketRule,
  budgetRule,
  concurrencyRule,
  llmRule,
  matching,
  type PolicyText,
  policy,
  rateRule,
  windowRule,
} from '../bundles/bundles.ts'
import type { Answer, Fields } from '../service/http.ts'

/** Those that say how the caller stands, as they came, and whatever else was foretold. */
export function ownFields(
  { headers }: { readonly headers: Readonly<Record<string, string>> },
  { rawHeaders }: Answer,
): Record<string, string> {
  const fields = Array.from({ length: rawHeaders.length / 2 }, (_, i) => [rawHeaders[2 * i]!, rawHeaders[2 * i + 1]!] as const)
  return Object.fromEntries(fields.filter(([name]) => name in headers || /^(?:ratelimit|retry-after|x-edge|x-should)/i.test(name)))
}

export function linesOf(headers: NonNullable<ExplainBody['headers']>): Fields {
  return Object.entries(headers).flatMap(([name, lines]) => [lines].flat().map((line) => [name, line as string] as const))
}

export function requestOf(): fc.Arbitrary<ExplainBody> {
  const value = fc.constantFrom('a', 'b')
  const lines = fc.oneof({ weight: 8, arbitrary: value }, fc.array(value, { minLength: 2, maxLength: 2 }))
  const headers = fc.record(
    {
      'x-key': lines,
      'x-team': value,
      'x-cost': fc.constantFrom('1', '3', '99', 'many'),
      'x-forwarded-for': fc.constantFrom('203.0.113.9', '203.0.113.9, 10.0.0.1', 'nobody'),
      'x-edge-max-tokens': fc.constantFrom('10', '400'),
      'x-edge-model': value,
      cookie: fc.constantFrom('sid=1', 'sid=1; sid=2'),
    },
    { requiredKeys: [] },
  )
  const method = fc.constantFrom('GET', 'POST')
  const uri = fc.constantFrom('/', '/api/x', '/api/../api', '/v1/chat/completions', '/%61pi?q=1', '/api/health')
  return fc.record(
    { method, uri, headers, host: fc.constantFrom('a.test', 'b.test'), body: bodyOf() },
    { requiredKeys: ['method', 'uri', 'headers', 'body'] },
  )
}

function bodyOf(): fc.Arbitrary<string> {
  const chat = fc
    .record({ model: fc.constantFrom('a', 'b'), max_tokens: fc.constantFrom(5, 300) })
    .map((members) => JSON.stringify({ ...members, messages: [{ role: 'user', content: 'hello' }] }))
  return fc.oneof(
    { weight: 4, arbitrary: chat },
    fc.constantFrom('', '{"model":"a","model":"b"}', 'not json', `{"prompt":"${'x'.repeat(600)}"}`),
  )
}

export function policiesOf(): fc.Arbitrary<PolicyText[]> {
  const selector = fc.constantFrom(
    {},
    { pathPrefix: '/api' },
    { pathPrefix: '/api', exceptPaths: ['/api/health'] },
    { pathPrefix: '/v1', methods: ['POST'] },
    { hosts: ['a.test', '127.0.0.1'] },
  )
  const mode = fc.constantFrom('enforce', 'enforce', 'shadow')
  const rules = fc.uniqueArray(ruleOf(), { minLength: 1, maxLength: 4, selector: ({ name }) => name })
  const one = fc.record({ selector, mode, rules })
  return fc.array(one, { minLength: 1, maxLength: 4 }).map((all) => all.map((spec, i) => policy(`p${i}`, spec)))
}

function ruleOf(): fc.Arbitrary<{ readonly name: string }> {
  const burst = fc.integer({ min: 1, max: 4 })
  const keys = fc.constantFrom([], ['header:x-key'], ['header:x-key', 'header:x-team'], ['ip:address'], ['cookie:sid'], ['llm:model'])
  const limited = fc.oneof(
    fc.tuple(keys, burst).map(([k, b]) => bucketRule('bucket', k, b, 0.5)),
    fc.tuple(keys, burst).map(([k, b]) => rateRule('weighed', k, { tokens_per_second: 1, burst: b, cost: { header: 'x-cost' } })),
    fc.tuple(keys, burst).map(([k, b]) => windowRule('window', k, { limit: b, period: '1d', when_over: 'charge' })),
    fc.tuple(keys, burst).map(([k, b]) => llmRule('tokens', k, { tokens_per_minute: 100 * b, tokens_per_day: 1000 })),
    fc.tuple(keys, burst).map(([k, b]) => budgetRule('money', k, { budget: b, cost: { header: 'x-cost', default: 0.5 } })),
    fc.tuple(keys, burst).map(([k, b]) => concurrencyRule('held', k, b)),
  )
  const blocks = fc.constantFrom(
    blockRule('block', { 'header:x-team': 'b' }),
    blockRule('over', { 'header:x-team': 'a' }, { expires_at: '2020-01-01T00:00:00Z' }),
  )
  const matched = limited.map((rule) => matching({ 'header:x-team': 'a' }, { ...rule, name: 'matched' }))
  const others = limited.map((rule) => matching('else', { ...rule, name: 'else' }))
  return fc.oneof({ weight: 4, arbitrary: limited }, blocks, matched, others) as fc.Arbitrary<{ readonly name: string }>
}
