import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, matching, policy } from '../../../test/support/bundles/bundles.ts'
import { BACKENDS, complaintsAbout, routed } from '../../../test/support/bundles/routed-bundles.ts'

const ALL = { backends: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] }

describe('a route never matches behind one that covers all of its requests', () => {
  test.each<[string, object, object]>([
    ['everything', {}, { selector: { pathPrefix: '/v1' }, match: { 'llm:model': 'x' } }],
    ['the same', { selector: { pathPrefix: '/v1' } }, { selector: { pathPrefix: '/v1/' } }],
    ['a path above', { selector: { pathPrefix: '/v1' } }, { selector: { pathExact: '/v1/x', methods: ['GET'], hosts: ['a.example'] } }],
    ['more hosts', { selector: { hosts: ['*.example'] } }, { selector: { hosts: ['a.example', '*.b.example'] } }],
    ['more methods', { selector: { methods: ['get', 'POST'] } }, { selector: { methods: ['GET'] } }],
    ['more values', { match: { 'llm:model': ['x', 'gpt-*'] } }, { match: { 'llm:model': ['gpt-4*', 'gpt-3', 'x'], 'header:a': 'b' } }],
    ['another spelling', { match: { 'header:X-A': 'b' } }, { match: { 'header:x-a': 'b' } }],
    ['the same exceptions', { selector: { exceptPaths: ['/x'] } }, { selector: { exceptPaths: ['/x', '/y'] } }],
    ['exceptions elsewhere', { selector: { exceptPaths: ['/x'] } }, { selector: { pathPrefix: '/y' } }],
  ])('%s', (_what, first, second) => {
    expect(
      warningsOf([
        { ...first, ...ALL },
        { ...second, ...ALL },
      ]),
    ).toEqual(['routes[1]: it never matches: routes[0] covers all of its requests, and the first route decides; move it up'])
  })

  test.each<[string, object, object]>([
    ['a path below', { selector: { pathPrefix: '/v1/x' } }, { selector: { pathPrefix: '/v1' } }],
    ['an exact path', { selector: { pathExact: '/v1' } }, { selector: { pathPrefix: '/v1' } }],
    ['fewer hosts', { selector: { hosts: ['a.example'] } }, { selector: { hosts: ['*.example'] } }],
    ['fewer methods', { selector: { methods: ['GET'] } }, {}],
    ['fewer values', { match: { 'llm:model': 'gpt-4*' } }, { match: { 'llm:model': 'gpt-*' } }],
    ['a value for a prefix', { match: { 'llm:model': 'gpt-4' } }, { match: { 'llm:model': 'gpt-4*' } }],
    ['another key', { match: { 'header:a': 'b' } }, { match: { 'llm:model': 'x' } }],
    ['exceptions inside', { selector: { exceptPaths: ['/y/x'] } }, { selector: { pathPrefix: '/y' } }],
  ])('but not behind %s', (_what, first, second) => {
    expect(
      warningsOf([
        { ...first, ...ALL },
        { ...second, ...ALL },
      ]),
    ).toEqual([])
  })
})

test('a backend that no route names is reported', () => {
  expect(warningsOf([{ backends: [{ name: 'a' }], fallback: [{ name: 'c' }] }])).toEqual([
    'backends.b: no route names this backend, so it gets no requests',
  ])
  expect(complaintsAbout({ ...bundle(1), backends: { a: BACKENDS.a } }).warnings).toEqual([
    'backends.a: no route names this backend, so it gets no requests',
  ])
})

test('a credential in the bundle is reported, and not quoted', () => {
  const headers = { Authorization: 'Bearer sk-canary', 'x-api-key': '{KEY}', 'anthropic-version': '1' }
  expect(complaintsAbout(routed([{ backends: [{ name: 'a' }] }], { a: { url: 'https://a.example', headers } })).warnings).toEqual([
    'backends.a.headers.Authorization: everybody who can read the bundle can read this credential: put it into a secret, and write {NAME} here',
  ])
})

