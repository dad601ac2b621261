import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

const SECRET = 'a secret for tests'
const MISSING = 'edge_descriptor_missing_total{key="ip:address"}'

const READ: readonly (readonly [forwardedFor: string, address: string])[] = [
  ['203.0.113.7', '203.0.113.7'],
  ['  203.0.113.7\t', '203.0.113.7'],
  ['203.0.113.7:51234', '203.0.113.7'],
  ['198.51.100.1, 203.0.113.7', '203.0.113.7'],
  ['garbage, 203.0.113.7', '203.0.113.7'],
  ['203.0.113.7, 10.0.0.1, 192.168.3.4, 127.0.0.1', '203.0.113.7'],
  ['203.0.113.7,,, ,10.0.0.1,', '203.0.113.7'],
  ['10.0.0.3, 10.0.0.2, 10.0.0.1', '10.0.0.3'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
  ['[2001:db8:1:2::9]', '2001:db8:1:2::/64'],
  ['[2001:db8:1:2::9]:443', '2001:db8:1:2::/64'],
  ['2001:db8::1%eth0', '2001:db8:0:0::/64'],
  ['[2001:db8::1%eth0]:80', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['203.0.113.7, fe80::1%2, ::1, fc00::1', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::ffff:cb00:7107', '203.0.113.7'],
  ['[::ffff:203.0.113.7]:8080', '203.0.113.7'],
  [[...Array(199).fill('198.51.100.9'), '203.0.113.7'].join(', '), '203.0.113.7'],
  [['203.0.113.7', ...Array(199).fill('10.1.2.3')].join(','), '203.0.113.7'],
]

const UNREADABLE = [
  '',
  ',',
  ' , ,',
  'unknown',
  '_hidden',
  'localhost',
  '203.0.113',
  '203.0.113.7.9',
  '203.0.113.256',
  '203.0.113.07',
  '0x7f.0.0.1',
  '3405803783',
  '-1.2.3.4',
  '203.0.113.7/24',
  '203.0.113.7:',
  '203.0.113.7:port',
  '203.0.113.7:80:90',
  '[203.0.113.7',
  '[2001:db8::1',
  '2001:db8::1]',
  '[2001:db8::1]x',
  '2001:db8:::1',
  '2001:db8::1::2',
  '2001:db8:1:2:3:4:5:6:7',
  '2001:db8:12345::',
  ':',
  '::ffff:203.0.113.999',
  '203.0.113.7 198.51.100.1',
  'for=203.0.113.7',
  '\xff\xfe',
  '203.0.113.7, garbage, 10.0.0.1',
  '<script>',
  'x'.repeat(20_000),
  '1.'.repeat(10_000),
  ':'.repeat(20_000),
]

describe('X-Forwarded-For', () => {
  let edge: Edge
  let cookie: string
  beforeAll(async () => {
    edge = await Edge.start({
      bundle: bundle(1, policy('p', { rules: [bucketRule('per-address', ['ip:address'], 1000)] })),
      clock: new ManualClock(),
      env: { EDGE_DEBUG_SESSION_SECRET: SECRET },
    })
    const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    cookie = login.headers['set-cookie']!.split(';')[0]!
  })
  afterAll(() => edge.stop())

  test.each(READ.map(([header, address]) => [shown(header), address, header] as const))('%s is %s', async (_shown, address, header) => {
    expect(await addressOf([['X-Forwarded-For', header]])).toBe(address)
  })

  test.each(UNREADABLE.map((header) => [shown(header), header] as const))(
    '%s is nobody: the rule is skipped and counted',
    async (_shown, header) => {
      const missing = await edge.metric(MISSING)
      expect(await addressOf([['X-Forwarded-For', header]])).toBeUndefined()
      expect(await edge.metric(MISSING)).toBe(missing + 1)
    },
  )

  test('absent is nobody: the caller is a gateway, not the client', async () => {
    expect(await addressOf([])).toBeUndefined()
  })

  test('in two fields is one list', async () => {
    const fields: Fields = [
      ['X-Forwarded-For', '198.51.100.1, 203.0.113.7'],
      ['x-forwarded-for', '10.0.0.1'],
    ]
    expect(await addressOf(fields)).toBe('203.0.113.7')
  })

  async function addressOf(fields: Fields): Promise<string | undefined> {
    const bytes = decisionBytes(original('/', ...fields, ['Cookie', cookie]), { isLast: true })
    const [answer] = readAnswers(await exchange(edge.port, bytes))
    expect(answer!.status).toBe(200)
    expect('ratelimit' in answer!.headers).toBe('x-edge-debug-descriptor-1-value' in answer!.headers)
    return answer!.headers['x-edge-debug-descriptor-1-value']
  }
})

test('addresses written in two ways share a bucket, addresses of two networks do not', async () => {
  const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['ip:address'], 1)] })), clock: new ManualClock() })
  const status = async (address: string): Promise<number> => (await edge.decide({ fields: [['X-Forwarded-For', address]] })).status
  expect(await status('203.0.113.7')).toBe(200)
  expect(await status('[::ffff:203.0.113.7]:99')).toBe(429)
  expect(await status('2001:db8::1')).toBe(200)
  expect(await status('[2001:db8::ffff:1%x]:1')).toBe(429)
  expect(await status('2001:db8:0:1::1')).toBe(200)
})

function shown(header: string): string {
  return header.length > 60 ? `${JSON.stringify(header.slice(0, 30))} … (${header.length} bytes)` : JSON.stringify(header)
}
