import type { ConnectionOptions } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { call, grpcClient, grpcFields } from '../../support/grpc/grpc-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { type Certificate, issued, selfSigned } from '../../support/service/self-signed.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { QUESTION, replaceBy, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

interface Mutual {
  readonly edge: Edge
  readonly directory: string
  readonly authority: Certificate
  readonly client: Certificate
}

async function mutual(): Promise<Mutual> {
  const directory = await scratchDirectory()
  const [pair, authority] = [await selfSigned(directory), await selfSigned(directory, 'DNS:authority', 'authority')]
  const env = {
    ...tlsEnv(pair),
    EDGE_TLS_CLIENT_CA_FILE: authority.path,
    EDGE_TLS_CLIENT_AUTH: 'require',
    EDGE_GRPC_PORT: '0',
    EDGE_ADMIN_PORT: '0',
  }
  return { edge: await running({ bundle: bundle(1), env }), directory, authority, client: await issued(directory, 'client', authority) }
}

/** Whether a question of such a client is answered. */
async function isAdmitted({ port }: Edge, options: ConnectionOptions): Promise<boolean> {
  const client = await TlsClient.connected(port, options)
  // A client of TLS 1.3 learns only afterwards that it was refused.
  return /^HTTP\/1.1 200 /.test(client.isSecure ? await client.ask(QUESTION) : '')
}

function refused({ adminPort }: Edge): Promise<number> {
  return metric(adminPort, 'edge_tls_handshake_failures_total{listener="main",reason="client_certificate"}')
}

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('with %s, a client', (version) => {
  test('with a certificate of the authority is admitted, others are not', async () => {
    const { edge, directory, client } = await mutual()
    const of = ({ key, cert }: Certificate): ConnectionOptions => ({ minVersion: version, maxVersion: version, key, cert })
    expect(await isAdmitted(edge, of(client))).toBe(true)
    expect(await isAdmitted(edge, { minVersion: version, maxVersion: version })).toBe(false)
    expect(await isAdmitted(edge, of(await selfSigned(directory, 'DNS:client', 'forged')))).toBe(false)
    const stranger = await selfSigned(directory, 'DNS:authority', 'stranger')
    expect(await isAdmitted(edge, of(await issued(directory, 'theirs', stranger)))).toBe(false)
    await until(async () => (await refused(edge)) === 3)
  })

  test('resumes its session, but not once another authority is asked for', async () => {
    const { edge, directory, authority, client } = await mutual()
    const options = { minVersion: version, maxVersion: version, key: client.key, cert: client.cert }
    const first = await TlsClient.connected(edge.port, options)
    await first.ask(QUESTION)
    const { session } = first
    const again = await TlsClient.connected(edge.port, { ...options, session: session! })
    expect([await again.ask(QUESTION), again.socket.isSessionReused()]).toEqual([expect.stringMatching(/^HTTP\/1.1 200 /), true])
    const other = await selfSigned(directory, 'DNS:authority', 'other')
    await replaceBy(authority.path, other.path)
    await untilLogged(edge, 'tls_reloaded')
    await until(async () => !(await isAdmitted(edge, { ...options, session: session! })))
    const { key, cert } = await issued(directory, 'new', other)
    expect(await isAdmitted(edge, { ...options, key, cert })).toBe(true)
    // What is open goes on.
    expect(await first.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
  })
})

test('gRPC needs the certificate, too', async () => {
  const { edge, client } = await mutual()
  const check = grpcFields('/grpc.health.v1.Health/Check')
  const { key, cert } = client
  expect(await call(grpcClient(edge.grpcPort, { rejectUnauthorized: false, key, cert }), check, Buffer.alloc(5))).toMatchObject({
    status: 0,
  })
  expect((await call(grpcClient(edge.grpcPort, { rejectUnauthorized: false }), check, Buffer.alloc(5))).status).toBeUndefined()
})