test('settings without effect are reported', () => {
  const one = { backends: [{ name: 'a' }] }
  const others = { backends: [{ name: 'b' }, { name: 'c', weight: 0 }] }
  expect(
    warningsOf([{ ...one, selector: { pathPrefix: '/1' }, retry: { on: [429] }, stick_to: ['ip:address', 'llm:model'] }, others]),
  ).toEqual([
    'routes[0].retry.attempts: there are 0 other backends to try: attempts above that have no effect',
    'routes[0].stick_to: it has no effect: the route has one backend',
  ])
  expect(warningsOf([{ ...ALL, retry: { attempts: 2 } }])).toEqual([])
  expect(warningsOf([{ ...ALL, retry: { attempts: 3 } }])).toEqual([
    'routes[0].retry.attempts: there are 2 other backends to try: attempts above that have no effect',
  ])
  const selector = { pathPrefix: '/v1/*', exceptPaths: ['/x'] }
  expect(warningsOf([{ ...ALL, selector, match: { 'llm:model': 'a*b' } }])).toEqual([
    'routes[0].selector.pathPrefix: a * in a path is a literal *, not any text: write "/v1", and pathPrefix covers everything below it',
    'routes[0].selector.exceptPaths[0]: it has no effect: the route does not cover this path anyway',
    'routes[0].match["llm:model"]: only a * at the end stands for any text, so this never matches: list whole values, or how they begin, such as "example-*": "a*b"',
  ])
})

test('a $ in front of a secret, and a path that is sent twice, are reported', () => {
  const of = (url: string, selector: object, text = 'Bearer {OPENAI}'): readonly string[] =>
    complaintsAbout(routed([{ backends: [{ name: 'a' }], selector }], { a: { url, headers: { authorization: text } } })).warnings
  const twice = 'every path of its routes begins with the path of this URL, which is put in front of it, so the backend gets'
  expect(of('https://a.example', { pathPrefix: '/v1' }, `Bearer $${'{OPENAI}'}`)).toEqual([
    `backends.a.headers.authorization: write {OPENAI}: the $ of $${'{OPENAI}'} is sent too`,
  ])
  expect(of('https://a.example/v1/', { pathPrefix: '/v1' })).toEqual([`backends.a.url: ${twice} /v1/v1: remove it here`])
  expect(of('https://a.example/v1', { pathExact: '/v1/chat/completions' })).toEqual([`backends.a.url: ${twice} /v1/v1: remove it here`])
  expect(of('https://a.example/openai', { pathExact: '/v1/chat/completions' })).toEqual([])
  expect(of('https://a.example/v1', { pathPrefix: '/v10' })).toEqual([])
  expect(of('https://a.example/v1', { pathPrefix: '/' })).toEqual([])
})

describe('retries that need a body which nothing reads', () => {
  const RETRY = { retry: { on: ['connect', 429, '5xx'], attempts: 1 } }
  const UNREAD = [expect.stringMatching(/^routes\[0\]\.retry\.on: only connect is retried for requests with a body, because nothing reads/)]

  test('are reported', () => {
    expect(warningsOf([{ ...ALL, ...RETRY }])).toEqual(UNREAD)
    expect(warningsOf([{ ...ALL, ...RETRY, match: { 'header:x': 'y' }, selector: { methods: ['get', 'POST'] } }])).toEqual(UNREAD)
    expect(warningsOf([{ ...ALL, retry: { on: ['timeout'] } }])).toEqual(UNREAD)
  })

  test.each<[string, object]>([
    ['the route matches the model', { match: { 'llm:model': '*' } }],
    ['it sticks to the model', { stick_to: ['llm:model'] }],
    ['a backend gets another model', { fallback: [{ name: 'a', model: 'x' }] }],
    ['its requests have no body', { selector: { methods: ['get', 'HEAD'] } }],
    ['only connections are retried', { retry: { on: ['connect'], attempts: 2 } }],
  ])('are not reported where %s', (_, more) => {
    expect(warningsOf([{ ...ALL, ...RETRY, ...more }])).toEqual([])
  })

  test.each([
    ['a token budget', llmRule('r', [], { tokens_per_minute: 100_000 })],
    ['a rule by model', bucketRule('r', ['llm:model'], 1)],
    ['a rule for some models', matching({ 'llm:model': 'x' }, bucketRule('r', [], 1))],
  ])('are not reported where %s reads bodies', (_, rule) => {
    const { warnings } = complaintsAbout({ ...routed([{ ...ALL, ...RETRY }]), policies: [policy('p', { rules: [rule] })] })
    expect(warnings.filter((warning) => warning.includes('retry'))).toEqual([])
  })
})

test('a thousand routes are compared in bounded steps', () => {
  const routes = Array.from({ length: 1000 }, (_, i) => ({
    ...ALL,
    selector: { pathPrefix: `/${i}` },
    match: { 'llm:model': [`${i}`, 'x'] },
  }))
  expect(warningsOf(routes)).toEqual([])
})

function warningsOf(routes: readonly object[]): readonly string[] {
  const { problems, warnings } = complaintsAbout(routed(routes))
  expect(problems).toEqual([])
  return warnings
}
