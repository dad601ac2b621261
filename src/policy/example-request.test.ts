import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, policy } from '../../test/support/bundles/bundles.ts'
import { type ExampleRequest, exampleRequest } from './example-request.ts'
import { parseBundle } from './parse.ts'

test('the example bundle has the request that the README sends', () => {
  expect(exampleOf(JSON.parse(readFileSync('examples/quickstart.json', 'utf8')))).toEqual({
    method: 'GET',
    target: '/api/hello',
    host: undefined,
    fields: [['X-Api-Key', 'alice']],
  })
})

test.each<[string, object, string[], Partial<ExampleRequest>]>([
  ['everything', {}, [], { method: 'GET', target: '/hello', fields: [] }],
  ['one path', { pathExact: '/v1/login', methods: ['post', 'PUT'] }, ['ip:address'], { method: 'POST', target: '/v1/login', fields: [] }],
  ['a folder', { pathPrefix: '/a/', methods: ['POST', 'GET'] }, [], { method: 'GET', target: '/a/hello' }],
  ['a path with an exception', { pathPrefix: '/a', exceptPaths: ['/a/hello'] }, [], { target: '/a' }],
  ['a path beside an exception', { pathPrefix: '/a', exceptPaths: ['/a/hell'] }, [], { target: '/a/hello' }],
  ['hosts', { hosts: ['*.api.example.com', 'x'] }, [], { host: 'www.api.example.com' }],
  ['letters of any language', { pathPrefix: '/größe ' }, ['query:a&b'], { target: '/gr%C3%B6%C3%9Fe%20/hello?a%26b=alice' }],
  ['a token', {}, ['bearer', 'header:authorization'], { fields: [['Authorization', 'Bearer alice']] }],
  ['cookies', {}, ['cookie:a', 'cookie:b'], { fields: [['Cookie', 'a=alice; b=alice']] }],
  ['what only a client sets', {}, ['header:host', 'header:content-length', 'jwt:sub', 'llm:model'], { fields: [] }],
])('a policy for %s', (_, selector, keys, expected) => {
  const rules = [blockRule('b'), bucketRule('r', keys, 5)]
  expect(exampleOf(bundle(1, policy('p', { selector, rules })))).toMatchObject(expected)
})

test('an enforcing policy is shown before one in shadow mode, and one in shadow mode before none', () => {
  const at = (pathExact: string, mode: string) => policy(`p${mode}`, { mode, selector: { pathExact }, rules: [bucketRule('r', [], 5)] })
  expect(exampleOf(bundle(1, at('/a', 'shadow'), at('/b', 'enforce')))).toMatchObject({ target: '/b' })
  expect(exampleOf(bundle(1, at('/a', 'shadow')))).toMatchObject({ target: '/a' })
})

test('there is none where no policy covers requests', () => {
  expect(exampleOf(bundle(1))).toBeUndefined()
  expect(exampleOf(bundle(1, policy('p', { rules: [] })))).toBeUndefined()
  const domain = policy('d', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:k'], 5)] })
  expect(exampleOf(bundle(1, domain))).toBeUndefined()
  const nothing = policy('e', { selector: { pathPrefix: '/a', exceptPaths: ['/a'] }, rules: [bucketRule('r', [], 5)] })
  expect(exampleOf(bundle(1, nothing))).toBeUndefined()
})

function exampleOf(value: object): ExampleRequest | undefined {
  const parsed = parseBundle(JSON.stringify(value), 'json')
  if (!parsed.ok) throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
  return exampleRequest(parsed.bundle.policies)
}
