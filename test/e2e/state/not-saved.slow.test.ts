import { rename } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { forbidWriting, smallDisk } from '../../support/state/faulty-disk.ts'
import { BURST, KeptCounters, saves, take } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

// How often it is told, and that it is told when they are saved again: src/control/state-keeper.test.ts.
describe.concurrent('counters that cannot be saved', () => {
  test('because their directory has gone do not keep it from serving, nor from stopping', async (t) => {
    const kept = await KeptCounters.of(t)
    await spendAndStop(kept)
    const cli = await servingSaved(kept)
    await rename(kept.stateDirectory, `${kept.stateDirectory}-away`)
    await expectUnsavedStop(kept, cli, 'no such file or directory')
    await rename(`${kept.stateDirectory}-away`, kept.stateDirectory)
    await expectSpent(kept)
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
  const edge = await kept.run()
  await take(edge, 3)
  await edge.stop()
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
  expect(await take(await kept.run())).toBe(BURST - 4)
}
