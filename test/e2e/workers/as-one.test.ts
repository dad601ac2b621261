import { beforeAll, describe, expect, test } from 'vitest'
import { readCookie, SECRET, SECRET_ENV } from '../../conformance/debug-login.ts'
import { offer, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { valuesOf } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 2
/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001

/** Every answer to `/` names the version that it comes from, by the name of its policy. */
function version(number: number): object {
  return bundle(
    number,
    policy('ten', { selector: { pathPrefix: '/ten' }, rules: [bucketRule('ten', [], 10, HARDLY_ANY)] }),
    policy('quota', {
      selector: { pathPrefix: '/quota' },
      rules: [windowRule('quota', [], { limit: 30, period: '1y', timezone: 'Asia/Kathmandu', cost: 3 })],
    }),
    policy('debt', { selector: { pathPrefix: '/debt' }, rules: [rateRule('debt', [], { rate: '10/day', cost: 6, when_over: 'charge' })] }),
    policy(`v${number}`, { selector: { pathPrefix: '/named' }, rules: [bucketRule('r', [], 1_000_000, HARDLY_ANY)] }),
  )
}

// One after the other, on the same process. Under load, with more workers, and how they begin and end: the slow tests beside this one.
describe('several workers', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, version(1), SECRET_ENV, suite)
  })

  test('are as many as EDGE_WORKERS says', async () => {
    expect((await untilLogged(cli, 'started'))[0]!['workers']).toBe(WORKERS)
    const metrics = await metricsOf(cli.port)
    expect(metrics.value('edge_workers')).toBe(WORKERS)
    expect(metrics.connections).toHaveLength(WORKERS)
  })

  test('give the same account of all that they did', async () => {
    for (let i = 0; i < 30; i++) await ask(cli.port, 'POST', '/v1/decision', original('/named'))
    await ask(cli.port, 'POST', '/v1/decision')
    const accounts = await Promise.all(Array.from({ length: 4 * WORKERS }, () => metricsOf(cli.port)))
    const counted = accounts.map((metrics) => [...metrics.counters()].filter(([series]) => !series.startsWith('process_')))
    for (const account of counted) expect(account).toEqual(counted[0])
    expect(accounts[0]!.sum('edge_decisions_total')).toBe(30)
    expect(accounts[0]!.value('edge_refused_requests_total{reason="missing_original_method"}')).toBe(1)
  })

  test.each([
    ['a limit of 10 admits 10', '/ten', 10],
    ['a quota of 30 admits 10 that cost 3', '/quota', 10],
    ['a limit of 10 that can be overdrawn admits 2 that cost 6', '/debt', 2],
  ])('have one count: %s', async (_, path, expected) => {
    const crowd = await Crowd.gather(cli.port)
    const statuses: number[] = []
    while (statuses.length < 30) statuses.push(...(await crowd.ask(decisionBytes(original(path)))).map(({ status }) => status))
    expect(statuses.filter((status) => status === 200)).toHaveLength(expected)
    expect(statuses.filter((status) => status === 429)).toHaveLength(statuses.length - expected)
  })

  test('know a debug session that one of them opened, and one that logs out is out on all', async () => {
    const crowd = await Crowd.gather(cli.port)
    const [mine, yours] = [await logIn(cli), await logIn(cli)]
    expect([await debugged(crowd, mine), await debugged(crowd, yours)]).toEqual([crowd.size, crowd.size])
    expect((await ask(cli.port, 'POST', '/v1/debug/logout', [['Cookie', mine]])).status).toBe(204)
    expect([await debugged(crowd, mine), await debugged(crowd, yours)]).toEqual([0, crowd.size])
  })

  test('look at the bundle once at SIGHUP, and decide by a new one all together, by a refused one never', async () => {
    const crowd = await Crowd.gather(cli.port)
    const versions = async (): Promise<Set<string | undefined>> =>
      new Set((await crowd.ask(decisionBytes(original('/named')))).map((answer) => /v\d/.exec(valuesOf(answer, 'RateLimit')[0]!)?.[0]))
    expect(await verdictAfter(cli, async () => cli.process.kill('SIGHUP'))).toMatchObject({ event: 'bundle_unchanged' })
    expect(await offer(cli, '{"bundle_version":2,')).toMatchObject({ event: 'bundle_refused' })
    expect(await versions()).toEqual(new Set(['v1']))
    expect(await offer(cli, version(2))).toMatchObject({ event: 'bundle_applied' })
    expect(await versions()).toEqual(new Set(['v2']))
    const metrics = await metricsOf(cli.port)
    expect(['unchanged', 'refused', 'applied'].map((result) => metrics.value(`edge_bundle_reloads_total{result="${result}"}`))).toEqual([
      1, 1, 2,
    ])
  })

  test('end together', async () => {
    expect(await cli.stop()).toBe(0)
    await until(() => cli.log.at(-1)?.['event'] === 'stopped')
    expect(cli.logged('worker_died')).toEqual([])
  })
})

async function logIn({ port }: Workers): Promise<string> {
  return readCookie(await ask(port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])).pair
}

/** On how many connections of the crowd the cookie opens a session. */
async function debugged(crowd: Crowd, cookie: string): Promise<number> {
  const answers = await crowd.ask(decisionBytes(original('/named', ['Cookie', cookie])))
  return answers.filter((answer) => valuesOf(answer, 'X-Edge-Debug-Decision').length > 0).length
}
