import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import { beforeAll, describe, expect, test } from 'vitest'
import { jwkOf, keySetText, signatureOf, type TestKey, testKey } from '../../../test/support/callers/test-issuer.ts'
import { JWT_ALGORITHMS } from '../../policy/schema/callers.ts'
import { KeySet, type PublishedKeys, readKeySet } from './key-set.ts'

let rsa: TestKey
let otherRsa: TestKey
let shortRsa: TestKey
const curves = { ES256: testKey('P-256'), ES384: testKey('P-384'), ES512: testKey('P-521') }
const ed25519 = testKey('ed25519')

beforeAll(() => {
  rsa = testKey('rsa')
  otherRsa = testKey('rsa', 'other')
  shortRsa = testKey('short-rsa')
})

function published(...keys: readonly unknown[]): PublishedKeys {
  const read = readKeySet(keySetText(...keys))
  if ('problem' in read) throw new Error(read.problem)
  return read
}

function setOf(...keys: readonly unknown[]): KeySet {
  return new KeySet(published(...keys))
}

function algorithmsOf(set: KeySet, kid: string | undefined): string[] {
  return JWT_ALGORITHMS.filter((algorithm) => set.find(kid, algorithm) !== undefined)
}

describe('the algorithms of a key', () => {
  const RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']

  test('are those of its type and curve', () => {
    const set = setOf(jwkOf(rsa), jwkOf(curves.ES256), jwkOf(curves.ES384), jwkOf(curves.ES512), jwkOf(ed25519))
    expect(algorithmsOf(set, 'rsa')).toEqual(RSA)
    expect(['P-256', 'P-384', 'P-521', 'ed25519'].map((kid) => algorithmsOf(set, kid))).toEqual([
      ['ES256'],
      ['ES384'],
      ['ES512'],
      ['EdDSA'],
    ])
    expect(set.size).toBe(5)
  })

  test('include EdDSA for Ed448, which jose does not know', () => {
    const ed448 = testKey('ed448')
    const verifying = setOf(jwkOf(ed448)).find('ed448', 'EdDSA')!
    const signature = signatureOf('EdDSA', ed448.privateKey, Buffer.from('a text'))
    expect(verifying.verifies(Buffer.from('a text'), signature)).toBe(true)
    expect(verifying.verifies(Buffer.from('b text'), signature)).toBe(false)
  })

  test('are restricted by its alg', () => {
    expect(algorithmsOf(setOf(jwkOf(rsa, { alg: 'PS384' })), 'rsa')).toEqual(['PS384'])
    expect(published(jwkOf(rsa, { alg: 'ES256' })).unused).toEqual(['keys[0] is not used: no accepted algorithm has its "alg" or "crv"'])
  })

  test.each(JWT_ALGORITHMS)('%s verifies what it signed, and no other text, signature or key', (algorithm) => {
    const key = algorithm in curves ? curves[algorithm as keyof typeof curves] : algorithm === 'EdDSA' ? ed25519 : rsa
    const verifying = setOf(jwkOf(key)).find(key.kid, algorithm)!
    const signature = signatureOf(algorithm, key.privateKey, Buffer.from('a text'))
    expect(verifying.verifies(Buffer.from('a text'), signature)).toBe(true)
    expect(verifying.verifies(Buffer.from('b text'), signature)).toBe(false)
    expect(verifying.verifies(Buffer.from('a text'), signature.subarray(1))).toBe(false)
    expect(verifying.verifies(Buffer.from('a text'), Buffer.concat([signature, Buffer.of(0)]))).toBe(false)
    expect(verifying.verifies(Buffer.from('a text'), Buffer.alloc(signature.length))).toBe(false)
    expect(verifying.verifies(Buffer.from('a text'), Buffer.alloc(0))).toBe(false)
  })

  test('PS256 does not verify a signature without its leading zero', () => {
    const verifying = setOf(jwkOf(rsa)).find('rsa', 'PS256')!
    const text = Buffer.from('a text')
    // Its salt is random: one in 256 begins with a zero.
    let signature = signatureOf('PS256', rsa.privateKey, text)
    while (signature[0] !== 0) signature = signatureOf('PS256', rsa.privateKey, text)
    expect(verifying.verifies(text, signature)).toBe(true)
    expect(verifying.verifies(text, signature.subarray(1))).toBe(false)
  })
})

