import { describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import type { Edge } from '../../support/service/edge.ts'
import { decide, KeptCounters } from '../../support/state/kept-counters.ts'

const RULE = { policy: 'p', rule: 'r' }
const ALICE = { ...RULE, values: { 'header:x-caller': 'alice' } }

describe.concurrent('overrides', () => {
  test('hold without an admin API too', async (t) => {
    const kept = await KeptCounters.of(t)
    const { cli, operator } = await ran(kept)
    await operator.override({ ...ALICE, block: true })
    await cli.stop()
    expect((await decide(await kept.run(), 'X-Caller', 'alice')).status).toBe(403)
  })
})

async function ran(kept: KeptCounters): Promise<{ cli: Edge; operator: Operator }> {
  const cli = await kept.run(ADMIN_ENV)
  return { cli, operator: new Operator(cli.adminPort) }
}
