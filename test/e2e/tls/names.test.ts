import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'

const FIRST = 'DNS:first.example'
const WILD = 'DNS:*.example'
const EXACT = 'DNS:exact.example, DNS:other.test'

test('a client gets the certificate for the name that it asks for: the very name, then the level above, then the first', async () => {
  const directory = await scratchDirectory()
  const pairs = [
    await selfSigned(directory, FIRST, 'first'),
    await selfSigned(directory, WILD, 'wild'),
    await selfSigned(directory, 'DNS:exact.example,DNS:other.test', 'exact'),
    await selfSigned(directory, 'DNS:other.test', 'again'),
  ]
  const edge = await running({ bundle: bundle(1), env: tlsEnv(...pairs) })
  const namesFor = async (servername: string): Promise<string | undefined> => {
    const client = await TlsClient.connected(edge.port, { servername })
    expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
    return client.names
  }
  expect(await namesFor('')).toBe(FIRST)
  expect(await namesFor('first.example')).toBe(FIRST)
  expect(await namesFor('exact.example')).toBe(EXACT)
  expect(await namesFor('EXACT.Example')).toBe(EXACT)
  expect(await namesFor('other.test')).toBe(EXACT)
  expect(await namesFor('any.example')).toBe(WILD)
  // A wildcard stands for one level.
  expect(await namesFor('a.b.example')).toBe(FIRST)
  expect(await namesFor('example')).toBe(FIRST)
})

test.each([
  ['unknown', 'nobody.test'],
  ['longer than any host', `${'a'.repeat(63)}.`.repeat(3) + 'a'.repeat(50)],
  ['of odd characters', '*.example'],
  ['of bytes that are no name', '\u0001\u00ff/../"\u00e9'],
  ['the name of every object', '__proto__'],
  ['a dot', '.'],
])('a name that is %s gets the first certificate, and its question an answer', async (_what, servername) => {
  const directory = await scratchDirectory()
  const edge = await running({
    bundle: bundle(1),
    env: tlsEnv(await selfSigned(directory, FIRST, 'first'), await selfSigned(directory, 'DNS:b.test', 'b')),
  })
  const client = await TlsClient.connected(edge.port, { servername })
  expect(client.names).toBe(FIRST)
  expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
})
