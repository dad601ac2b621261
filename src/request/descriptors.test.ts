import { describe, expect, test } from 'vitest'
import { jwt } from '../../test/support/bundles/bundles.ts'
import { parseDescriptorKey } from '../policy/descriptor-key.ts'
import { formatAddress } from '../text/address.ts'
import { TrustedProxies } from './client-address.ts'
import { Descriptors, type DescriptorValue, defaultIdentification, UNDECIDED } from './descriptors.ts'
import { type IpFacts, readTorExits, readTypeList } from './ip-facts.ts'
import { type PlainRequest, PlainRequestView, REPEATED } from './view.ts'

type Headers = NonNullable<PlainRequest['headers']>

const PARTS = { path: '/', model: undefined }

describe('a header key', () => {
  test('is the value of that header, in whatever case either is written', () => {
    expect(valueFor('header:X-Key', { 'x-KEY': 'a' })).toBe('a')
  })

  test('is not guessed where the header comes more than once, in whatever case', () => {
    expect(valueFor('header:x-key', { 'X-Key': ['a', 'b'] })).toBe(REPEATED)
    expect(valueFor('header:x-key', { 'X-Key': 'a', 'x-key': 'b' })).toBe(REPEATED)
    expect(valueFor('header:x-key', { 'X-Key': ['a', ''] })).toBe(REPEATED)
    expect(valueFor('header:x-key', { 'X-Key': ['', ''] })).toBe(REPEATED)
    expect(valueFor('header:x-key', { 'X-Key': ['a', 'a'], 'x-key': 'a' })).toBe(REPEATED)
  })

  test('is one line, commas and all', () => {
    expect(valueFor('header:x-key', { 'X-Key': 'a, b' })).toBe('a, b')
    expect(valueFor('header:x-key', { 'X-Key': ['a, b'], 'x-key': undefined })).toBe('a, b')
    expect(valueFor('header:x-key', { 'X-Key': 'a', 'x-key': [] })).toBe('a')
  })

  test('is all lines of X-Forwarded-For, and of Cookie', () => {
    expect(valueFor('header:x-forwarded-for', { 'X-Forwarded-For': ['a', 'b'] })).toBe('a, b')
    expect(valueFor('header:cookie', { Cookie: ['a=1', 'b=2'] })).toBe('a=1; b=2')
  })

  test.each(['constructor', '__proto__', 'toString', 'x-key'])('is missing where the request has no such header: %s', (name) => {
    expect(valueFor(`header:${name}`, { other: 'a' })).toBeUndefined()
  })

  test('is missing where the value is empty', () => {
    expect(valueFor('header:x-key', { 'x-key': '' })).toBeUndefined()
  })
})

describe('a jwt key', () => {
  test('is the claim as text', () => {
    expect(valueFor('jwt:sub', { authorization: `Bearer ${jwt({ sub: 42 })}` })).toBe('42')
    expect(valueFor('jwt:org.id', { authorization: `Bearer ${jwt({ org: { id: 'x' } })}` })).toBe('x')
  })

  test('is the same however the signature is spelled, even where the bearer is refused', () => {
    const odd = { authorization: `Bearer ${jwt({ sub: 'a' })}AAAAAAAAAAAAAAAAAAAAAA!AAAA` }
    expect(valueFor('jwt:sub', odd)).toBe('a')
    expect(valueFor('bearer', odd)).toBe(REPEATED)
  })

  test.each([
    ['token', {}],
    ['readable token', { authorization: 'Bearer garbage' }],
    ['such claim', { authorization: `Bearer ${jwt({ iss: 'x' })}` }],
    ['text in it', { authorization: `Bearer ${jwt({ sub: '' })}` }],
  ])('is missing where there is no %s', (_, headers) => {
    expect(valueFor('jwt:sub', headers)).toBeUndefined()
  })
})

describe('jwt and bearer keys', () => {
  test.each(['jwt:sub', 'bearer'])('are not guessed where Authorization comes more than once: %s', (key) => {
    const [a, b] = ['a', 'b'].map((sub) => `Bearer ${jwt({ sub })}`)
    expect(valueFor(key, { Authorization: [a!, b!] })).toBe(REPEATED)
    expect(valueFor(key, { Authorization: [a!, 'x.y'] })).toBe(REPEATED)
    expect(valueFor(key, { Authorization: ['Basic YTpi', a!] })).toBe(REPEATED)
    expect(valueFor(key, { Authorization: `${a}, ${b}` })).toBe(REPEATED)
  })
})

