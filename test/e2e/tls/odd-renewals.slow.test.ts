import { mkdir, open, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { type Certificate, selfSigned } from '../../support/service/self-signed.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, replaceBoth, replacingPause, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

/** Asks a question on a new connection, and returns what the certificate is for. */
async function served({ port }: Edge): Promise<string | undefined> {
  const client = await TlsClient.connected(port)
  expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
  const { names } = client
  client.socket.destroy()
  return names
}

function patientEdge(pair: Pick<Certificate, 'path' | 'keyPath'>): Promise<Edge> {
  return running({ bundle: bundle(1), env: tlsEnv(pair as Certificate), pause: replacingPause(false) })
}

test('a volume whose link is swapped, as Kubernetes does with a Secret, is one renewal', async () => {
  const directory = await scratchDirectory()
  const version = async (name: string, names: string): Promise<void> => {
    await mkdir(join(directory, name))
    await selfSigned(join(directory, name), names)
    await symlink(name, join(directory, 'data.new'))
    await rename(join(directory, 'data.new'), join(directory, 'data'))
  }
  await version('first', 'DNS:first.test')
  const [path, keyPath] = [join(directory, 'tls.pem'), join(directory, 'tls.key')]
  await symlink('data/tls.pem', path)
  await symlink('data/tls.key', keyPath)
  const edge = await patientEdge({ path, keyPath })
  expect(await served(edge)).toBe('DNS:first.test')
  await version('second', 'DNS:second.test')
  await untilLogged(edge, 'tls_reloaded')
  await until(async () => (await served(edge)) === 'DNS:second.test')
  expect([edge.logged('tls_reloaded').length, edge.logged('tls_failed')]).toEqual([1, []])
})

test('files that are written in place, half by half, fail nobody', async () => {
  const directory = await scratchDirectory()
  const [used, next] = [await selfSigned(directory, 'DNS:old.test', 'used'), await selfSigned(directory, 'DNS:new.test', 'next')]
  const edge = await patientEdge(used)
  for (const [path, bytes] of [
    [used.keyPath, next.key],
    [used.path, next.cert],
  ] as const) {
    const file = await open(path, 'w')
    for (const half of [bytes.subarray(0, 100), bytes.subarray(100)]) {
      expect(await served(edge)).toBe('DNS:old.test')
      await file.write(half)
    }
    await file.close()
  }
  await untilLogged(edge, 'tls_reloaded')
  await until(async () => (await served(edge)) === 'DNS:new.test')
})

test('a storm of renewals, broken ones among them, fails nobody, and the last good pair stays', async () => {
  const directory = await scratchDirectory()
  const [used, a, b] = [
    await selfSigned(directory, 'DNS:used.test', 'used'),
    await selfSigned(directory, 'DNS:a.test', 'a'),
    await selfSigned(directory, 'DNS:b.test', 'b'),
  ]
  const edge = await patientEdge(used)
  let isOver = false
  const storm = (async () => {
    for (let i = 0; !isOver; i++) {
      if (i % 5 === 4) await writeFile(used.keyPath, 'not a key')
      else await replaceBoth(used, i % 2 === 0 ? a : b)
      await sleep(10)
    }
  })()
  for (let i = 0; i < 100; i++) expect(['DNS:used.test', 'DNS:a.test', 'DNS:b.test']).toContain(await served(edge))
  isOver = true
  await storm
  await replaceBoth(used, b)
  await until(async () => (await served(edge)) === 'DNS:b.test')
})

test('a session of another instance is not resumed, and its client is served', async () => {
  const pair = await ownPair()
  const [one, other] = [await patientEdge(pair), await patientEdge(pair)]
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const client = await TlsClient.connected(one.port, { maxVersion })
    await client.ask(QUESTION)
    const stranger = await TlsClient.connected(other.port, { maxVersion, session: client.session! })
    expect(await stranger.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
    expect(stranger.socket.isSessionReused()).toBe(false)
  }
})
