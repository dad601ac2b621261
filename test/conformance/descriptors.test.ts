import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import type { Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { debugFacts, logIn, SECRET_ENV } from './debug-login.ts'

/** Specification: Resources and their fields; descriptor keys. */

const KEYS = ['jwt:sub', 'header:x-tenant', 'ip:address', 'ip:country', 'ip:type', 'ip:tor']
const TENANT_AND_USER = ['header:x-tenant', 'jwt:sub']

let directory: string
let edge: Edge
let cookie: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'edge-lists-'))
  const [types, exits] = [join(directory, 'types.csv'), join(directory, 'exits.txt')]
  await writeFile(types, '198.51.100.0/24,hosting\n')
  await writeFile(exits, '192.0.2.66\n')
  const policies = KEYS.map((key) => policy(key, { selector: { pathPrefix: pathOf(key) }, rules: [bucketRule(key, [key], 2)] }))
  edge = await Edge.start({
    clock: new ManualClock(),
    env: { ...SECRET_ENV, EDGE_IP_TYPE_FILE: types, EDGE_TOR_EXITS_FILE: exits },
    bundle: bundle(1, ...policies, policy('pair', { selector: { pathPrefix: '/pair' }, rules: [bucketRule('pair', TENANT_AND_USER, 1)] })),
  })
  cookie = (await logIn(edge)).pair
})

afterAll(async () => {
  await edge.stop()
  await rm(directory, { recursive: true })
})

function pathOf(key: string): string {
  return `/${key.replace(':', '-')}`
}

/** The value that a key has in a request, as the debug headers tell it; undefined when the descriptor is absent. */
async function descriptorValue(key: string, fields: Fields): Promise<string | undefined> {
  const facts = debugFacts(await edge.decide({ uri: pathOf(key), fields: [['Cookie', cookie], ...fields] }))
  expect(facts['descriptor-1-key']).toBe(facts['descriptor-1-value'] === undefined ? undefined : key)
  return facts['descriptor-1-value']
}

function statuses(key: string, ...requests: Fields[]): Promise<number[]> {
  return requests.reduce(
    async (before, fields) => [...(await before), (await edge.decide({ uri: pathOf(key), fields })).status],
    Promise.resolve<number[]>([]),
  )
}

const bearer = (payload: unknown): Fields => [['Authorization', `Bearer ${jwt(payload)}`]]
const from = (chain: string): Fields => [['X-Forwarded-For', chain]]

describe('jwt', () => {
  test('[descriptor-1] jwt:<claim> is that claim of the bearer JWT in Authorization', async () => {
    expect(await descriptorValue('jwt:sub', bearer({ sub: 'user-1', tenant: 'acme' }))).toBe('user-1')
    expect(await descriptorValue('jwt:sub', bearer({ tenant: 'acme' }))).toBeUndefined()
    const [ann, ben] = [bearer({ sub: 'ann' }), bearer({ sub: 'ben' })]
    expect(await statuses('jwt:sub', ann, bearer({ sub: 'ann', jti: 'another token' }), ann, ben)).toEqual([200, 200, 429, 200])
  })
})

describe('header', () => {
  test('[descriptor-2] header:<name> is the value of that header, in whatever case the request writes its name', async () => {
    expect(await descriptorValue('header:x-tenant', [['X-TENANT', 'acme']])).toBe('acme')
    const [red, blue]: Fields[] = [[['X-Tenant', 'red']], [['X-Tenant', 'blue']]]
    expect(await statuses('header:x-tenant', red!, red!, red!, blue!)).toEqual([200, 200, 429, 200])
  })
})

