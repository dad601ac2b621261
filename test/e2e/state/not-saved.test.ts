import { rename } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { forbidWriting, smallDisk } from '../../support/state/faulty-disk.ts'
import { BURST, KeptCounters, saves, take } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

describe.concurrent('counters that cannot be saved', { timeout: 60_000 }, () => {
  test('are told of once, the service goes on, and says when they are saved again', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await servingSaved(kept)
    await rename(kept.stateDirectory, `${kept.stateDirectory}-away`)
    await until(async () => (await saves(first, 'failed')) === 1)
    expect(await take(first, 3)).toBe(BURST - 3)
    await until(async () => (await saves(first, 'failed')) === 2)
    expect(first.logged('state_not_saved')).toMatchObject([
      { level: 'error', path: kept.statePath, reason: `cannot write ${kept.statePath}: no such file or directory` },
    ])
    expect(await saves(first)).toBe(1)

    await rename(`${kept.stateDirectory}-away`, kept.stateDirectory)
    expect(first.logged('state_saved_again')).toEqual([])
    expect(await first.stop()).toBe(0)
    expect(first.logged('state_saved_again')).toMatchObject([{ level: 'info', path: kept.statePath, counters: 1 }])
    const second = await kept.serve()
    expect(await take(second)).toBe(BURST - 4)
  })

  test('for want of room on the disk do not keep it from starting, nor from stopping, and the file from before stays', async (t) => {
    const kept = await KeptCounters.of(t)
    const disk = smallDisk(kept.stateDirectory, t)
    await spendAndStop(kept)
    disk.fill()
    await expectUnsavedStop(kept, await kept.serve(), 'no space left on device')
    await expectSpent(kept)
  })

  test('on a disk that has become read-only do not keep it from stopping, and the file from before stays', async (t) => {
    const kept = await KeptCounters.of(t)
    const disk = smallDisk(kept.stateDirectory, t)
    await spendAndStop(kept)
    const cli = await servingSaved(kept)
    disk.makeReadOnly()
    await expectUnsavedStop(kept, cli, 'read-only file system')
    expect(await kept.refusal()).toBe(`EDGE_STATE_FILE: cannot lock ${kept.statePath}: read-only file system`)
  })

  test('are told of once more in the end, however long that has been known', async (t) => {
    const kept = await KeptCounters.of(t)
    const cli = await servingSaved(kept)
    await rename(kept.stateDirectory, `${kept.stateDirectory}-away`)
    await until(() => cli.logged('state_not_saved').length === 1)
    expect(await cli.stop()).toBe(0)
    const stopping = cli.log.findIndex(({ event }) => event === 'stopping')
    expect(cli.log.slice(stopping).map(({ event }) => event)).toEqual(['stopping', 'state_not_saved', 'stopped'])
  })

  test('for any other reason do not keep it from stopping either, and the file from before stays', async (t) => {
    const kept = await KeptCounters.of(t)
    await spendAndStop(kept)
    const cli = await servingSaved(kept)
    forbidWriting(cli.process.pid!, t)
    await expectUnsavedStop(kept, cli, 'file too large')
    await expectSpent(kept)
  })
})

/** A process that has saved for the first time, as it does when it starts. */
async function servingSaved(kept: KeptCounters): Promise<Cli> {
  const cli = await kept.serve()
  await until(async () => (await saves(cli)) === 1)
  return cli
}

async function spendAndStop(kept: KeptCounters): Promise<void> {
  const cli = await kept.serve()
  await take(cli, 3)
  expect(await cli.stop()).toBe(0)
}

async function expectUnsavedStop(kept: KeptCounters, cli: Cli, reason: string): Promise<void> {
  expect(await take(cli, 2)).toBe(BURST - 5)
  expect(await cli.stop()).toBe(0)
  expect(cli.log.slice(-2)).toMatchObject([
    { level: 'error', event: 'state_not_saved', reason: `cannot write ${kept.statePath}: ${reason}` },
    { event: 'stopped' },
  ])
}

async function expectSpent(kept: KeptCounters): Promise<void> {
  expect(await take(await kept.serve())).toBe(BURST - 4)
}