describe('a token', () => {
  test('without kid gets the only key for its algorithm', () => {
    const set = setOf(jwkOf(rsa), jwkOf(curves.ES256))
    expect(set.find(undefined, 'RS256')).toBe(set.find('rsa', 'RS256'))
    expect(setOf(jwkOf(rsa), jwkOf(otherRsa)).find(undefined, 'RS256')).toBeUndefined()
    expect(setOf(jwkOf(rsa, { alg: 'RS512' }), jwkOf(otherRsa, { alg: 'RS256' })).find(undefined, 'RS256')).toBeDefined()
    const { kid: _, ...unnamed } = jwkOf(rsa)
    expect(setOf(unnamed).find(undefined, 'RS256')).toBeDefined()
    expect(setOf(unnamed).find('rsa', 'RS256')).toBeUndefined()
  })

  test('gets no key if two that differ have its kid, and one if it is listed twice', () => {
    const twice = setOf(jwkOf(rsa), jwkOf(otherRsa, { kid: 'rsa' }), jwkOf(rsa))
    expect([twice.find('rsa', 'RS256'), twice.has('rsa')]).toEqual([undefined, true])
    expect(setOf(jwkOf(rsa), jwkOf(rsa, { alg: 'RS256' })).find('rsa', 'RS256')).toBeDefined()
    const oneName = setOf(jwkOf(rsa, { kid: 'a' }), jwkOf(curves.ES256, { kid: 'a' }))
    expect(algorithmsOf(oneName, 'a')).toContain('ES256')
  })

  test('whose key is there but not used gets none, and fetching the set again would not help', () => {
    const set = setOf(jwkOf(rsa, { use: 'enc' }))
    expect([set.find('rsa', 'RS256'), set.has('rsa'), set.has('other'), set.size]).toEqual([undefined, true, false, 0])
  })
})

describe('a key is not used', () => {
  const cases: [string, () => unknown, string][] = [
    ['for encryption', () => jwkOf(rsa, { use: 'enc' }), 'its "use" is not "sig"'],
    ['with other operations', () => jwkOf(rsa, { key_ops: ['encrypt'] }), 'its "key_ops" is not ["verify"]'],
    ['with more operations', () => jwkOf(rsa, { key_ops: ['verify', 'sign'] }), 'its "key_ops" is not ["verify"]'],
    ['with an operation that is a text', () => jwkOf(rsa, { key_ops: 'verify' }), 'its "key_ops" is not ["verify"]'],
    ['with a strange ext', () => jwkOf(rsa, { ext: 'yes' }), 'its "ext" is neither true nor false'],
    ['with a kid that is a number', () => jwkOf(rsa, { kid: 7 }), 'its "kid" is not a text'],
    [
      'if it is private',
      () => ({ ...rsa.privateKey.export({ format: 'jwk' }), kid: 'rsa' }),
      'it is a private key. Publish only its public half',
    ],
    ['if it is a shared secret', () => ({ kty: 'oct', k: 'c2VjcmV0' }), 'its "kty" is not RSA, EC or OKP'],
    ['if its type is unknown', () => ({ kty: 'AKP', pub: 'AQ' }), 'its "kty" is not RSA, EC or OKP'],
    ['if its curve is unknown', () => ({ kty: 'EC', crv: 'secp256k1', x: 'AQ', y: 'AQ' }), 'no accepted algorithm has its "alg" or "crv"'],
    ['if its curve is for agreement', () => ({ kty: 'OKP', crv: 'X25519', x: 'AQ' }), 'no accepted algorithm has its "alg" or "crv"'],
    ['if it is short', () => jwkOf(shortRsa), 'it is an RSA key of 1024 bits. Between 2048 and 8192 are accepted'],
    [
      'if it is absurdly long',
      () => ({ kty: 'RSA', e: 'AQAB', n: '_'.repeat(1400) }),
      'it is an RSA key of 8400 bits. Between 2048 and 8192 are accepted',
    ],
    ['if its exponent is 1', () => jwkOf(rsa, { e: 'AQ' }), 'its exponent is not an odd number between 3 and 2^32'],
    ['if its exponent is even', () => jwkOf(rsa, { e: 'BA' }), 'its exponent is not an odd number between 3 and 2^32'],
    ['if its exponent is huge', () => jwkOf(rsa, { e: 'AQAAAAAB' }), 'its exponent is not an odd number between 3 and 2^32'],
    ['if its point is not on the curve', () => jwkOf(curves.ES256, { x: 'A'.repeat(43) }), 'it is not a valid EC key'],
    ['if its number is missing', () => ({ kty: 'RSA', e: 'AQAB' }), 'it is not a valid RSA key'],
    ['if its number is a list', () => ({ kty: 'RSA', e: 'AQAB', n: ['AQ'] }), 'it is not a valid RSA key'],
    ['if it is a text', () => 'a key', 'it is not an object'],
    ['if it is null', () => null, 'it is not an object'],
    ['if it is a list', () => [], 'it is not an object'],
  ]

  test.each(cases)('%s, and the others are', (_name, member, why) => {
    const keys = published(jwkOf(otherRsa), member())
    expect(keys.unused).toEqual([`keys[1] is not used: ${why}`])
    const set = new KeySet(keys)
    expect([set.size, set.find('other', 'RS256') !== undefined]).toEqual([1, true])
  })
})