describe('query, cookie and path keys', () => {
  test('are read from the target, from all Cookie lines, and from the normalised path', () => {
    const keys = ['query:key', 'cookie:sid', 'path:2'].map((text) => parseDescriptorKey(text)!)
    const descriptors = new Descriptors(defaultIdentification(), { path: '/v1/tenant', model: undefined })
    const headers = { Cookie: ['a=1', 'sid=s'] }
    descriptors.begin(new PlainRequestView({ method: 'GET', uri: '/x/../v1/tenant?key=a', headers }), keys)
    expect(keys.map((_, i) => descriptors.get(i))).toEqual(['a', 's', 'tenant'])
  })

  test('are missing where the request has none, or an empty one', () => {
    for (const uri of ['/', '/?', '/?key', '/?key=']) {
      const keys = ['query:key', 'cookie:sid', 'path:1'].map((text) => parseDescriptorKey(text)!)
      const descriptors = new Descriptors(defaultIdentification(), PARTS)
      descriptors.begin(new PlainRequestView({ method: 'GET', uri, headers: { Cookie: 'sid=' } }), keys)
      expect(keys.map((_, i) => descriptors.get(i))).toEqual([undefined, undefined, undefined])
    }
  })
})

describe('llm:model', () => {
  test('is looked up again in each step, for the body may have been read in between', () => {
    const parts: { path: string; model: DescriptorValue } = { path: '/', model: UNDECIDED }
    const descriptors = new Descriptors(defaultIdentification(), parts)
    descriptors.begin(viewOf({ 'x-a': '1' }), [parseDescriptorKey('llm:model')!, parseDescriptorKey('header:x-a')!])
    for (const model of [UNDECIDED, 'gpt-5', REPEATED, undefined, 'other'] satisfies DescriptorValue[]) {
      parts.model = model
      descriptors.restart()
      expect([descriptors.get(0), descriptors.get(1), descriptors.get(0)]).toEqual([model, '1', model])
      if (model === undefined) expect([descriptors.isFirstMiss(0), descriptors.isFirstMiss(0)]).toEqual([true, false])
    }
    descriptors.end()
    descriptors.begin(viewOf({}), [parseDescriptorKey('header:x-a')!])
    expect(descriptors.get(0)).toBeUndefined()
  })
})

describe('ip:address', () => {
  test('is the client behind the trusted proxies, IPv6 grouped to /64', () => {
    expect(valueFor('ip:address', { 'x-forwarded-for': '203.0.113.7, 10.0.0.1' })).toBe('203.0.113.7')
    expect(valueFor('ip:address', { 'x-forwarded-for': '2001:db8:1:2:3::4' })).toBe('2001:db8:1:2::/64')
  })

  test('is found across repeated header lines', () => {
    expect(valueFor('ip:address', { 'x-forwarded-for': ['203.0.113.7', '10.0.0.2, 10.0.0.1'] })).toBe('203.0.113.7')
  })

  test('follows the proxies that are configured', () => {
    const descriptors = new Descriptors({ trustedProxies: new TrustedProxies('203.0.113.0/24'), ipFacts: {} }, PARTS)
    expect(read(descriptors, 'ip:address', { 'x-forwarded-for': '198.51.100.1, 203.0.113.7' })).toBe('198.51.100.1')
  })

  test('is missing without the header, and where it cannot be read', () => {
    expect(valueFor('ip:address', {})).toBeUndefined()
    expect(valueFor('ip:address', { 'x-forwarded-for': 'garbage' })).toBeUndefined()
  })
})

describe('ip:country', () => {
  const facts: IpFacts = { countryOf: (address) => (formatAddress(address) === '203.0.113.7' ? 'DE' : undefined) }

  test('is what the database says of the client', () => {
    expect(valueFor('ip:country', { 'x-forwarded-for': '203.0.113.7' }, facts)).toBe('DE')
  })

  test('is missing for an address that it does not know, without an address, and without a database', () => {
    expect(valueFor('ip:country', { 'x-forwarded-for': '203.0.113.8' }, facts)).toBeUndefined()
    expect(valueFor('ip:country', {}, facts)).toBeUndefined()
    expect(valueFor('ip:country', { 'x-forwarded-for': '203.0.113.7' })).toBeUndefined()
  })
})

