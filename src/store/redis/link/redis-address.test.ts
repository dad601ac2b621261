import { describe, expect, test } from 'vitest'
import { describeRedisAddress, parseRedisAddress, type RedisAddress } from './redis-address.ts'

const NOBODY = { username: undefined, password: undefined }
const OPEN = { isTls: false, ...NOBODY }
const NO_SENTINEL_USER = { sentinelUsername: undefined, sentinelPassword: undefined }

const GOOD: Readonly<Record<string, RedisAddress>> = {
  'redis://localhost': { kind: 'single', ...OPEN, node: { host: 'localhost', port: 6379 }, db: 0 },
  'REDIS://localhost': { kind: 'single', ...OPEN, node: { host: 'localhost', port: 6379 }, db: 0 },
  'redis://localhost/': { kind: 'single', ...OPEN, node: { host: 'localhost', port: 6379 }, db: 0 },
  'redis://10.0.0.1:7000/3': { kind: 'single', ...OPEN, node: { host: '10.0.0.1', port: 7000 }, db: 3 },
  'redis://[::1]': { kind: 'single', ...OPEN, node: { host: '::1', port: 6379 }, db: 0 },
  'rediss://[2001:db8::1]:7000': { kind: 'single', isTls: true, ...NOBODY, node: { host: '2001:db8::1', port: 7000 }, db: 0 },
  'redis://:secret@h': { kind: 'single', isTls: false, username: undefined, password: 'secret', node: { host: 'h', port: 6379 }, db: 0 },
  'redis://user:secret@h': { kind: 'single', isTls: false, username: 'user', password: 'secret', node: { host: 'h', port: 6379 }, db: 0 },
  'rediss://u%40x:%40%2C%2F%3A%25%3F%23%20+%C3%BC@h:1/2': {
    kind: 'single',
    isTls: true,
    username: 'u@x',
    password: '@,/:%?# +ü',
    node: { host: 'h', port: 1 },
    db: 2,
  },
  'redis://h1:7000,h2:7001': {
    kind: 'cluster',
    ...OPEN,
    nodes: [
      { host: 'h1', port: 7000 },
      { host: 'h2', port: 7001 },
    ],
  },
  'redis://:p@h1:7000,redis://:p@h2,redis://[::1]:7002/0': {
    kind: 'cluster',
    isTls: false,
    username: undefined,
    password: 'p',
    nodes: [
      { host: 'h1', port: 7000 },
      { host: 'h2', port: 6379 },
      { host: '::1', port: 7002 },
    ],
  },
  'rediss+cluster://u:p@h': { kind: 'cluster', isTls: true, username: 'u', password: 'p', nodes: [{ host: 'h', port: 6379 }] },
  'redis+cluster://a_b.c-d:1,redis+cluster://h2': {
    kind: 'cluster',
    ...OPEN,
    nodes: [
      { host: 'a_b.c-d', port: 1 },
      { host: 'h2', port: 6379 },
    ],
  },
  'redis+sentinel://s1,s2:5000,[::1]/mymaster': {
    kind: 'sentinel',
    ...OPEN,
    sentinels: [
      { host: 's1', port: 26379 },
      { host: 's2', port: 5000 },
      { host: '::1', port: 26379 },
    ],
    name: 'mymaster',
    db: 0,
    ...NO_SENTINEL_USER,
  },
  'rediss+sentinel://u:p@s1/my%20master/4?sentinel_username=a%26b&sentinel_password=x+%3D': {
    kind: 'sentinel',
    isTls: true,
    username: 'u',
    password: 'p',
    sentinels: [{ host: 's1', port: 26379 }],
    name: 'my master',
    db: 4,
    sentinelUsername: 'a&b',
    sentinelPassword: 'x+=',
  },
  'redis+sentinel://s1/m/?sentinel_password=p': {
    kind: 'sentinel',
    ...OPEN,
    sentinels: [{ host: 's1', port: 26379 }],
    name: 'm',
    db: 0,
    sentinelUsername: undefined,
    sentinelPassword: 'p',
  },
}