test('a key that no issuer could sign with verifies nothing', () => {
  const bytes = Buffer.from(jwkOf(rsa)['n'] as string, 'base64url')
  bytes[bytes.length - 1]! &= 0xfe
  const key = setOf(jwkOf(rsa, { n: bytes.toString('base64url') })).find('rsa', 'RS256')!
  expect(key.verifies(Buffer.from('a'), Buffer.alloc(256, 1))).toBe(false)
})

test('key sets are read by one thread, and sent to others', () => {
  const keys = published(jwkOf(rsa), jwkOf(curves.ES256, { use: 'enc' }))
  const { port1, port2 } = new MessageChannel()
  port1.postMessage(keys)
  const set = new KeySet((receiveMessageOnPort(port2) as { message: PublishedKeys }).message)
  port1.close()
  const signature = signatureOf('PS256', rsa.privateKey, Buffer.from('a text'))
  expect(set.find('rsa', 'PS256')!.verifies(Buffer.from('a text'), signature)).toBe(true)
  expect([set.version, set.size, set.has('P-256')]).toEqual([keys.version, 1, true])
})

describe('what is not a key set', () => {
  test.each([
    ['', 'the key set is not JSON'],
    ['<html>Not found</html>', 'the key set is not JSON'],
    ['{"keys":[]', 'the key set is not JSON'],
    ['null', 'the key set is not an object with "keys", a list of keys'],
    ['[]', 'the key set is not an object with "keys", a list of keys'],
    ['{"error":"secret"}', 'the key set is not an object with "keys", a list of keys'],
    ['{"keys":{}}', 'the key set is not an object with "keys", a list of keys'],
    ['{"keys":[],"keys":[]}', 'the key set has a name twice in one object'],
    [keySetText(...Array(101).fill({})), 'the key set has 101 keys; at most 100 are accepted'],
    [`{"keys":[],"x":"${'é'.repeat(524_288)}"}`, 'the key set is longer than 1048576 bytes'],
  ])('%.40s is a problem in words', (text, problem) => {
    expect(readKeySet(text)).toEqual({ problem })
  })

  test('a set without keys is one: its issuer has withdrawn them', () => {
    expect(published()).toMatchObject({ usable: [], unused: [], kids: [] })
  })

  test('a set that is nested deeply is read to its end', () => {
    expect(readKeySet(`{"keys":[${'['.repeat(100_000)}${']'.repeat(100_000)}]}`)).toMatchObject({ usable: [] })
  })
})

test('the version is that of the usable keys, however they are written', () => {
  const { version } = setOf(jwkOf(rsa), jwkOf(curves.ES256))
  expect(setOf(jwkOf(curves.ES256, { x5t: 'AQ' }), jwkOf(rsa, { use: 'sig' }), jwkOf(otherRsa, { use: 'enc' })).version).toBe(version)
  expect(setOf(jwkOf(rsa)).version).not.toBe(version)
  expect(setOf(jwkOf(rsa), jwkOf(curves.ES256, { kid: 'b' })).version).not.toBe(version)
  expect(setOf(jwkOf(rsa, { alg: 'RS256' }), jwkOf(curves.ES256)).version).not.toBe(version)
})
