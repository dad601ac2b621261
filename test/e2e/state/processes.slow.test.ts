import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MIN_TABLE_BYTES } from '../../../src/store/table/table-layout.ts'
import { ADMIN_ENV, adminPortOf } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import type { Cli } from '../../support/service/cli.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { ALL_KINDS, goOnOfEveryKind } from '../../support/state/every-kind.ts'
import { BURST, decide, KeptCounters, take } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

const DAY_MS = 86_400_000
/** A day that ends in the middle of a test would take its budget with it. */
const isNearMidnight = DAY_MS - (Date.now() % DAY_MS) < 300_000
const RULE = { policy: 'p', rule: 'r' }
const ALICE = { ...RULE, values: { 'header:x-caller': 'alice' } }

describe.concurrent('a state file of processes', () => {
  test.skipIf(isNearMidnight)('counters of every kind go on, on another number of workers and in a larger table', async (t) => {
    const kept = await KeptCounters.of(t, ALL_KINDS)
    let starts = 0
    await goOnOfEveryKind(kept, (env) => kept.serve({ ...env, EDGE_WORKERS: starts++ === 1 ? '3' : '1' }))
  })

  test('overrides are there after a crash right after the response; those that were ended, or are over, are not', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await served(kept, '2')
    const block = await first.operator.override({ ...ALICE, block: true })
    expect(block).toMatchObject({ durable: true, in_force: true })
    const ended = await first.operator.override({ ...RULE, values: { 'header:x-caller': 'bob' }, block: true })
    await first.operator.end(ended.id)
    const brief = await first.operator.override({ ...RULE, values: { 'header:x-caller': 'carol' }, block: true, until: '2s' })
    await first.cli.stop('SIGKILL')

    await until(() => new Date().toISOString() > (brief.until as string))
    const second = await served(kept)
    expect(await second.operator.overrides()).toEqual([block])
    // A machine that is busy enough ends it before the crash.
    const over = () => [first, second].flatMap(({ cli }) => cli.logged('override_ended')).filter(({ id }) => id === brief.id)
    await until(() => over().length > 0)
    expect(over()[0]).toMatchObject({ why: 'over' })
    expect((await decide(second.cli, 'X-Caller', 'carol')).status).toBe(200)
    expect(await untilLogged(second.cli, 'overrides_loaded')).toMatchObject([{ overrides: 1 }])
    expect(second.cli.logged('override_set')).toEqual([])
    expect((await decide(second.cli, 'X-Caller', 'alice')).status).toBe(403)
    expect((await decide(second.cli, 'X-Caller', 'bob')).status).toBe(200)
    await second.operator.end(block.id)
    await second.cli.stop('SIGKILL')

    const third = await served(kept)
    expect(await third.operator.overrides()).toEqual([])
    expect((await decide(third.cli, 'X-Caller', 'alice')).status).toBe(200)
    expect((await stat(kept.statePath)).mode & 0o777).toBe(0o600)
  })

  test('a table that is too small is refused by the program too, which names the setting and a size that will do', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    for (let i = 0; i < 40; i++) await take(first, 1, `caller-${i}`)
    await first.stop()
    const problem = await kept.refusal({ EDGE_STORE_SIZE: String(MIN_TABLE_BYTES) })
    expect(problem).toMatch(/^EDGE_STORE_SIZE: \S+ has 40 live counters, and there is no room for 8 of them; \d+ bytes are enough$/)
    const second = await kept.run({ EDGE_STORE_SIZE: /(\d+) bytes are enough/.exec(problem)![1]! })
    expect(second.logged('state_evicted')).toEqual([])
    for (let i = 0; i < 40; i++) expect(await take(second, 1, `caller-${i}`)).toBe(BURST - 2)
  })

  test('one that cannot be one is refused by the program too, which names the setting and leaves nothing behind', async (t) => {
    const kept = await KeptCounters.of(t)
    expect(await kept.refusal({ EDGE_STATE_FILE: kept.stateDirectory })).toBe(
      `EDGE_STATE_FILE: cannot read ${kept.stateDirectory}: it is not a regular file`,
    )
    expect(await readdir(join(kept.stateDirectory, '..'))).toEqual(['bundle.json', 'state'])
  })
})

async function served(kept: KeptCounters, workers = '1'): Promise<{ cli: Cli; operator: Operator }> {
  const cli = await kept.serve({ ...ADMIN_ENV, EDGE_WORKERS: workers })
  return { cli, operator: new Operator(adminPortOf(cli)) }
}
