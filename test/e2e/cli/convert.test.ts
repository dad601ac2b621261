import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, type TestContext, test } from 'vitest'
import { converted, MESSAGING, rulesOf } from '../../support/bundles/converted.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory, thisTest } from '../../support/service/running.ts'

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

  test('a network is a text that Envoy has computed, and stays one; weeks and months begin where Envoy lets them begin', async (t) => {
    const file = [
      'domain: edge',
      'descriptors:',
      '  - key: masked_remote_address',
      '    value: 10.0.0.0/8',
      '    rate_limit: { unit: week, requests_per_unit: 7 }',
      '  - key: remote_address',
      '    value: 2001:db8::/32',
      '    rate_limit: { unit: month, requests_per_unit: 7 }',
    ].join('\n')
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': file })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(rulesOf(stdout)).toMatchObject([
      { match: { 'descriptor:masked_remote_address': '10.0.0.0/8' }, algorithm_config: { limit: 7, period: '1w' } },
      { match: { 'descriptor:remote_address': '2001:db8::/32' }, algorithm_config: { limit: 7, period: '1mo' } },
    ])
    expect(stdout).not.toContain('anchor')
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
      'descriptors[1].descriptors[0]: descriptors[0].descriptors[0] has the same keys in another order, and edge ignores the order of keys; this limit is left out',
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
    [`{ key: k, value: "a*", ${limit} }, { key: k, value: "ab*", ${limit} }`, 'descriptors[1]: it never applies'],
  ] as const)('what changes nothing for callers is only a note: %s', async ([descriptors, message], t) => {
    const { status, stderr } = await converted(t, { 'a.yaml': `domain: d\ndescriptors: [${descriptors}]` })
    expect(status).toBe(0)
    expect(stderr).toContain(': note: ')
    expect(stderr).toContain(message)
  })
})

describe('a file that is not valid is named with the place, and nothing is printed', () => {
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
})

test.for([
  [[], 'expected ratelimit\n'],
  [['kong', 'a.yaml'], 'expected ratelimit, the only supported format, got "kong"'],
  [['ratelimit'], 'expected at least one file'],
  [['ratelimit', 'a.yaml', '--bundle-version', '-1'], '--bundle-version: expected a value, but the next argument begins with a dash'],
  [['ratelimit', 'a.yaml', '--bundle-version', '1.5'], '--bundle-version: expected a whole number of up to 30 digits, got "1.5"'],
  [['ratelimit', 'a.yaml', '--out', 'b'], '--out'],
] as const)('edge convert %j: 1, named', async ([args, message]) => {
  const { status, stdout, stderr } = await command('convert', ...args)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  expect(stderr).toContain('edge convert: ')
  expect(stderr).toContain(message)
})

describe('what newer versions of the original have', () => {
  const file = (...lines: readonly string[]): string => `domain: d\ndescriptors:\n${lines.map((line) => `  - ${line}\n`).join('')}`
  const LIMIT = 'rate_limit: { unit: hour, requests_per_unit: 5 }'

  test.each([
    ['/api*v1', false],
    ['*v1', false],
    ['a*b*', false],
    ['a*b*', true],
  ])('a wildcard before the end of a value is not converted, and everything else is: %s, shared %s', async (value, isShared) => {
    const shared = isShared ? ', share_threshold: true' : ''
    const text = file(`{ key: path, value: "${value}", ${LIMIT}${shared} }`, `{ key: path, ${LIMIT} }`)
    const { status, stdout, stderr } = await converted(thisTest as TestContext, { 'a.yaml': text })
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^\S+a\.yaml: not converted: descriptors\[0\]\.value: ".+" has a \* before its end, and in a bundle only a \* at the end stands for any text; this descriptor is left out\n$/,
      ),
    ])
    expect(rulesOf(stdout)).toHaveLength(1)
    expect(stdout).not.toContain(value)
  })

  test('metadata is not converted, and its limit is', async (t) => {
    const inEntry = file(`{ key: a, ${LIMIT}, metadata: { x: { y: 1 } } }`)
    const inLimit = file('{ key: a, rate_limit: { unit: hour, requests_per_unit: 5, metadata: [1] } }')
    for (const text of [inEntry, inLimit]) {
      const { status, stdout, stderr } = await converted(t, { 'a.yaml': text })
      expect([status, stderr]).toEqual([1, expect.stringMatching(/^\S+a\.yaml: not converted: descriptors\[0\]\.metadata: .+\n$/)])
      expect(rulesOf(stdout)).toHaveLength(1)
    }
  })

  test('a limit that replaces itself is refused, as the original does, and nothing is printed', async (t) => {
    const text = file('{ key: a, rate_limit: { name: x, unit: hour, requests_per_unit: 5, replaces: [{ name: x }] } }')
    const { status, stdout, stderr } = await converted(t, { 'a.yaml': text })
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toContain('descriptors[0].rate_limit.replaces: expected names of other limits than its own')
  })
})
