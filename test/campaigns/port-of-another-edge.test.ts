import { describe, expect, test } from 'vitest'
import type { Cli } from '../support/service/cli.ts'
import { serving } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { BURST, KeptCounters, take } from '../support/state/kept-counters.ts'

describe.concurrent('a port that another edge has', () => {
  test('is named, and nothing changes for the other, though they share the state file too', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.serve({ EDGE_ADMIN_PORT: '0' })
    const adminPort = /admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(first.stdout)![1]!
    await take(first, 3)

    const port = String(first.port)
    expect(await kept.refusal({ EDGE_PORT: port })).toBe(`EDGE_PORT: port ${port} is in use by another process`)
    expect(await kept.refusal({ EDGE_ADMIN_PORT: adminPort })).toBe(`EDGE_ADMIN_PORT: port ${adminPort} is in use by another process`)
    const apart = { EDGE_PORT: port, EDGE_STATE_FILE: '' }
    expect(await kept.refusal(apart)).toBe(`EDGE_PORT: port ${port} is in use by another process`)

    expect(await take(first)).toBe(BURST - 4)
    expect(await first.stop()).toBe(0)
  })

  test.for(['EDGE_PORT', 'EDGE_ADMIN_PORT'])('or gets at the same moment is named too: %s', async (variable, t) => {
    // An address that no other test uses
    const env = { EDGE_HOST: '127.9.8.7', [variable]: String(await serverPort()), EDGE_WORKERS: '1' }
    const both = await Promise.all([serving(env, [], t), serving(env, [], t)])
    const isUp = (cli: Cli): boolean => cli.stdout.includes('listens')
    expect(both.filter(isUp)).toHaveLength(1)
    const loser = both.find((cli) => !isUp(cli))!
    expect(await loser.exited).toBe(1)
    expect(loser.stderr).toContain(`edge cannot start:\n  ${variable}: port ${env[variable]} is in use by another process\n`)
  })
})
