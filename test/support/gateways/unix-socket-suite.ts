import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readText } from '../../docs/markdown.ts'
import { describeWith } from '../describe-with.ts'
import { ask } from '../service/http.ts'
import { scratchDirectory } from '../service/running.ts'
import { type Gateway, substituted } from './gateway.ts'
import { ALICE, behind, oneRule, startEdge, statusAndReason } from './gateway-setup.ts'

const PATH = '/run/edge/edge.sock'

/** A gateway in which the address of edge is replaced, as its page says. */
interface ThroughSocket {
  readonly missing: string | undefined
  readonly name: string
  /** With the documented path. */
  readonly address: string
  /** The gateway that has this address in its configuration. */
  with(address: string): Gateway
}

export function unixSocketSuite({ missing, name, address, with: gatewayWith }: ThroughSocket): void {
  describeWith(missing, `${name} with a unix socket`, () => {
    test('asks edge through it', async () => {
      const path = join(await scratchDirectory(), 'edge.sock')
      const gateway = gatewayWith(substituted(address, { [PATH]: path }))
      const edge = await startEdge({ bundle: oneRule(1), env: { EDGE_SOCKET: path, EDGE_SOCKET_MODE: '0600' } })
      // Nothing listens on the port that the gateway would ask otherwise.
      const { port, backend } = await behind(gateway, { port: 1 })
      expect(statusAndReason(await ask(port, 'GET', '/', ALICE))).toEqual([200, undefined])
      expect(statusAndReason(await ask(port, 'GET', '/', ALICE))).toEqual([429, 'token_bucket_exceeded'])
      await edge.stop()
      expect((await ask(port, 'GET', '/', ALICE)).status).toBeGreaterThanOrEqual(500)
      expect(backend.seen).toHaveLength(1)
    })
  })
}

/** Text of a gateway's page. */
export function documented(page: string, text: string): string {
  if (!readText(`docs/gateways/${page}.md`).includes(`\`${text}\``)) throw new Error('the page has changed')
  return text
}
