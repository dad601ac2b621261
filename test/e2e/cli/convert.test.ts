import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, type TestContext, test } from 'vitest'
import { codeBlocks, readText } from '../../docs/markdown.ts'
import { command, type Said } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'

const MESSAGING = `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5 }
      - key: to_number
        value: 2065550100
        rate_limit: { name: our-own, unit: second, requests_per_unit: 10 }
  - key: to_number
    rate_limit: { unit: hour, requests_per_unit: 100 }
`

describe('edge convert ratelimit', () => {
  test('values become match, keys limit_keys, and a key without value what is left', async (t) => {
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': MESSAGING })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(load(stdout)).toEqual({
      bundle_version: 1,
      policies: [
        {
          id: 'messaging/message_type=marketing/to_number',
          spec: {
            selector: { domain: 'messaging', descriptors: { 'descriptor:message_type': 'marketing' } },
            rules: [
              {
                name: 'to_number',
                match: 'else',
                limit_keys: ['descriptor:to_number'],
                algorithm: 'fixed_window',
                algorithm_config: { limit: 5, period: '1d' },
              },
              {
                name: 'our-own',
                match: { 'descriptor:to_number': '2065550100' },
                limit_keys: [],
                algorithm: 'token_bucket',
                algorithm_config: { rate: '10/second' },
              },
            ],
          },
        },
        {
          id: 'messaging/to_number',
          spec: {
            selector: { domain: 'messaging' },
            rules: [
              {
                name: 'to_number',
                limit_keys: ['descriptor:to_number'],
                algorithm: 'fixed_window',
                algorithm_config: { limit: 100, period: '1h' },
              },
            ],
          },
        },
      ],
    })
  })

  test.for([
    ['unit: MINUTE, requests_per_unit: 7', { algorithm: 'fixed_window', algorithm_config: { limit: 7, period: '1m' } }],
    ['unit: week, requests_per_unit: 7', { algorithm: 'fixed_window', algorithm_config: { limit: 7, period: '1w' } }],
    ['unit: month, requests_per_unit: 7', { algorithm: 'fixed_window', algorithm_config: { limit: 7, period: '1mo' } }],
    ['unit: year, requests_per_unit: 4294967295', { algorithm: 'fixed_window', algorithm_config: { limit: 4294967295, period: '1y' } }],
    ['unlimited: true', { algorithm: 'unlimited' }],
    ['unlimited: yes', { algorithm: 'unlimited' }],
    ['unit: second, requests_per_unit: 0', { algorithm: 'block' }],
    ['unit: day', { algorithm: 'block' }],
  ] as const)('{ %s }', async ([limit, rule], t) => {
    const { status, stdout } = await converted(t, { 'a.yaml': `domain: d\ndescriptors: [{ key: k, value: v, rate_limit: { ${limit} } }]` })
    expect(status).toBe(0)
    expect(rulesOf(stdout)).toMatchObject([{ match: { 'descriptor:k': 'v' }, ...rule }])
  })

  test('a limit in shadow mode is in a shadow policy, and the rest of its key does not cover it', async (t) => {
    const { stdout } = await converted(t, {
      'a.yaml': `
domain: d
descriptors:
  - { key: k, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: k, value: v, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: k, value: listed }
`,
    })
    expect(load(stdout)).toMatchObject({
      policies: [
        {
          id: 'd/k',
          spec: {
            rules: [
              { match: { 'descriptor:k': ['v', 'listed'] }, algorithm: 'unlimited' },
              { name: 'k', match: 'else' },
            ],
          },
        },
        { id: 'd/k (shadow)', spec: { mode: 'shadow', rules: [{ name: 'k=v', match: { 'descriptor:k': 'v' } }] } },
      ],
    })
  })

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

  test('what the program prints can be loaded', async (t) => {
    const directory = await scratchDirectory(t)
    const [from, to] = [join(directory, 'a.yaml'), join(directory, 'limits.yaml')]
    await writeFile(from, MESSAGING)
    const { status, stdout } = await finished(['convert', 'ratelimit', from], {}, t)
    await writeFile(to, stdout)
    expect(status).toBe(0)
    expect(await command('validate', to)).toEqual({ status: 0, stdout: `${to}: ok, version 1, 2 policies\n`, stderr: '' })
    expect(await readFile(from, 'utf8')).toBe(MESSAGING)
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
    expect(rulesOf(stdout).map(({ match }) => match['descriptor:k'])).toEqual([...values.slice(0, -1), '*x*y'])
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

describe('what a bundle cannot express is named, the rest is printed, and the exit status is 1', () => {
  const limit = 'rate_limit: { unit: day, requests_per_unit: 1 }'
  test.for([
    [
      `{ key: k, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: other }] } }`,
      'descriptors[0].rate_limit.replaces: there is no equivalent; this limit and those that it replaces both apply',
      1,
    ],
    [
      `{ key: k, quota_mode: true, ${limit} }`,
      'descriptors[0].quota_mode: there is no equivalent; the limit is in shadow mode: it rejects nobody, and no metadata is returned',
      1,
    ],
    [
      `{ key: a, descriptors: [{ key: b, ${limit} }] }, { key: b, descriptors: [{ key: a, ${limit} }] }`,
      'descriptors[1].descriptors[0]: descriptors[0].descriptors[0] has the same keys in another order, and order means nothing to edge; this limit is left out',
      1,
    ],
    [`{ key: "a\\nb", ${limit} }`, 'descriptors[0]: the key "a\\nb" cannot be written in a bundle; this descriptor is left out', 0],
  ] as const)('%s', async ([descriptors, message, count], t) => {
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': `domain: d\ndescriptors: [${descriptors}]` })
    expect(status).toBe(1)
    expect(stderr).toMatch(/^\S+a\.yaml: not converted: /)
    expect(stderr.slice(stderr.indexOf('descriptors'))).toBe(`${message}\n`)
    expect(rulesOf(stdout)).toHaveLength(count)
  })

  test.for([
    [`{ key: k, detailed_metric: true, ${limit} }`, 'detailed_metric and value_to_metric have no effect'],
    [`{ key: k, value: "a*", ${limit} }, { key: k, value: "ab*", ${limit} }`, 'descriptors[1]: it applies to nobody'],
  ] as const)('what changes nothing for callers is only a note: %s', async ([descriptors, message], t) => {
    const { status, stderr } = await converted(t, { 'a.yaml': `domain: d\ndescriptors: [${descriptors}]` })
    expect(status).toBe(0)
    expect(stderr).toContain(': note: ')
    expect(stderr).toContain(message)
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
      'descriptors[0].rate_limit: unknown field "shadow_mode", which belongs elsewhere',
    ],
    ['no key', entry('value: v'), 'descriptors[0].key: expected the key of a descriptor, but it is missing'],
    ['no list', 'domain: d\ndescriptors: 5', 'descriptors: expected a list of descriptors, got "5"'],
    ['an unknown unit', entry('key: k, rate_limit: { unit: fortnight }'), 'descriptors[0].rate_limit.unit: expected a unit, one of second'],
    ['no unit', entry('key: k, rate_limit: { requests_per_unit: 1 }'), 'descriptors[0].rate_limit.unit: expected a unit'],
    ['a unit of nothing', entry('key: k, rate_limit: { unit: day, unlimited: true }'), 'expected no unit beside unlimited, got "day"'],
    [
      'fewer than no requests',
      entry('key: k, rate_limit: { unit: day, requests_per_unit: -1 }'),
      'descriptors[0].rate_limit.requests_per_unit: expected a whole number of requests, from 0 to 4294967295, got "-1"',
    ],
    ['too many requests', entry('key: k, rate_limit: { unit: day, requests_per_unit: 4294967296 }'), 'from 0 to 4294967295'],
    ['a flag of neither', entry('key: k, shadow_mode: maybe'), 'descriptors[0].shadow_mode: expected true or false, got "maybe"'],
    ['one threshold for one value', entry('key: k, value: v, share_threshold: true'), 'expected a value that ends in * beside it'],
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

  test('a domain in two files', async (t) => {
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': MESSAGING, 'b.yaml': MESSAGING })
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(/b\.yaml: error: domain: "messaging" is already the domain of \S+a\.yaml\n$/)
  })

  test('a file that is not there, beside one that is not valid: both are named', async (t) => {
    const { status, stderr } = await converted(t, { 'a.yaml': 'domain: ""' }, '/nowhere/at/all.yaml')
    expect(status).toBe(1)
    expect(stderr).toContain('/nowhere/at/all.yaml: error: there is no such file\n')
    expect(stderr).toContain('a.yaml: error: domain: ')
  })

  test('more exceptions than a bundle can hold', async (t) => {
    const values = Array.from({ length: 2000 }, (_, i) => `{ key: a, value: v${i} }`)
    const children = Array.from({ length: 2000 }, (_, i) => `{ key: b, value: v${i}, rate_limit: { unit: day, requests_per_unit: 1 } }`)
    const { status, stdout, stderr } = await converted(t, {
      'a.yaml': `domain: d\ndescriptors: [${values.join(', ')}, { key: a, descriptors: [${children.join(', ')}] }]`,
    })
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('error: it comes to more values than a bundle may have\n')
  })
})

test.for([
  [[], 'expected ratelimit\n'],
  [['kong', 'a.yaml'], 'expected ratelimit, the only format there is, got "kong"'],
  [['ratelimit'], 'expected at least one file'],
  [['ratelimit', 'a.yaml', '--bundle-version', '-1'], "'--bundle-version' argument is ambiguous"],
  [['ratelimit', 'a.yaml', '--bundle-version', '1.5'], '--bundle-version: expected a whole number of up to 30 digits, got "1.5"'],
  [['ratelimit', 'a.yaml', '--out', 'b'], '--out'],
] as const)('edge convert %j: 1, named', async ([args, message]) => {
  const { status, stdout, stderr } = await command('convert', ...args)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  expect(stderr).toContain('edge convert: ')
  expect(stderr).toContain(message)
})

async function converted(t: TestContext, files: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Said> {
  const directory = await scratchDirectory(t)
  const paths: string[] = []
  for (const [name, text] of Object.entries(files)) {
    paths.push(join(directory, name))
    await writeFile(paths.at(-1)!, text)
  }
  return command('convert', 'ratelimit', ...args, ...paths)
}

interface PrintedRule {
  readonly name: string
  readonly match: Readonly<Record<string, unknown>>
}

function rulesOf(stdout: string): PrintedRule[] {
  const { policies } = load(stdout) as { policies: { spec: { rules: PrintedRule[] } }[] }
  return policies.flatMap(({ spec }) => spec.rules)
}

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
