import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { codeBlocks, readText } from '../../docs/markdown.ts'
import { converted, MESSAGING, rulesOf } from '../../support/bundles/converted.ts'

describe('edge convert ratelimit', () => {
  test('several files become one bundle, of the version that was asked for, always the same', async (t) => {
    const files = {
      'a.yaml': MESSAGING,
      'b.yaml': 'domain: other\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1 } }]',
    }
    const first = await converted(t, files, '--bundle-version', '42')
    expect(first.status).toBe(0)
    const { bundle_version, policies } = load(first.stdout) as { bundle_version: number; policies: unknown[] }
    expect([bundle_version, policies.length]).toEqual([42, 3])
    expect((await converted(t, files, '--bundle-version', '42')).stdout).toBe(first.stdout)
  })

  test('the example of the documentation is converted whole', async (t) => {
    const [before] = codeBlocks(readText('docs/moving.md'), 'yaml')
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': before! })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(rulesOf(stdout).map(({ name }) => name)).toEqual([
      'remote_address',
      'remote_address=203.0.113.9',
      'remote_address=192.0.2.10',
      'user',
    ])
  })

  test('values are what the file has: no number is rounded, none loses its zeros', async (t) => {
    const values = ['007', '0x10', '1e3', '1.50', '12345678901234567890', 'yes', '"*x*y"']
    const entries = values.map((value) => `{ key: k, value: ${value}, rate_limit: { unit: day, requests_per_unit: 1 } }`)
    const { stdout } = await converted(t, { 'a.yaml': `domain: d\ndescriptors: [${entries.join(', ')}]` })
    expect(rulesOf(stdout).map(({ match }) => match['descriptor:k'])).toEqual(values.slice(0, -1))
  })

  test('names are unique and printable, however they are spelled', async (t) => {
    const limit = 'rate_limit: { name: same, unit: day, requests_per_unit: 1 }'
    const long = 'x'.repeat(500)
    const entries = ['a', 'b', long].map((value) => `{ key: k, value: ${value}, ${limit} }`)
    const { status, stdout } = await converted(t, {
      'a.yaml': `domain: d\ndescriptors: [${entries.join(', ')}, { key: schlüssel, value: ${long}, rate_limit: { unit: day, requests_per_unit: 1 } }]`,
    })
    expect(status).toBe(0)
    expect(rulesOf(stdout).map(({ name }) => name)).toEqual(['same', 'same 2', 'same 3', `schl?ssel=${'x'.repeat(230)}`])
  })
})

describe('a file that is not valid is named with the place, and nothing is printed', () => {
  const entry = (fields: string): string => `domain: d\ndescriptors: [{ ${fields} }]`
  test.for([
    ['nothing', '', 'the input is empty'],
    ['no YAML', 'domain: [', 'not YAML: '],
    ['a list', '- a', 'expected an object with domain and descriptors, got a list'],
    ['no domain', 'descriptors: []', 'domain: expected the name of a domain, but it is missing'],
    ['an empty domain', 'domain: ""', 'domain: expected the name of a domain, got ""'],
    ['an unknown field', entry('key: k, ratelimit: {}'), 'descriptors[0]: unknown field "ratelimit": did you mean "rate_limit"?'],
    [
      'a field in the wrong place',
      entry('key: k, rate_limit: { unit: day, requests_per_unit: 1, shadow_mode: true }'),
      'descriptors[0].rate_limit: unknown field "shadow_mode", which does not belong here',
    ],
    ['no key', entry('value: v'), 'descriptors[0].key: expected the key of a descriptor, but it is missing'],
    ['no list', 'domain: d\ndescriptors: 5', 'descriptors: expected a list of descriptors, got "5"'],
    ['an unknown unit', entry('key: k, rate_limit: { unit: fortnight }'), 'descriptors[0].rate_limit.unit: expected a unit, one of second'],
    ['no unit', entry('key: k, rate_limit: { requests_per_unit: 1 }'), 'descriptors[0].rate_limit.unit: expected a unit'],
    [
      'a unit of nothing',
      entry('key: k, rate_limit: { unit: day, unlimited: true }'),
      'expected no unit together with unlimited, got "day"',
    ],
    [
      'fewer than no requests',
      entry('key: k, rate_limit: { unit: day, requests_per_unit: -1 }'),
      'descriptors[0].rate_limit.requests_per_unit: expected a whole number of requests, from 0 to 4294967295, got "-1"',
    ],
    ['too many requests', entry('key: k, rate_limit: { unit: day, requests_per_unit: 4294967296 }'), 'from 0 to 4294967295'],
    ['a flag of neither', entry('key: k, shadow_mode: maybe'), 'descriptors[0].shadow_mode: expected true or false, got "maybe"'],
    ['one threshold for one value', entry('key: k, value: v, share_threshold: true'), 'expected a value with * in the same descriptor'],
    [
      'a key and value twice',
      `${entry('key: k')}\n`.replace(']', ', { key: k }]'),
      'descriptors[1]: the same key and value as descriptors[0]',
    ],
    ['a list in itself', 'domain: d\ndescriptors: &a [{ key: k, descriptors: *a }]', 'it contains itself through an alias'],
    ['a bomb of aliases', bomb(), 'it has more than 1000000 values'],
    ['a deep list', `domain: d\ndescriptors: ${'['.repeat(500)}${']'.repeat(500)}`, 'not YAML: '],
  ] as const)('%s', async ([_what, text, message], t) => {
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': text })
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('a.yaml: error: ')
    expect(stderr).toContain(message)
    expect(stderr).not.toContain('    at ')
  })

  test('more exceptions than a bundle can hold', async (t) => {
    const values = Array.from({ length: 2000 }, (_, i) => `{ key: a, value: v${i} }`)
    const children = Array.from({ length: 2000 }, (_, i) => `{ key: b, value: v${i}, rate_limit: { unit: day, requests_per_unit: 1 } }`)
    const { status, stdout, stderr } = await converted(t, {
      'a.yaml': `domain: d\ndescriptors: [${values.join(', ')}, { key: a, descriptors: [${children.join(', ')}] }]`,
    })
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('error: its bundle would have more values than a bundle may have\n')
  })
})

/** Ten lists, each of ten times the one before. */
function bomb(): string {
  const lists = Array.from(
    { length: 10 },
    (_, i) =>
      `l${i}: &l${i} [${Array(10)
        .fill(i === 0 ? 'x' : `*l${i - 1}`)
        .join(', ')}]`,
  )
  return `domain: d\n${lists.join('\n')}\n`
}
