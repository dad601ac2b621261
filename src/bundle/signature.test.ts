import { generateKeyPairSync, sign } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { publicKeyText, readPublicKeys, signatureProblem } from './signature.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const other = generateKeyPairSync('ed25519')
const raw = publicKeyText(publicKey)
const der = publicKey.export({ format: 'der', type: 'spki' })
const pem = publicKey.export({ format: 'pem', type: 'spki' }).toString()
const otherRaw = publicKeyText(other.publicKey)
const otherPem = other.publicKey.export({ format: 'pem', type: 'spki' }).toString()

describe('public keys', () => {
  test.each([
    ['base64 of 32 bytes', raw, [raw]],
    ['the same without padding', raw.replaceAll('=', ''), [raw]],
    ['base64url', Buffer.from(raw, 'base64').toString('base64url'), [raw]],
    ['base64 of DER', der.toString('base64'), [raw]],
    ['PEM', pem, [raw]],
    ['PEM with its lines joined', pem.replaceAll('\n', ' '), [raw]],
    ['white space around it', `\n ${raw}\t`, [raw]],
    ['two with a comma', `${raw},${otherRaw}`, [raw, otherRaw]],
    ['two with commas and spaces', `${raw} , ${otherRaw},`, [raw, otherRaw]],
    ['two in PEM', pem + otherPem, [raw, otherRaw]],
    ['one of each', `${pem}, ${otherRaw}`, [raw, otherRaw]],
  ])('%s', (_what, text, expected) => {
    expect(readPublicKeys(text)?.map(publicKeyText)).toEqual(expected)
  })

  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey
  const x25519 = generateKeyPairSync('x25519').publicKey
  test.each([
    ['nothing', ' , '],
    ['a word', 'secret'],
    ['a path', '/etc/edge/edge-bundle.pub'],
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['a key and something else', `${raw},x`],
    ['the private key', privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()],
    ['the private key as DER', privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64')],
    ['an RSA key', rsa.export({ format: 'pem', type: 'spki' }).toString()],
    ['an RSA key as DER', rsa.export({ format: 'der', type: 'spki' }).toString('base64')],
    ['a key for another purpose', x25519.export({ format: 'pem', type: 'spki' }).toString()],
    ['PEM that is cut', pem.slice(0, -30)],
    ['PEM without a key', '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----'],
  ])('%s is none', (_what, text) => {
    expect(readPublicKeys(text)).toBeUndefined()
  })
})

describe('a signature', () => {
  const bytes = Buffer.from('{"bundle_version":1}\n')
  const good = sign(null, bytes, privateKey)

  test.each([
    ['as edge sign writes it', `${good.toString('base64')}\n`],
    ['without padding', good.toString('base64').replaceAll('=', '')],
    ['in base64url', good.toString('base64url')],
    ['with its lines broken, as openssl does it', `${good.toString('base64').slice(0, 64)}\r\n${good.toString('base64').slice(64)}\r\n`],
    ['with spaces in it', `${good.toString('base64').slice(0, 64)} ${good.toString('base64').slice(64)}`],
  ])('%s is good', (_what, text) => {
    expect(signatureProblem(bytes, text, [publicKey])).toBeUndefined()
    expect(signatureProblem(bytes, text, [other.publicKey, publicKey])).toBeUndefined()
  })

  test.each([
    ['none', undefined, /^it is not signed/],
    ['an empty one', ' \n', /^it is not signed/],
    ['of another key', sign(null, bytes, other.privateKey).toString('base64'), /^its signature does not match/],
    ['of other bytes', sign(null, Buffer.from('{"bundle_version":1}'), privateKey).toString('base64'), /^its signature does not match/],
    ['zeros', Buffer.alloc(64).toString('base64'), /^its signature does not match/],
    ['cut', good.subarray(0, 63).toString('base64'), /^its signature is not base64 of 64 bytes/],
    ['too long', Buffer.concat([good, good]).toString('base64'), /^its signature is not base64 of 64 bytes/],
    ['twice', `${good.toString('base64')}, ${good.toString('base64')}`, /^it has 2 signatures, expected one/],
    ['in hex', good.toString('hex'), /^its signature is not base64 of 64 bytes/],
    ['raw', good.toString('latin1'), /^its signature is not base64 of 64 bytes/],
    ['with something in the middle', `${good.toString('base64').slice(0, 40)}!${good.toString('base64').slice(40)}`, /is not base64/],
  ])('%s is refused', (_what, text, said) => {
    expect(signatureProblem(bytes, text, [publicKey])).toMatch(said)
  })
})
