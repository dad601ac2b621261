import { describe, expect, test } from 'vitest'
import { BURST, KeptCounters, take } from '../support/kept-counters.ts'

describe.concurrent('a port that another edge has', { timeout: 60_000 }, () => {
  test('is named, and nothing changes for the other, though they share the state file too', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.serve({ EDGE_ADMIN_PORT: '0' })
    const adminPort = /admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(first.stdout)![1]!
    await take(first, 3)

    const port = String(first.port)
    expect(await kept.refusal({ EDGE_PORT: port })).toBe(`EDGE_PORT: port ${port} is taken by another process`)
    expect(await kept.refusal({ EDGE_ADMIN_PORT: adminPort })).toBe(`EDGE_ADMIN_PORT: port ${adminPort} is taken by another process`)
    const apart = { EDGE_PORT: port, EDGE_STATE_FILE: '' }
    expect(await kept.refusal(apart)).toBe(`EDGE_PORT: port ${port} is taken by another process`)

    expect(await take(first)).toBe(BURST - 4)
    expect(await first.stop()).toBe(0)
  })
})
