import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MIN_TABLE_BYTES, tableBytesFor } from '../../../src/store/table/table-layout.ts'
import { bundle, llmRule, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import { runs, sized } from '../../support/run/property-runs.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'

const SLOTS = 320
/** Questions on one connection before their answers are read. */
const AT_ONCE = 100

const LOGINS = policy('logins', {
  selector: { pathPrefix: '/login' },
  rules: [rateRule('by-user', ['header:x-user'], { rate: '1/hour', burst: 1 })],
})

test('made-up keys of one rule do not change the budgets of another', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 9 }), fc.constantFrom('1d', '1mo', '1y'), async (used, period) => {
      const edge = await runningWith(
        tableBytesFor(SLOTS),
        policy('budgets', {
          selector: { pathPrefix: '/api' },
          rules: [windowRule('by-key', ['header:x-key'], { limit: 10, period })],
        }),
        LOGINS,
      )
      const teams = Array.from({ length: 20 }, (_, i) => `team${i}`)
      for (const team of teams) await ask(edge, Array(used).fill(['/api', 'X-Key', team]))
      await ask(
        edge,
        Array.from({ length: sized(2, 10) * SLOTS }, (_, i) => ['/login', 'X-User', `made-up${i}`]),
      )
      expect(await metric(edge.port, 'edge_store_forced_evictions_total')).toBeGreaterThan(SLOTS / 2)
      const left = await ask(
        edge,
        teams.map((team) => ['/api', 'X-Key', team]),
      )
      expect(left).toEqual(teams.map(() => `200 ${9 - used}`))
      await edge.stop()
    }),
    { numRuns: runs(1), examples: [[9, '1mo']] },
  )
})

const BY_MONTH = windowRule('by-key', ['header:x-key'], { limit: 100, period: '1mo' })
const BY_MINUTE_AND_DAY = llmRule('by-key', ['header:x-key'], {
  tokens_per_minute: 1,
  burst_tokens: 1000,
  tokens_per_day: 1000,
  max_completion_tokens: 500,
})

test.each([
  ['keys of a month', 0, BY_MONTH],
  ['keys of a month, beside budgets of others,', 12, BY_MONTH],
  ['keys with two budgets each', 0, BY_MINUTE_AND_DAY],
])('a flood of %s does not switch off limits by the hour', async (_, teams, rule) => {
  const edge = await runningWith(
    MIN_TABLE_BYTES,
    policy('teams', {
      selector: { pathPrefix: '/team' },
      rules: [windowRule('by-team', ['header:x-team'], { limit: 100, period: '1mo' })],
    }),
    policy('budgets', { selector: { pathPrefix: '/api' }, rules: [rule] }),
    LOGINS,
  )
  await ask(
    edge,
    Array.from({ length: teams }, (_, i) => ['/team', 'X-Team', `team${i}`]),
  )
  await ask(
    edge,
    Array.from({ length: 100 }, (_, i) => ['/api', 'X-Key', `made-up${i}`]),
  )
  const logins: Question[] = [0, 1, 0, 1].map((user) => ['/login', 'X-User', `user${user}`])
  expect(await ask(edge, logins)).toEqual(['200 0', '200 0', '429 0', '429 0'])
})

test('a caller for whom live budgets leave no room is admitted without a limit, counted and logged', async () => {
  const rules = ['a', 'b', 'c', 'd'].map((name) => windowRule(name, ['header:x-key'], { limit: 100, period: '1mo' }))
  const edge = await runningWith(MIN_TABLE_BYTES, policy('budgets', { selector: { pathPrefix: '/api' }, rules }), LOGINS)
  const teams: Question[] = Array.from({ length: 8 }, (_, i) => ['/api', 'X-Key', `team${i}`])
  expect(await ask(edge, teams)).toEqual(teams.map(() => '200 99'))
  const logins: Question[] = Array.from({ length: 50 }, (_, i) => ['/login', 'X-User', `user${i % 2}`])
  expect(await ask(edge, logins)).toEqual(logins.map(() => '200 0'))
  expect(await ask(edge, teams)).toEqual(teams.map(() => '200 98'))
  expect(await metric(edge.port, 'edge_store_forced_evictions_total')).toBe(50)
  await edge.stop()
  expect(await untilLogged(edge, 'counters_evicted')).toMatchObject([{ evicted: 50, slots: 32, occupied_slots: 32 }])
})

type Question = readonly [path: string, field: string, value: string]

function runningWith(bytes: number, ...policies: ReturnType<typeof policy>[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock: new ManualClock(), env: { EDGE_STORE_SIZE: String(bytes) } })
}

/** Status and remaining requests of each answer. */
async function ask(edge: Edge, questions: readonly Question[]): Promise<string[]> {
  const client = RawClient.connect(edge.port)
  const answers: string[] = []
  for (let from = 0; from < questions.length; from += AT_ONCE) {
    const some = questions.slice(from, from + AT_ONCE)
    client.send(Buffer.concat(some.map(([path, field, value]) => decisionBytes(original(path, [field, value])))))
    for (const _ of some) {
      const answer = await client.next()
      answers.push(`${answer.status} ${valuesOf(answer, 'ratelimit-remaining')[0]}`)
    }
  }
  return answers
}
