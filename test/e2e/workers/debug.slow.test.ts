import { beforeAll, describe, expect, test } from 'vitest'
import { SECRET, SECRET_ENV } from '../../conformance/debug-login.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 3
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 100_000)] }))

describe('a debug session', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, BUNDLE, SECRET_ENV, suite)
  })

  test('wrong secrets are counted together by all workers', async () => {
    const crowd = await Crowd.gather(cli.port)
    const before = (await metricsOf(cli.port)).value('edge_debug_logins_total{result="refused"}')
    const guess = 'POST /v1/debug/session HTTP/1.1\r\nHost: a\r\nX-Edge-Debug-Secret: wrong\r\n\r\n'
    const guesses = crowd.clients.flatMap((client) => Array<typeof client>(10).fill(client))
    for (const client of guesses) client.send(guess)
    for (const client of guesses) expect((await client.next()).status).toBe(403)
    expect((await login(cli, SECRET)).status).toBe(204)
    expect((await metricsOf(cli.port)).value('edge_debug_logins_total{result="refused"}')).toBe(before + guesses.length)
    // A minute may have ended meanwhile, and ten more begun.
    await until(() => refusals(cli) >= 10) // what was logged takes its own way to us
    expect(guesses.length).toBeGreaterThan(20)
    expect(refusals(cli)).toBeLessThanOrEqual(20)
  })
})

function login(cli: Cli, secret: string): Promise<Answer> {
  return ask(cli.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', secret]])
}

function refusals(cli: Cli): number {
  return cli.log.filter(({ event }) => event === 'debug_session_refused').length
}
