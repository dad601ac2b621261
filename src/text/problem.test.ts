import { describe, expect, test } from 'vitest'
import { ALGORITHM_NAMES, bucketRule, bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { parseBundle } from '../policy/parse.ts'
import { formatPath, formatProblem } from './problem.ts'

describe('a path', () => {
  test.each([
    [[], ''],
    [['bundle_version'], 'bundle_version'],
    [['policies', 2, 'spec', 'rules', 0, 'name'], 'policies[2].spec.rules[0].name'],
    [['policies', 0, 'we ird', 'x'], 'policies[0]["we ird"].x'],
    [['"', 1], '["\\""][1]'],
    [['$schema'], '$schema'],
    [['x\u009b2J\u202e'], '["x\\u009b2J\\u202e"]'],
  ])('of %j is written as %s', (steps, text) => {
    expect(formatPath(steps)).toBe(text)
  })

  test('leads its message, and the message stands alone where it is empty', () => {
    expect(formatProblem({ path: 'policies', message: 'expected a list' })).toBe('policies: expected a list')
    expect(formatProblem({ path: '', message: 'it is empty' })).toBe('it is empty')
  })
})

describe('a problem says where it is, what was expected and what was found', () => {
  const config = 'policies[0].spec.rules[0].algorithm_config'
  const rule = bucketRule('r', [], 5)
  test.each([
    ['a number in quotes', withConfig({ burst: '10' }), `${config}.burst: expected a number of at least 1, got "10" — remove the quotes?`],
    ['a text for a number', withConfig({ burst: 'ten' }), `${config}.burst: expected a number of at least 1, got "ten"`],
    ['an empty text for a number', withConfig({ burst: ' ' }), `${config}.burst: expected a number of at least 1, got " "`],
    [
      'a burst below 1',
      withConfig({ burst: 0.5 }),
      `${config}.burst: expected a number of at least 1, because below 1 no request would ever pass, got 0.5`,
    ],
    ['a missing member', withConfig({ burst: undefined }), `${config}.burst: expected a number of at least 1, but it is missing`],
    [
      'a missing rate, with its unit',
      withConfig({ tokens_per_second: undefined }),
      `${config}.tokens_per_second: expected a number of tokens per second, or rate (for 100 requests a minute write rate: 100/minute), but it is missing`,
    ],
    ['null', withConfig({ burst: null }), `${config}.burst: expected a number of at least 1, got null`],
    [
      'a negative rate',
      withConfig({ tokens_per_second: -1 }),
      `${config}.tokens_per_second: expected a number above 0 (at least 1e-9), got -1`,
    ],
    ['a rate of 0', withConfig({ tokens_per_second: 0 }), `${config}.tokens_per_second: expected a number above 0 (at least 1e-9), got 0`],
    [
      'a rate beyond what headers can carry',
      withConfig({ tokens_per_second: 1e300 }),
      `${config}.tokens_per_second: expected a number up to 999999999999999, got 1e+300`,
    ],
    [
      'a list for an object',
      withRule({ algorithm_config: [] }),
      `${config}: expected an object with rate, or with tokens_per_second and burst, got an empty list`,
    ],
    [
      'a misspelt algorithm',
      withRule({ algorithm: 'token_bukket' }),
      `policies[0].spec.rules[0].algorithm: expected ${ALGORITHM_NAMES}, got "token_bukket" — did you mean "token_bucket"?`,
    ],
    [
      'no algorithm',
      withRule({ algorithm: undefined }),
      `policies[0].spec.rules[0].algorithm: expected ${ALGORITHM_NAMES}, but it is missing`,
    ],
    ['a rule that is null', withSpec({ rules: [null] }), 'policies[0].spec.rules[0]: expected a rule (an object), got null'],
    ['a rule that is a text', withSpec({ rules: ['x'] }), 'policies[0].spec.rules[0]: expected a rule (an object), got "x"'],
    ['rules in an object', withSpec({ rules: {} }), 'policies[0].spec.rules: expected a list of rules, got an object'],
    [
      'a mode in the wrong case',
      withSpec({ mode: 'Enforce' }),
      'policies[0].spec.mode: expected "enforce" or "shadow", got "Enforce" — did you mean "enforce"?',
    ],
    ['a mode like no other', withSpec({ mode: 'audit' }), 'policies[0].spec.mode: expected "enforce" or "shadow", got "audit"'],
    [
      'two kinds of path',
      withSpec({ selector: { pathPrefix: '/a', pathExact: '/b' } }),
      'policies[0].spec.selector: expected either pathPrefix or pathExact, not both, got an object',
    ],
    [
      'no method',
      withSpec({ selector: { methods: [] } }),
      'policies[0].spec.selector.methods: expected at least one method (leave `methods` out to cover all), got an empty list',
    ],
    [
      'one method without a list',
      withSpec({ selector: { methods: 'GET' } }),
      'policies[0].spec.selector.methods: expected a list of HTTP methods, got "GET"',
    ],
    [
      'a method with a space',
      withSpec({ selector: { methods: ['GET', 'P ST'] } }),
      'policies[0].spec.selector.methods[1]: expected an HTTP method, got "P ST"',
    ],
    [
      'no host',
      withSpec({ selector: { hosts: [] } }),
      'policies[0].spec.selector.hosts: expected at least one host (leave `hosts` out to cover all), got an empty list',
    ],
    [
      'a host with a path',
      withSpec({ selector: { hosts: ['a.com/x'] } }),
      'policies[0].spec.selector.hosts[0]: expected a host name or *.name, without scheme or path, got "a.com/x"',
    ],
    ['a selector that is a path', withSpec({ selector: '/api' }), 'policies[0].spec.selector: expected an object, got "/api"'],
    [
      'a name beyond ASCII',
      withRule({ name: 'für' }),
      'policies[0].spec.rules[0].name: expected a string of 1 to 256 printable ASCII characters, got "für"',
    ],
    [
      'a name with a line break',
      withRule({ name: 'a\nb' }),
      'policies[0].spec.rules[0].name: expected a string of 1 to 256 printable ASCII characters, got "a\\nb"',
    ],
    [
      'a name with what a terminal obeys',
      withRule({ name: 'a\u009b2J\u202eb' }),
      'policies[0].spec.rules[0].name: expected a string of 1 to 256 printable ASCII characters, got "a\\u009b2J\\u202eb"',
    ],
    [
      'a name that is far too long, cut short',
      withRule({ name: 'x'.repeat(300) }),
      `policies[0].spec.rules[0].name: expected a string of 1 to 256 printable ASCII characters, got "${'x'.repeat(60)}…"`,
    ],
    [
      'a descriptor key like no other',
      withRule({ limit_keys: ['ip:address', 'ip:adress'] }),
      'policies[0].spec.rules[0].limit_keys[1]: expected bearer, jwt:<claim>, header:<name>, query:<name>, cookie:<name>, path:<1 to 32>, context:<name>, caller:id, caller:<label>, llm:key, llm:model, ip:address, ip:country, ip:type, ip:tor, or with a domain descriptor:<name>, got "ip:adress" — did you mean "ip:address"?',
    ],
    ['half a descriptor key', withRule({ limit_keys: ['ip'] }), expect.stringMatching(/, got "ip" — did you mean "ip:address"\?$/)],
    [
      'another word for else',
      withRule({ match: 'default' }),
      'policies[0].spec.rules[0].match: expected "else", or an object of descriptor keys and patterns, got "default" — did you mean "else"?',
    ],
    [
      'a match that may be a secret',
      withRule({ match: 'default9' }),
      'policies[0].spec.rules[0].match: expected "else", or an object of descriptor keys and patterns, got a text of 8 characters',
    ],
    [
      'a country that is negated',
      withRule({ match: { 'ip:country': ['US', '!DE'] } }),
      'policies[0].spec.rules[0].match["ip:country"][1]: expected the countries themselves, because no pattern is negated: give them a rule of their own, such as an unlimited one, and the others match: else, got "!DE"',
    ],
    [
      'a rate of nothing',
      withRule({ algorithm_config: { rate: '0/minute' } }),
      `${config}.rate: expected a rate above 0 (a block lets nothing pass), got "0/minute"`,
    ],
    [
      '33 descriptor keys',
      withRule({ limit_keys: new Array(33).fill('ip:tor') }),
      'policies[0].spec.rules[0].limit_keys: expected at most 32 keys, got a list',
    ],
    ['a policy without a spec', bundle(1, { id: 'p' } as never), 'policies[0].spec: expected an object with rules, but it is missing'],
    ['a policy that is null', bundle(1, null as never), 'policies[0]: expected a policy (an object), got null'],
    ['no policies', { bundle_version: 1 }, 'policies: expected a list of policies, but it is missing'],
    ['no version', { policies: [] }, 'bundle_version: expected a whole number, or a string of up to 30 digits, but it is missing'],
    ['a version with a fraction', bundle(1.5), 'bundle_version: expected a whole number, or a string of up to 30 digits, got 1.5'],
    ['a version below 0', bundle(-1), 'bundle_version: expected a whole number, or a string of up to 30 digits, got -1'],
    ['a version with letters', bundle('v12'), 'bundle_version: expected a whole number, or a string of up to 30 digits, got "v12"'],
    ['a list for the bundle', [rule], 'expected an object with bundle_version and policies, got a list'],
  ])('%s', (_, data, message) => {
    expect(problemsOf(data)).toEqual([message])
  })

  test.each([
    [
      'a fraction of a token',
      { tokens_per_minute: 1.5 },
      '.tokens_per_minute: expected a whole number of tokens, from 1 to 999999999999999, got 1.5',
    ],
    [
      'tokens in quotes',
      { tokens_per_day: '100' },
      '.tokens_per_day: expected a whole number of tokens, from 1 to 999999999999999, got "100" — remove the quotes?',
    ],
    [
      'too many tokens',
      { tokens_per_day: 1e15 },
      '.tokens_per_day: expected a whole number of tokens, from 1 to 999999999999999, got 1000000000000000',
    ],
    ['no budget at all', { burst_tokens: 5000 }, ': expected at least one of tokens_per_minute and tokens_per_day, got an object'],
    ['a word for a flag', { tokens_per_day: 5000, streaming: { enabled: 'yes' } }, '.streaming.enabled: expected true or false, got "yes"'],
    [
      'half a word',
      { tokens_per_day: 5000, streaming: { on_limit_exceeded: 'graceful' } },
      '.streaming.on_limit_exceeded: expected "graceful_close" or "error_chunk", got "graceful" — did you mean "graceful_close"?',
    ],
  ])('%s in an LLM rule', (_, llmConfig, message) => {
    expect(problemsOf(bundle(1, policy('p', { rules: [llmRule('r', [], llmConfig)] })))).toEqual([`${config}${message}`])
  })
})

function withSpec(spec: object): object {
  return bundle(1, policy('p', { rules: [], ...spec }))
}

function withRule(members: object): object {
  return withSpec({ rules: [{ ...bucketRule('r', [], 5), ...members }] })
}

function withConfig(members: object): object {
  return withRule({ algorithm_config: { tokens_per_second: 1, burst: 5, ...members } })
}

function problemsOf(data: unknown): string[] {
  const parsed = parseBundle(JSON.stringify(data))
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}
