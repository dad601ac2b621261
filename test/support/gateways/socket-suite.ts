import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWith } from '../describe-with.ts'
import { HttpBackend } from '../proxy/backend.ts'
import { ask } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { scratchDirectory } from '../service/running.ts'
import type { Gateway } from './gateway.ts'
import { ALICE, oneRule, startEdge } from './gateway-setup.ts'

/** With the address that the gateway's page gives for a unix socket. */
export function socketSuite(gateway: Gateway): void {
  describeWith(gateway.missing, `${gateway.name} with a unix socket`, () => {
    test('asks edge through it', async () => {
      const path = join(await scratchDirectory(), 'edge.sock')
      await startEdge({ bundle: oneRule(1), clock: new ManualClock(), env: { EDGE_SOCKET: path } })
      const backend = await HttpBackend.start()
      const port = await gateway.start({ edge: path, backend: backend.port }, 'fail closed')
      const statuses = [(await ask(port, 'GET', '/', ALICE)).status, (await ask(port, 'GET', '/', ALICE)).status]
      expect([statuses, backend.seen.length]).toEqual([[200, 429], 1])
    })
  })
}
