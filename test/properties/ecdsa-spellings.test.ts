import { generateKeyPairSync, sign, verify } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bearerToken, spelledToken } from '../../src/request/bearer.ts'
import { ecdsaTwin } from '../support/callers/ecdsa-twin.ts'
import { runs } from '../support/run/property-runs.ts'

const CURVES = {
  ES256: ['P-256', 'sha256'],
  ES256K: ['secp256k1', 'sha256'],
  ES384: ['P-384', 'sha384'],
  ES512: ['P-521', 'sha512'],
} as const

describe.each(Object.entries(CURVES))('a token that %s signed', (alg, [namedCurve, digest]) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve })
  const dsaEncoding = 'ieee-p1363'

  test('is one token, whichever of its two signatures it has, and however that is spelled', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), fc.constantFrom('', '=', '=='), (more, claims, padding) => {
        const signed = `${encoded({ alg, more })}.${encoded(claims)}`
        const token = `${signed}.${sign(digest, Buffer.from(signed), { key: privateKey, dsaEncoding }).toString('base64url')}`
        const twin = ecdsaTwin(token)
        expect(twin).not.toBe(token)
        const signature = Buffer.from(twin.slice(signed.length + 1), 'base64url')
        expect(verify(digest, Buffer.from(signed), { key: publicKey, dsaEncoding }, signature)).toBe(true)
        const spelled = bearerToken(`Bearer ${token}`)
        expect([token, twin]).toContain(spelled)
        expect(bearerToken(`Bearer ${twin}`)).toBe(spelled)
        const other = twin.replace(/[^.]*$/, (part) => part.replaceAll('-', '+').replaceAll('_', '/'))
        expect(bearerToken(`Bearer ${other}${padding}`)).toBe(spelled)
        expect([spelledToken(token), spelledToken(twin)]).toEqual([spelled, spelled])
      }),
      { numRuns: runs(25) },
    )
  })

  test('keeps what is no signature, and never fails', () => {
    const bytes = sign(digest, Buffer.from('x'), { key: privateKey, dsaEncoding }).length
    const filled = (byte: number): string => Buffer.alloc(bytes, byte).toString('base64url')
    for (const signature of [filled(0xff), filled(0)]) {
      expect(bearerToken(`Bearer ${encoded({ alg })}.e30.${signature}`)).toBe(`${encoded({ alg })}.e30.${signature}`)
    }
  })
})

test('other signatures of the same length are left alone', () => {
  const { privateKey } = generateKeyPairSync('ed25519')
  const headers = [{ alg: 'EdDSA' }, { alg: 'HS512' }, { alg: ['ES256'] }, { alg: '__proto__' }, {}, { ALG: 'ES256' }]
  fc.assert(
    fc.property(fc.constantFrom(...headers), fc.jsonValue(), (header, claims) => {
      const signed = `${encoded(header)}.${encoded(claims)}`
      const token = `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`
      expect(bearerToken(`Bearer ${token}`)).toBe(token)
    }),
  )
  const twisted = `eyJ${'x'.repeat(20)}.e30.${'_'.repeat(86)}`
  expect(bearerToken(`Bearer ${twisted}`)).toBeDefined()
})

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