describe('ip', () => {
  test('[descriptor-3] ip:address is the client address of X-Forwarded-For', async () => {
    expect(await descriptorValue('ip:address', from('203.0.113.7'))).toBe('203.0.113.7')
    expect(await descriptorValue('ip:address', from('203.0.113.8, 10.0.0.1'))).toBe('203.0.113.8')
    // what a client writes in front of its own address is not believed
    expect(await descriptorValue('ip:address', from('198.51.100.1, 203.0.113.9, 10.0.0.1'))).toBe('203.0.113.9')
    expect(await descriptorValue('ip:address', [])).toBeUndefined()
    const [near, far] = [from('203.0.113.20'), from('203.0.113.21')]
    expect(await statuses('ip:address', near, near, near, far)).toEqual([200, 200, 429, 200])
  })

  test('[descriptor-4] ip:country is derived from X-Forwarded-For', async () => {
    expect(await descriptorValue('ip:country', from('8.8.8.8'))).toBe('US')
    expect(await descriptorValue('ip:country', from('5.9.0.1'))).toBe('DE')
    expect(await descriptorValue('ip:country', [])).toBeUndefined()
    const [oneInFrance, anotherInFrance, oneInJapan] = [from('80.10.0.1'), from('90.0.0.1'), from('133.11.0.1')]
    expect(await statuses('ip:country', oneInFrance, anotherInFrance, oneInFrance, oneInJapan)).toEqual([200, 200, 429, 200])
  })

  test('[descriptor-5] ip:type is derived from the client address', async () => {
    expect(await descriptorValue('ip:type', [...from('198.51.100.9'), ['X-ASN-Type', 'residential']])).toBe('hosting')
  })

  test('[descriptor-6] ip:type falls back to X-ASN-Type', async () => {
    expect(await descriptorValue('ip:type', [...from('203.0.113.9'), ['X-ASN-Type', 'business']])).toBe('business')
    expect(await descriptorValue('ip:type', [['X-ASN-Type', 'isp']])).toBe('isp')
    expect(await descriptorValue('ip:type', from('203.0.113.9'))).toBeUndefined()
  })

  test('[descriptor-7] ip:tor is derived from the client address', async () => {
    expect(await descriptorValue('ip:tor', from('192.0.2.66'))).toBe('true')
    expect(await descriptorValue('ip:tor', from('192.0.2.67'))).toBe('false')
    expect(await descriptorValue('ip:tor', [])).toBeUndefined()
  })

  test.each([
    ['1', 'true'],
    ['true', 'true'],
    ['yes', 'true'],
    ['0', 'false'],
    ['false', 'false'],
    ['no', 'false'],
  ])('[descriptor-8] X-Tor-Exit overrides ip:tor: %s makes it %s', async (text, value) => {
    // the list says the opposite
    const address = value === 'true' ? '192.0.2.67' : '192.0.2.66'
    expect(await descriptorValue('ip:tor', [...from(address), ['X-Tor-Exit', text]])).toBe(value)
  })

  test('[descriptor-9] any other X-Tor-Exit overrides nothing', async () => {
    expect(await descriptorValue('ip:tor', [...from('192.0.2.66'), ['X-Tor-Exit', 'maybe']])).toBe('true')
    expect(await descriptorValue('ip:tor', [...from('192.0.2.67'), ['X-Tor-Exit', 'maybe']])).toBe('false')
    expect(await descriptorValue('ip:tor', [['X-Tor-Exit', '2']])).toBeUndefined()
  })
})

describe('an absent descriptor', () => {
  test.each(KEYS)('[descriptor-10] edge_descriptor_missing_total counts each request without %s that a rule needs', async (key) => {
    const series = `edge_descriptor_missing_total{key="${key}"}`
    const before = await edge.metric(series)
    expect((await edge.decide({ uri: pathOf(key) })).status).toBe(200)
    expect((await edge.metric(series)) - before).toBe(1)
  })

  test('[descriptor-11] what is there, or what no rule needs, is not counted as missing', async () => {
    const series = ['header:x-tenant', 'jwt:sub'].map((key) => `edge_descriptor_missing_total{key="${key}"}`)
    const counts = () => Promise.all(series.map((name) => edge.metric(name)))
    const before = await counts()
    await edge.decide({ uri: '/nothing-is-limited-here' })
    await edge.decide({ uri: pathOf('header:x-tenant'), fields: [['X-Tenant', 'present']] })
    expect(await counts()).toEqual(before)
    await edge.decide({ uri: '/pair', fields: [['X-Tenant', 'present']] })
    expect(await counts()).toEqual([before[0], before[1]! + 1])
  })
})
