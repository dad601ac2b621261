import { KEY_FORMS } from '../../../src/policy/descriptor-key.ts'
import { bucketRule, bundle, llmRule, policy, rateRule, windowRule } from './bundles.ts'

/** A bundle that must be refused, and the start of every line that must say why. */
export interface BadBundle {
  readonly what: string
  readonly content: string | Buffer
  readonly problems: readonly string[]
}

const VERSION = 1000
const RULES = [bucketRule('r', [], 10)]
const HOSTS = Array.from({ length: 100 }, (_, i) => `h${i}`)
const METHODS = Array.from({ length: 100 }, (_, i) => `M${i}`)
const CONFIG = 'policies[0].spec.rules[0].algorithm_config'
export const PRINTABLE = 'expected a string of 1 to 256 printable ASCII characters, got'

export const BAD_JSON: readonly BadBundle[] = [
  bad('prose', 'may this request go on?', 'not JSON'),
  bad('an empty file', '', 'it is empty'),
  bad(
    'a selector that comes twice',
    '{"bundle_version":1000,"policies":[{"id":"p","spec":{"selector":{"pathPrefix":"/a"},\n"selector":{},"rules":[]}}]}',
    '"selector" occurs twice in one object, the second time at line 2, column 1',
  ),
  bad('white space', ' \n\t\n', 'it is empty'),
  bad('half-written JSON', halfOf(JSON.stringify(bundle(VERSION, policy('p', { rules: RULES })))), 'not JSON'),
  bad('JSON with a second half', `${JSON.stringify(bundle(VERSION))}}`, 'not JSON'),
  bad('null', 'null', 'expected an object with bundle_version and policies, got null'),
  bad('a list', '[]', 'expected an object with bundle_version and policies, got an empty list'),
  bad('a text', '"bundle"', 'expected an object with bundle_version and policies, got "bundle"'),
  bad(
    'an object with nothing in it',
    '{}',
    'bundle_version: expected a whole number, or a string of up to 30 digits, but it is missing',
    'policies: expected a list of policies, but it is missing',
  ),
  bad(
    'bytes that are no UTF-8',
    Buffer.concat([Buffer.from('{"bundle_version":1000,"policies":[],"x":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
    'it is not valid UTF-8',
  ),
  bad('UTF-16', Buffer.from(`\ufeff${JSON.stringify(bundle(VERSION))}`, 'utf16le'), 'it is not valid UTF-8'),

  ...[-1, 1.5, '1.5', 'seven', '', null, true].map((version) =>
    bad(`version ${JSON.stringify(version)}`, { bundle_version: version, policies: [] }, 'bundle_version: expected a whole number'),
  ),
  bad('an infinite version', '{"bundle_version":1e999,"policies":[]}', 'bundle_version: expected a whole number'),

  bad(
    'a policy id that comes three times',
    bundle(VERSION, ...['a', 'b', 'a', 'a'].map((id) => policy(id, { rules: RULES }))),
    'policies[2].id: "a" is already used by policies[0].id',
    'policies[3].id: "a" is already used by policies[0].id',
  ),
  bad(
    'a rule name that comes twice',
    inPolicy({ rules: [bucketRule('r', [], 1), bucketRule('s', [], 1), bucketRule('r', ['ip:address'], 1)] }),
    'policies[0].spec.rules[2].name: "r" is already used by policies[0].spec.rules[0].name',
  ),

  ...['-1', '0', '1e999', '-1e999', 'null', '"10"', '[]', 'true'].flatMap((number) => [
    bad(`tokens_per_second ${number}`, bucketText(number, '10'), `${CONFIG}.tokens_per_second: expected a number above 0`),
    bad(`burst ${number}`, bucketText('1', number), `${CONFIG}.burst: expected a number of at least 1`),
  ]),
  bad(
    'a burst below 1',
    bucketText('1', '0.5'),
    `${CONFIG}.burst: expected a number of at least 1, because below 1 no request would ever pass, got 0.5`,
  ),
  ...['tokens_per_minute', 'tokens_per_day', 'burst_tokens', 'max_completion_tokens'].flatMap((field) =>
    ['-1', '0', '1.5', '1e999', 'null'].map((number) =>
      bad(`${field} ${number}`, llmText(field, number), `${CONFIG}.${field}: expected a whole number of tokens, from 1`),
    ),
  ),
  bad(
    'a rate beside tokens_per_second',
    inPolicy({ rules: [rateRule('r', [], { rate: '100/minute', tokens_per_second: 1 })] }),
    `${CONFIG}.rate: expected either rate or tokens_per_second, not both, got "100/minute"`,
  ),
  bad(
    'neither',
    inPolicy({ rules: [rateRule('r', [], { burst: 5 })] }),
    `${CONFIG}.tokens_per_second: expected a number of tokens per second, or rate (for 100 requests a minute write rate: 100/minute), but it is missing`,
  ),
  bad(
    'a rate in another spelling',
    inPolicy({ rules: [rateRule('r', [], { rate: '100r/m' })] }),
    `${CONFIG}.rate: expected a rate per second, minute, hour or day, such as 100/minute, got "100r/m"`,
  ),
  bad(
    'a window of no calendar',
    inPolicy({ rules: [windowRule('r', [], { limit: 1.5, period: 'monthly', timezone: 'Europe/Berln' })] }),
    `${CONFIG}.limit: expected a whole number of requests, from 1 to 999999999999999, got 1.5`,
    `${CONFIG}.period: expected a period such as 1mo, one of 1m, `,
    `${CONFIG}.timezone: expected an IANA time zone as Area/City, such as Europe/Berlin, got "Europe/Berln"`,
  ),
  ...[
    ['1d', 'sunday', 'no anchor with 1d: only windows of 1w and 1mo can begin on another day, got "sunday"'],
    ['3mo', 2, 'no anchor with 3mo: only windows of 1w and 1mo can begin on another day, got 2'],
    ['1w', 2, 'a weekday with 1w, one of monday, tuesday, wednesday, thursday, friday, saturday, sunday, got 2'],
    ['1mo', 'sunday', 'a day of the month from 1 to 28 with 1mo, got "sunday"'],
    ['1mo', 29, 'a weekday such as sunday (with period 1w), or a day of the month from 1 to 28 (with 1mo), got 29'],
    ['1w', 'Sun', 'a weekday such as sunday (with period 1w), or a day of the month from 1 to 28 (with 1mo), got "Sun"'],
  ].flatMap(([period, anchor, expected]) => [
    bad(
      `windows of ${period} that begin on ${anchor}`,
      inPolicy({ rules: [windowRule('r', [], { limit: 1, period, anchor })] }),
      `${CONFIG}.anchor: expected ${expected}`,
    ),
  ]),
  bad(
    'a cost of nothing, from no header',
    inPolicy({ rules: [windowRule('r', [], { limit: 5, period: '1d', cost: { header: '', default: 0, max: 1e300 } })] }),
    `${CONFIG}.cost.header: expected the name of a header field, got ""`,
    `${CONFIG}.cost.default: expected a number above 0`,
    `${CONFIG}.cost.max: expected a number above 0 (at least 1e-9) and up to 999999999999999, got 1e+300`,
  ),
  bad(
    'an LLM rule without a budget',
    inPolicy({ rules: [llmRule('r', [], { burst_tokens: 5 })] }),
    `${CONFIG}: expected at least one of tokens_per_minute and tokens_per_day`,
  ),

  bad(
    'selectors that stand for more than a million pairs of a host and a method',
    bundle(VERSION, ...Array.from({ length: 101 }, (_, i) => policy(`p${i}`, { selector: { hosts: HOSTS, methods: METHODS }, rules: [] }))),
    'policies: expected at most 1000000 pairs of a host and a method in all selectors, got 1010000',
  ),
  bad(
    'a path longer than any request has',
    inPolicy({ selector: { pathPrefix: '/a'.repeat(5000) }, rules: RULES }),
    'policies[0].spec.selector.pathPrefix: expected at most 8192 characters, got "/a/a',
  ),
  bad(
    'paths of more than a million segments',
    bundle(VERSION, ...Array.from({ length: 250 }, (_, i) => policy(`p${i}`, { selector: { pathExact: '/a'.repeat(4001) }, rules: [] }))),
    'policies: expected at most 1000000 segments in the paths of all selectors, got 1000250',
  ),
  bad('an unknown algorithm', ruleWith({ algorithm: 'leaky_cauldron' }), 'policies[0].spec.rules[0].algorithm: expected "token_bucket", '),
  bad('no algorithm', ruleWith({ algorithm: undefined }), 'policies[0].spec.rules[0].algorithm: expected "token_bucket", '),
  ...[
    'cookie:',
    'cookie:a b',
    'query:',
    'path:0',
    'path:33',
    'llm:prompt',
    'x-api-key',
    'jwt:',
    'header:',
    'header:a b',
    'header:ä',
    'ip:asn',
    'ip:',
    'IP:address',
    ':',
    '',
    'jwt:a\u0000',
  ].map((key) =>
    bad(
      `descriptor key ${JSON.stringify(key)}`,
      ruleWith({ limit_keys: ['ip:address', key] }),
      `policies[0].spec.rules[0].limit_keys[1]: expected ${KEY_FORMS}, got`,
    ),
  ),

  ...[
    ['mod', 'mode'],
    ['Mode', 'mode'],
    ['moed', 'mode'],
    ['selctor', 'selector'],
    ['Selector', 'selector'],
    ['rule', 'rules'],
  ].map(([typo, meant]) =>
    bad(
      `${typo} for ${meant}`,
      inPolicy({ [typo!]: 'x', rules: RULES }),
      `policies[0].spec: unknown field "${typo}": did you mean "${meant}"?`,
    ),
  ),
  ...[
    ['pathprefix', 'pathPrefix'],
    ['path_prefix', 'pathPrefix'],
    ['PathPrefix', 'pathPrefix'],
    ['pathPrefx', 'pathPrefix'],
    ['path-exact', 'pathExact'],
    ['method', 'methods'],
    ['host', 'hosts'],
  ].map(([typo, meant]) =>
    bad(
      `${typo} for ${meant}`,
      inPolicy({ selector: { [typo!]: '/api' }, rules: RULES }),
      `policies[0].spec.selector: unknown field "${typo}": did you mean "${meant}"?`,
    ),
  ),
  ...badMatches(),
  ...badBlocks(),
  bad(
    'no path that is excepted',
    inPolicy({ selector: { exceptPaths: [] }, rules: RULES }),
    'policies[0].spec.selector.exceptPaths: expected at least one path (leave `exceptPaths` out to except none), got an empty list',
  ),
  bad(
    'excepted paths that are none',
    inPolicy({ selector: { exceptPaths: ['health', '/a?b', 7] }, rules: RULES }),
    'policies[0].spec.selector.exceptPaths[0]: expected a path that starts with /, without ? or #, got "health"',
    'policies[0].spec.selector.exceptPaths[1]: expected a path that starts with /, without ? or #, got "/a?b"',
    'policies[0].spec.selector.exceptPaths[2]: expected a path that starts with /, without ? or #, got 7',
  ),
  bad('kill switches', { ...bundle(VERSION), kill_switches: [] }, 'unknown field "kill_switches"'),
  bad('loop detection', inPolicy({ rules: RULES, loop_detection: {} }), 'policies[0].spec: unknown field "loop_detection"'),
  bad(
    'a selector that means the opposite',
    inPolicy({ selector: { notPathPrefix: '/api', 'x-tenant': 'a' }, rules: RULES }),
    'policies[0].spec.selector: unknown field "notPathPrefix"',
    'policies[0].spec.selector: unknown field "x-tenant"',
  ),
  bad('metadata that is no object', { ...bundle(VERSION), metadata: 'x' }, 'metadata: expected an object, got "x"'),
  bad(
    'a mode that does not exist',
    inPolicy({ mode: 'shadwo', rules: RULES }),
    'policies[0].spec.mode: expected "enforce" or "shadow", got "shadwo" — did you mean "shadow"?',
  ),

  ...['', 'tab\there', 'line\nbreak', 'bell\u0007', 'del\u007f', 'nul\u0000', 'café', 'x'.repeat(257)].flatMap((name) => [
    bad(`policy id ${JSON.stringify(name.slice(0, 12))}`, bundle(VERSION, policy(name, { rules: RULES })), `policies[0].id: ${PRINTABLE}`),
    bad(
      `rule name ${JSON.stringify(name.slice(0, 12))}`,
      inPolicy({ rules: [bucketRule(name, [], 10)] }),
      `policies[0].spec.rules[0].name: ${PRINTABLE}`,
    ),
  ]),

  bad(
    'a path without its slash',
    inPolicy({ selector: { pathPrefix: 'api' }, rules: RULES }),
    'policies[0].spec.selector.pathPrefix: expected a path that starts with /',
  ),
  bad(
    'no method at all',
    inPolicy({ selector: { methods: [] }, rules: RULES }),
    'policies[0].spec.selector.methods: expected at least one method',
  ),
  bad('no host at all', inPolicy({ selector: { hosts: [] }, rules: RULES }), 'policies[0].spec.selector.hosts: expected at least one host'),
  bad(
    'a URL for a host',
    inPolicy({ selector: { hosts: ['https://a/b'] }, rules: RULES }),
    'policies[0].spec.selector.hosts[0]: expected a host name',
  ),

  bad(
    'faults of several kinds',
    bundle(VERSION, ...['a', 'a'].map((id) => policy(id, { rules: [bucketRule('r', [], -1)], ['mod' as 'mode']: 'x' }))),
    'policies[0].spec.rules[0].algorithm_config.burst: ',
    'policies[0].spec: unknown field "mod"',
    'policies[1].spec.rules[0].algorithm_config.burst: ',
    'policies[1].spec: unknown field "mod"',
    'policies[1].id: "a" is already used by policies[0].id',
  ),
  bad(
    'faults beside an unknown algorithm',
    inPolicy({ rules: [{ name: '', limit_keys: ['body:x'], algorithm: 'x', algorithm_config: {} }] }),
    'policies[0].spec.rules[0].name: ',
    'policies[0].spec.rules[0].limit_keys[0]: ',
    'policies[0].spec.rules[0].algorithm: ',
  ),
  bad(
    'faults in several places',
    {
      bundle_version: -1,
      policies: [
        policy('a', { rules: [bucketRule('r', ['body:x'], -1)] }),
        policy('b\u0001', { mode: 'maybe', rules: [llmRule('r', [], { tokens_per_day: 0.5 })] }),
      ],
    },
    'bundle_version: ',
    'policies[0].spec.rules[0].limit_keys[0]: ',
    'policies[0].spec.rules[0].algorithm_config.burst: ',
    'policies[1].id: ',
    'policies[1].spec.mode: ',
    'policies[1].spec.rules[0].algorithm_config.tokens_per_day: ',
  ),
]

function badMatches(): BadBundle[] {
  const match = 'policies[0].spec.rules[0].match'
  const [text, list] = [
    'a text: the whole value, or a prefix that ends in *',
    'at least one pattern (leave the key out to match every value)',
  ]
  const forms = '"else", or an object of descriptor keys and patterns'
  const cases: [what: string, match: unknown, ...problems: string[]][] = [
    ['a match on a key that is none', { plan: 'free' }, `${match}: expected each key to be ${KEY_FORMS}, got "plan"`],
    ['a match without keys', {}, `${match}: expected at least one key (leave \`match\` out to cover everybody), got an object`],
    [
      'a match on a key that is there already',
      { 'header:X-Plan': 'a', 'header:x-plan': ['b', 'c'] },
      `${match}["header:x-plan"]: expected one list of patterns for a key; header:X-Plan is the same one, got a list`,
    ],
    ['a match that is a word', 'otherwise', `${match}: expected ${forms}, got "otherwise" — did you mean "else"?`],
    ['a match that is null', null, `${match}: expected ${forms}, got null`],
    ['a match that is a list', ['jwt:plan'], `${match}: expected ${forms}, got a list`],
    [
      'a pattern that is a number',
      { 'jwt:plan': 5 },
      `${match}["jwt:plan"]: expected ${text}; or a list of them, got a number — put it in quotes?`,
    ],
    ['patterns that are none', { 'jwt:plan': ['a', true] }, `${match}["jwt:plan"][1]: expected ${text}, got a boolean — put it in quotes?`],
    ['no patterns', { 'jwt:plan': [] }, `${match}["jwt:plan"]: expected ${list}, got an empty list`],
    [
      'an empty pattern',
      { 'header:x': '' },
      `${match}["header:x"]: expected ${text}; an empty value counts as missing and never matches, got ""`,
    ],
    [
      'an endless pattern',
      { bearer: 'x'.repeat(8193) },
      `${match}.bearer: expected at most 8192 characters, got a text of 8193 characters`,
    ],
    [
      'too many prefixes',
      { bearer: Array.from({ length: 101 }, (_, i) => `${i}*`) },
      `${match}.bearer: expected at most 100 patterns that end in *, got a list`,
    ],
    [
      'values that an address, a country or tor can never have',
      { 'ip:address': ['10.0.0.0/33', 'nonsense', '10.0.0.1/64', '::1', '1.2.3.4/8/8'], 'ip:country': 'de', 'ip:tor': ['yes'] },
      ...['10.0.0.0/33', 'nonsense', '10.0.0.1/64', undefined, '1.2.3.4/8/8'].flatMap((bad, i) =>
        bad === undefined
          ? []
          : `${match}["ip:address"][${i}]: expected an IP address, a network such as 192.0.2.0/24, or a prefix such as 192.0.2.*, got "${bad}"`,
      ),
      `${match}["ip:country"]: expected two upper-case letters, such as DE, got "de"`,
      `${match}["ip:tor"][0]: expected "true" or "false", got "yes"`,
    ],
  ]
  cases.push([
    'networks that are longer than the value, or begin elsewhere',
    { 'ip:address': ['2001:db8::/65', '10.1.2.3/8', '2001:db8:1::/32', '10.0.0.0/8'] },
    `${match}["ip:address"][0]: expected an IPv6 network of at most /64, because ip:address has no more of an address, got "2001:db8::/65"`,
    `${match}["ip:address"][1]: expected the first address of a network, such as 10.0.0.0/8, got "10.1.2.3/8"`,
    `${match}["ip:address"][2]: expected the first address of a network, such as 2001:db8:0:0:0:0:0:0/32, got "2001:db8:1::/32"`,
  ])
  return [
    ...cases.map(([what, match, ...problems]) => bad(what, inPolicy({ rules: [{ ...bucketRule('r', [], 10), match }] }), ...problems)),
    bad(
      'two else in one policy',
      inPolicy({ rules: ['a', 'b'].map((name) => ({ ...bucketRule(name, [], 10), match: 'else' })) }),
      'policies[0].spec.rules[1].match: expected at most one "else" in a policy; policies[0].spec.rules[0].match is one already',
    ),
  ]
}

function badBlocks(): BadBundle[] {
  const time = 'a date and time with its offset from UTC, such as "2026-11-16T00:00:00Z"'
  const noKeys = 'an empty list: a request that lacks the key would escape the rule; name the key in `match`'
  const times = ['tomorrow', '2026-11-16', '2026-11-16T00:00:00', '2026-02-30T00:00:00Z', '2026-13-01T00:00:00Z', '2026-11-16T24:00:00Z']
  return [
    ...times.map((expires_at) =>
      bad(
        `a block until ${expires_at}`,
        inPolicy({ rules: [{ name: 'r', algorithm: 'block', algorithm_config: { expires_at } }] }),
        `${CONFIG}.expires_at: expected ${time}, got "${expires_at}"`,
      ),
    ),
    bad(
      'a block with wrong fields',
      inPolicy({ rules: [{ name: 'r', algorithm: 'block', algorithm_config: { expires_at: 5, message: '', cut_streams: 'yes' } }] }),
      `${CONFIG}.expires_at: expected ${time}, got 5`,
      `${CONFIG}.message: expected a text of at least one character, got ""`,
      `${CONFIG}.cut_streams: expected true or false, got "yes"`,
    ),
    bad(
      'a block whose end stands beside its configuration',
      inPolicy({ rules: [{ name: 'r', algorithm: 'block', expires_at: '2026-11-16T00:00:00Z' }] }),
      'policies[0].spec.rules[0].expires_at: expected nothing here: a block ends at algorithm_config.expires_at, got "2026-11-16T00:00:00Z"',
    ),
    ...['block', 'unlimited'].map((algorithm) =>
      bad(
        `a ${algorithm} with limit keys`,
        inPolicy({ rules: [{ name: 'r', limit_keys: ['bearer'], algorithm }] }),
        `policies[0].spec.rules[0].limit_keys: expected ${noKeys}, got a list`,
      ),
    ),
    bad(
      'unlimited with a limit',
      inPolicy({ rules: [{ name: 'r', algorithm: 'unlimited', algorithm_config: { burst: 5 } }] }),
      `${CONFIG}: unknown field "burst"`,
    ),
  ]
}

export function bad(what: string, content: string | Buffer | object, ...problems: string[]): BadBundle {
  return { what, content: typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content), problems }
}

function inPolicy(spec: object): object {
  return bundle(VERSION, { id: 'p', spec: spec as Record<string, unknown> })
}

function ruleWith(fields: object): object {
  return inPolicy({ rules: [{ ...bucketRule('r', [], 10), ...fields }] })
}

/** As text, because JSON.stringify writes no infinite numbers. */

function bucketText(perSecond: string, burst: string): string {
  const text = JSON.stringify(inPolicy({ rules: [bucketRule('r', [], 77, 66)] }))
  return text.replace(':66', `:${perSecond}`).replace(':77', `:${burst}`)
}

function llmText(field: string, number: string): string {
  return JSON.stringify(inPolicy({ rules: [llmRule('r', [], { tokens_per_minute: 5, tokens_per_day: 5, [field]: 77 })] })).replace(
    '77',
    number,
  )
}

function halfOf(text: string): string {
  return text.slice(0, text.length / 2)
}