describe('ip:type', () => {
  const facts: IpFacts = { types: readTypeList('203.0.113.0/24,hosting').map }

  test('comes from the list, whatever the header says', () => {
    expect(valueFor('ip:type', { 'x-forwarded-for': '203.0.113.7', 'x-asn-type': 'isp' }, facts)).toBe('hosting')
  })

  test('falls back to X-ASN-Type', () => {
    expect(valueFor('ip:type', { 'x-forwarded-for': '198.51.100.1', 'x-asn-type': ' isp ' }, facts)).toBe('isp')
    expect(valueFor('ip:type', { 'x-asn-type': 'isp' }, facts)).toBe('isp')
    expect(valueFor('ip:type', { 'x-asn-type': 'isp' })).toBe('isp')
  })

  test('is not guessed where X-ASN-Type comes more than once, unless the list knows', () => {
    expect(valueFor('ip:type', { 'x-asn-type': ['isp', 'isp'] }, facts)).toBe(REPEATED)
    expect(valueFor('ip:type', { 'x-forwarded-for': '203.0.113.7', 'x-asn-type': ['isp', 'isp'] }, facts)).toBe('hosting')
  })

  test('is missing where both are', () => {
    expect(valueFor('ip:type', { 'x-forwarded-for': '198.51.100.1' }, facts)).toBeUndefined()
    expect(valueFor('ip:type', { 'x-asn-type': ' ' })).toBeUndefined()
  })
})

describe('ip:tor', () => {
  const facts: IpFacts = { torExits: readTorExits('203.0.113.7').map }

  test('comes from X-Tor-Exit when that is valid, whatever the list says', () => {
    expect(valueFor('ip:tor', { 'x-tor-exit': 'no', 'x-forwarded-for': '203.0.113.7' }, facts)).toBe('false')
    expect(valueFor('ip:tor', { 'x-tor-exit': '1' })).toBe('true')
  })

  test('else from the list of exits', () => {
    expect(valueFor('ip:tor', { 'x-forwarded-for': '203.0.113.7' }, facts)).toBe('true')
    expect(valueFor('ip:tor', { 'x-forwarded-for': '203.0.113.8', 'x-tor-exit': 'perhaps' }, facts)).toBe('false')
  })

  test('is not guessed where X-Tor-Exit comes more than once', () => {
    expect(valueFor('ip:tor', { 'x-tor-exit': ['no', 'no'], 'x-forwarded-for': '203.0.113.7' }, facts)).toBe(REPEATED)
  })

  test('is missing where nobody knows', () => {
    expect(valueFor('ip:tor', { 'x-forwarded-for': '203.0.113.7' })).toBeUndefined()
    expect(valueFor('ip:tor', {}, facts)).toBeUndefined()
    expect(valueFor('ip:tor', { 'x-tor-exit': 'perhaps' })).toBeUndefined()
  })
})

describe('descriptors of one request', () => {
  const texts = ['header:x-a', 'jwt:sub', 'ip:address', 'header:x-b']
  const keys = texts.map((text) => parseDescriptorKey(text)!)

  test('never show what an earlier request had', () => {
    const descriptors = new Descriptors(defaultIdentification(), PARTS)
    const full = { 'x-a': '1', authorization: `Bearer ${jwt({ sub: 's' })}`, 'x-forwarded-for': '203.0.113.7' }
    descriptors.begin(viewOf(full), keys)
    expect(texts.map((_, i) => descriptors.get(i))).toEqual(['1', 's', '203.0.113.7', undefined])
    descriptors.end()
    descriptors.begin(viewOf({ 'x-b': '2' }), keys)
    expect(texts.map((_, i) => descriptors.get(i))).toEqual([undefined, undefined, undefined, '2'])
    descriptors.end()
    descriptors.begin(viewOf(full), keys.toReversed())
    expect(texts.map((_, i) => descriptors.get(i))).toEqual([undefined, '203.0.113.7', 's', '1'])
  })

  test('are worked out once, however many rules ask', () => {
    const descriptors = new Descriptors(defaultIdentification(), PARTS)
    const asked: string[] = []
    const header = (name: string): string | undefined => {
      asked.push(name)
      return name === 'x-a' ? '1' : undefined
    }
    descriptors.begin({ method: 'GET', uri: '/', host: '', header }, keys)
    for (let i = 0; i < 3; i++) expect([descriptors.get(0), descriptors.get(3)]).toEqual(['1', undefined])
    expect(asked).toEqual(['x-a', 'x-b'])
  })
})

function valueFor(key: string, headers: Headers, ipFacts: IpFacts = {}): DescriptorValue {
  return read(new Descriptors({ ...defaultIdentification(), ipFacts }, PARTS), key, headers)
}

function read(descriptors: Descriptors, key: string, headers: Headers): DescriptorValue {
  descriptors.begin(viewOf(headers), [parseDescriptorKey(key)!])
  return descriptors.get(0)
}

function viewOf(headers: Headers): PlainRequestView {
  return new PlainRequestView({ method: 'GET', uri: '/', headers })
}
