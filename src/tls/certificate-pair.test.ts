import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { issued, selfSigned } from '../../test/support/service/self-signed.ts'
import { authoritiesProblem, readPair, ServerNames } from './certificate-pair.ts'

describe('a certificate and a key', () => {
  test.each([
    ['EC', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-384']],
    ['RSA', ['rsa:2048']],
    ['Ed25519', ['ed25519']],
  ])('that fit are a pair: %s', async (_kind, kind) => {
    const directory = await scratchDirectory()
    const [keyPath, path] = [join(directory, 'k'), join(directory, 'c')]
    const names = 'subjectAltName=DNS:A.test,IP:192.0.2.1,DNS:*.b.test,DNS:a b.test,email:a@a.test'
    const made = [
      'req',
      '-x509',
      '-newkey',
      ...kind,
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=c',
      '-addext',
      names,
      '-keyout',
      keyPath,
      '-out',
      path,
    ]
    execFileSync('openssl', made, { stdio: 'pipe' })
    const reading = readPair(readFileSync(path), readFileSync(keyPath))
    expect(reading).toMatchObject({ pair: { names: ['a.test', '*.b.test'] } })
    const leftMs = ('pair' in reading ? reading.pair.expiresAtMs : 0) - Date.now()
    expect(Math.round(leftMs / 86_400_000)).toBe(2)
  })

  test('that do not fit are a problem of one of them, which says nothing of the key', async () => {
    const { cert, key } = await selfSigned(await scratchDirectory())
    const { privateKey } = generateKeyPairSync('ed25519')
    const pem = Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' }))
    const locked = Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'a' }))
    expect(readPair(cert, pem)).toMatchObject({ problem: { at: 'key', message: expect.stringContaining('is not the private key of') } })
    expect(readPair(cert, locked)).toMatchObject({ problem: { at: 'key', message: expect.stringContaining('passphrase') } })
    expect(readPair(cert, Buffer.from('canary'))).toEqual({
      problem: { at: 'key', message: 'is not a private key in PEM: expected a file that begins with -----BEGIN PRIVATE KEY-----' },
    })
    expect(readPair(key, key)).toMatchObject({ problem: { at: 'certificate' } })
    expect(readPair(Buffer.alloc(0), key)).toMatchObject({ problem: { at: 'certificate' } })
    expect(readPair(Buffer.alloc(1024 ** 2, '-----BEGIN CERTIFICATE-----\n'), key)).toMatchObject({ problem: { at: 'certificate' } })
  })

  test('whose chain is in the wrong order are a problem that says so', async () => {
    const directory = await scratchDirectory()
    const authority = await selfSigned(directory, 'DNS:authority', 'authority')
    const { cert, key } = await issued(directory, 'server', authority)
    expect(readPair(Buffer.concat([cert, authority.cert]), key)).toMatchObject({ pair: {} })
    const turned = readPair(Buffer.concat([authority.cert, cert]), key)
    expect(turned).toEqual({ problem: { at: 'certificate', message: expect.stringMatching(/^has its chain in the wrong order/) } })
    expect(readPair(Buffer.concat([authority.cert, authority.cert]), key)).toMatchObject({ problem: { at: 'key' } })
  })

  test('in DER are a problem of the file that has it', async () => {
    const directory = await scratchDirectory()
    const { cert, key, path, keyPath } = await selfSigned(directory)
    const der = (kind: string, from: string): Buffer => execFileSync('openssl', [kind, '-in', from, '-outform', 'DER'], { stdio: 'pipe' })
    expect(readPair(der('x509', path), key)).toMatchObject({ problem: { at: 'certificate', message: expect.stringContaining('in PEM') } })
    expect(readPair(cert, der('pkey', keyPath))).toMatchObject({ problem: { at: 'key', message: expect.stringContaining('in PEM') } })
  })

  test('may lie in one file, in either order, and have words before them', async () => {
    const { cert, key } = await selfSigned(await scratchDirectory())
    for (const both of [
      Buffer.concat([cert, key]),
      Buffer.concat([key, cert]),
      Buffer.concat([Buffer.from('Bag Attributes\n'), cert, key]),
    ]) {
      expect(readPair(both, both)).toMatchObject({ pair: { names: ['localhost'] } })
    }
  })

  test('too weak for OpenSSL are a problem, with its words', async () => {
    const directory = await scratchDirectory()
    const [keyPath, path] = [join(directory, 'k'), join(directory, 'c')]
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:512', '-nodes', '-subj', '/CN=c', '-keyout', keyPath, '-out', path], {
      stdio: 'pipe',
    })
    expect(readPair(readFileSync(path), readFileSync(keyPath))).toEqual({
      problem: { at: 'certificate', message: 'cannot be served: ee key too small' },
    })
  })
})

test('authorities are at least one certificate', async () => {
  const { cert, key } = await selfSigned(await scratchDirectory())
  expect(authoritiesProblem(cert)).toBeUndefined()
  expect(authoritiesProblem(Buffer.concat([cert, cert]))).toBeUndefined()
  for (const bytes of [key, Buffer.alloc(0), Buffer.from('canary')]) expect(authoritiesProblem(bytes)).toMatch(/^has no certificate in PEM/)
})

test('of names, the very one counts before a wildcard, and the first pair before later ones', () => {
  const names = new ServerNames([{ names: ['a.test'] }, { names: ['*.test', 'b.test'] }, { names: ['b.test', 'c.test', '*.c.test'] }])
  const asked = ['a.test', 'b.test', 'c.test', 'd.test', 'D.TEST.', 'x.c.test', 'x.y.test', 'test', '', '.', '*', '*.test', '__proto__']
  expect(asked.map((host) => names.indexOf(host))).toEqual([0, 1, 2, 1, 1, 2, 0, 0, 0, 0, 0, 1, 0])
})