/** Each with a word of the complaint. No complaint may repeat what looks like a secret. */
const BAD: Readonly<Record<string, RegExp>> = {
  SECRET: /starts with redis:\/\//,
  'SECRET:6379': /starts with/,
  'http://SECRET': /starts with/,
  'redis+tls://SECRET': /starts with/,
  'redis:SECRET': /starts with/,
  'redis://': /a host/,
  'redis://:SECRET@': /a host/,
  'redis://:6379': /a host/,
  'redis://h1,': /a host/,
  'redis://h1,,h2': /a host/,
  'redis://h:0': /ports/,
  'redis://h:65536': /ports/,
  'redis://h:port': /hosts as name/,
  'redis://h:1:2': /hosts as name/,
  'redis://::1': /a host/,
  'redis://2001:db8::1': /hosts as name/,
  'redis://[h]:1': /hosts as name/,
  'redis://[::1': /hosts as name/,
  'redis://[::g]': /hosts as name/,
  'redis://h h': /white space/,
  'redis://h\n': /white space/,
  'redis://h#x': /#/,
  'redis://user@h': /user:password@/,
  'redis://SECRET:@h': /user:password@/,
  'redis://u:SEC:RET@h': /%3A/,
  'redis://u:SEC@RET@h': /%40/,
  'redis://u:SEC,RET@h': /%2C/,
  'redis://u:SEC/RET@h': /%2F/,
  'redis://u:SEC?RET@h': /%3F/,
  'redis://u:SEC?R?ET@h': /%3F/,
  'redis://u:SECRET%@h': /%25/,
  'redis://u:SECRET%C3@h': /%25/,
  'redis://h/x': /database number/,
  'redis://h/-1': /database number/,
  'redis://h/1/2': /database number/,
  'redis://h/123456': /database number/,
  'redis://h?db=1': /query/,
  'redis://h?': /query/,
  'redis://h1,h2/1': /cluster/,
  'redis+cluster://h/1': /cluster/,
  'redis://h1,rediss://h2': /same scheme/,
  'redis+cluster://h1,redis://h2': /same scheme/,
  'redis://u:SECRET@h1,redis://u:SECRET2@h2': /same user and password/,
  'redis://h1/0,h2/1': /one path/,
  'redis+sentinel://h': /NAME/,
  'redis+sentinel://h/': /NAME/,
  'redis+sentinel://h/m/0/1': /NAME/,
  'redis+sentinel://h/m/x': /database number/,
  'redis+sentinel://h/m?password=SECRET': /query parameters/,
  'redis+sentinel://h/m?sentinel_password=SECRET&sentinel_password=SECRET': /each once/,
  'redis+sentinel://h/m?sentinel_password=': /query parameters/,
  'redis+sentinel://h/m?sentinel_username=u': /sentinel_password/,
}

test.for(Object.entries(GOOD))('%s', ([text, address]) => {
  expect(parseRedisAddress(text)).toEqual(address)
})

test.for(Object.entries(BAD))('%j is refused, without repeating it', ([text, complaint]) => {
  expect(() => parseRedisAddress(text)).toThrow(complaint)
  expect(() => parseRedisAddress(text)).not.toThrow(/SEC|RET/)
})

describe('an address in a log', () => {
  test.for([
    ['redis://user:secret@h/1', 'h:6379'],
    ['redis://[::1]:7000', '[::1]:7000'],
    ['redis://:secret@h1:1,h2:2', 'cluster at h1:1, h2:2'],
    ['redis+sentinel://:secret@s1,s2/mymaster?sentinel_password=secret', 'mymaster at sentinels s1:26379, s2:26379'],
  ] as const)('%s: %s', ([text, described]) => {
    expect(describeRedisAddress(parseRedisAddress(text))).toBe(described)
  })
})
