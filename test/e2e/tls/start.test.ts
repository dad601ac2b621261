import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import { expect, test } from 'vitest'
import { startProblem } from '../../../src/cli/start-problem.ts'
import type { ServerConfig } from '../../../src/config/config.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { finished, running, scratchDirectory, serving } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, replaceBoth, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

test('a pair that does not fit stops the start with a sentence, and so does any file that cannot be used', async () => {
  const directory = await scratchDirectory()
  const [a, b] = [await selfSigned(directory, 'DNS:a.test', 'a'), await selfSigned(directory, 'DNS:b.test', 'b')]
  const empty = join(directory, 'empty')
  await writeFile(empty, '')
  const stops = async (env: Readonly<Record<string, string>>, sentence: RegExp): Promise<void> => {
    const failure = await running({ env }).catch((error: unknown) => error)
    expect(startProblem({} as ServerConfig, failure as Error)).toMatch(sentence)
  }
  await stops(tlsEnv({ ...a, path: empty }), /^EDGE_TLS_CERT_FILE: .*empty is not a certificate in PEM/)
  await stops(tlsEnv({ ...a, keyPath: directory }), /^EDGE_TLS_KEY_FILE: cannot read .*: EISDIR/)
  const authority = { EDGE_TLS_CLIENT_CA_FILE: empty, EDGE_TLS_CLIENT_AUTH: 'require' }
  await stops({ ...tlsEnv(a), ...authority }, /^EDGE_TLS_CLIENT_CA_FILE: .*empty has no certificate in PEM/)
  const { status, stderr } = await finished(['serve'], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', ...tlsEnv({ ...a, keyPath: b.keyPath }) })
  const sentence = /edge cannot start:\n {2}EDGE_TLS_KEY_FILE: .*b\.key is not the private key of its certificate/
  expect([status, stderr]).toEqual([1, expect.stringMatching(sentence)])
})

test('the greeting names the scheme, and the log each certificate', async () => {
  const pair = await ownPair('DNS:localhost')
  const cli = await serving({ ...tlsEnv(pair), EDGE_ADMIN_PORT: '0' })
  expect(cli.stdout).toMatch(/listens https:\/\/127\.0\.0\.1:\d+/)
  expect(cli.stdout).toMatch(/admin {3}http:\/\/127\.0\.0\.1:\d+/)
  expect(cli.stderr).toMatch(/"event":"tls_loaded".*"names":\["localhost"\]/)
})

test('all workers resume a session that one of them has given, and none of them once the files are new', async () => {
  const directory = await scratchDirectory()
  const [pair, next] = [await selfSigned(directory), await selfSigned(directory, 'DNS:localhost', 'next')]
  const cli = await serving({ ...tlsEnv(pair), EDGE_WORKERS: '2', EDGE_ADMIN_PORT: '0' })
  const adminPort = Number(/admin +http:\/\/\S+:(\d+)/.exec(cli.stdout)![1])
  const connected = async (options: ConnectionOptions): Promise<TlsClient> => {
    const client = await TlsClient.connected(cli.port, options)
    // A session of TLS 1.3 comes after the handshake.
    expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 503 /)
    return client
  }
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const first = await connected({ maxVersion })
    expect([first.socket.isSessionReused(), first.socket.getProtocol()]).toEqual([false, maxVersion])
    const session = first.session!
    const resumes = async (): Promise<boolean> => (await connected({ maxVersion, session })).socket.isSessionReused()
    // The system chooses the worker.
    await until(async () => (await resumes()) && (await metricsOf(adminPort)).connections.every((open) => open > 2))
    for (let i = 0; i < 6; i++) expect(await resumes()).toBe(true)
    await replaceBoth(pair, next)
    await untilLogged(cli, 'tls_reloaded', maxVersion === 'TLSv1.2' ? 1 : 2)
    await until(async () => !(await resumes()))
    await until(async () => ![await resumes(), await resumes(), await resumes(), await resumes()].includes(true))
    await selfSigned(directory, 'DNS:localhost', 'next')
  }
})

test('only the versions 1.2 and 1.3 are spoken', async () => {
  const edge = await running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
  for (const version of ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const) {
    const client = await TlsClient.connected(edge.port, { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' })
    expect([client.isSecure, client.socket.getProtocol()]).toEqual(version >= 'TLSv1.2' ? [true, version] : [false, null])
  }
})
