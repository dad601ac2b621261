import { watch } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import type { Cli } from '../support/service/cli.ts'
import { Load } from '../support/service/load.ts'
import { original } from '../support/service/wire.ts'
import { BURST, HARDLY_ANY, KeptCounters, saves, take } from '../support/state/kept-counters.ts'
import { until } from '../support/until.ts'

const LARGE_BURST = 1_000_000

describe.concurrent('kill -9', () => {
  test('loses at most what was taken after the last save, and leaves the file free', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    await take(first, 50)
    await first.stop()

    const second = await kept.serve()
    await until(async () => (await saves(second)) > 0)
    await take(second, 7)
    await second.stop('SIGKILL')

    const third = await kept.run()
    expectBetween((await take(third)) + 1, BURST - 57, BURST - 50)
    expect(await socketsOf(kept)).toHaveLength(1)
  })

  test('in the middle of saves, once under load: the file always loads, and no older one comes back', async (t) => {
    const kept = await KeptCounters.of(
      t,
      bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], LARGE_BURST, HARDLY_ANY)] })),
    )
    // A table that takes some time to go through
    const env = { EDGE_STORE_SIZE: '256m' }
    const first = await kept.run(env)
    await take(first, 5)
    await first.stop()

    const second = await kept.serve(env)
    const load = new Load(second.port, original('/', ['X-Caller', 'alice']), 4)
    t.onTestFinished(() => load.stop())
    await until(async () => load.total > 0 && (await saves(second)) > 0)
    expect(await killInNextSave(kept, second)).toBe(true)
    await load.stop()
    expect([...load.statuses.keys()]).toEqual([200])

    const third = await kept.serve(env)
    expectLoaded(third)
    // An answer that was on its way when the process died is an error of a lane.
    let left = await take(third, 10)
    expectBetween(left, LARGE_BURST - 15 - load.total - 4, LARGE_BURST - 15)
    third.process.kill('SIGTERM')
    // A machine that stands still may let it finish its last save: then another one is killed.
    for (let last = third; !(await killInNextSave(kept, last)); last.process.kill('SIGTERM')) {
      last = await kept.serve(env)
      expectLoaded(last)
      left = await take(last, 10)
    }

    const fourth = await kept.run(env)
    expectLoaded(fourth)
    expectBetween(await take(fourth), left - 1, left + 10 - 1)
  })

  test('and a second SIGTERM: what was saved stays', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    await take(first, 3)
    await first.stop()

    const second = await kept.serve({ EDGE_DRAIN_MS: '600000' })
    await take(second, 4)
    second.process.kill('SIGTERM')
    await until(() => second.logged('stopping').length > 0)
    expect(await second.stop('SIGTERM')).toBe(1)
    expect(second.logged('stopped')).toEqual([])

    const third = await kept.run()
    expectLoaded(third)
    expectBetween(await take(third), BURST - 8, BURST - 4)
  })
})

/** Kills the process as soon as there is a new file that is not whole yet. Returns whether that was before it ended by itself. */
async function killInNextSave(kept: KeptCounters, cli: Cli): Promise<boolean> {
  const watcher = watch(kept.stateDirectory, (_, name) => {
    if (name?.endsWith('.new')) cli.process.kill('SIGKILL')
  })
  await cli.exited
  watcher.close()
  return cli.process.signalCode === 'SIGKILL'
}

function expectBetween(value: number, least: number, most: number): void {
  expect(value).toBeGreaterThanOrEqual(least)
  expect(value).toBeLessThanOrEqual(most)
}

function expectLoaded(cli: Pick<Cli, 'logged'>): void {
  expect([cli.logged('state_loaded').length, cli.logged('state_set_aside')]).toEqual([1, []])
}

async function socketsOf(kept: KeptCounters): Promise<string[]> {
  return (await readdir(kept.stateDirectory)).filter((name) => name.includes('.lock-'))
}
