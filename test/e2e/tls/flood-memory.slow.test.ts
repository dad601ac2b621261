import { expect, test } from 'vitest'
import { RawClient } from '../../support/proxy/proxy.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { memoryKib } from '../../support/service/process-facts.ts'
import { serving } from '../../support/service/running.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

/** The first bytes of a ClientHello, which promise more. */
const HALF_HELLO = Buffer.from([22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3])
/** As many handshakes as a worker does at a time. */
const PLACES = 500
/** One that has a place takes some 55 KiB, an open connection without TLS 10 (`npm run bench:tls -- --only memory`). */
const MAX_WAITING_KIB = 35

test('half handshakes beyond those that have a place take little memory, and open connections are served meanwhile', async () => {
  const cli = await serving({ ...tlsEnv(await ownPair()), EDGE_WORKERS: '1', EDGE_ADMIN_PORT: '0', EDGE_HEADERS_TIMEOUT_MS: '300000' })
  await until(() => /admin +http:\S+\n/.test(cli.stdout))
  const adminPort = Number(/admin +http:\/\/\S+:(\d+)/.exec(cli.stdout)![1])
  const open = await TlsClient.connected(cli.port)
  /** Those that have taken too long have lost their places and their connections to others. */
  const seen = async (): Promise<number> => {
    const metrics = await metricsOf(adminPort)
    return metrics.connections[0]! + metrics.value('edge_tls_handshake_failures_total{listener="main",reason="timeout"}')
  }
  const flood = async (count: number): Promise<number> => {
    const before = await memoryKib(cli, 'VmHWM')
    const seenBefore = await seen()
    for (let i = 0; i < count; i++) RawClient.connect(cli.port).send(HALF_HELLO)
    await until(async () => (await seen()) >= seenBefore + count)
    expect(await open.ask(QUESTION)).toMatch(/^HTTP\/1.1 503 /)
    return (await memoryKib(cli, 'VmHWM')) - before
  }
  await flood(PLACES)
  expect(await flood(4 * PLACES)).toBeLessThan(4 * PLACES * MAX_WAITING_KIB)
})
