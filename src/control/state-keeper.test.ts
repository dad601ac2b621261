import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { describe, expect, type TestContext, test } from 'vitest'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { bucketRecord, clockAt, readGood, stateFile, tableOf } from '../../test/support/state/state.ts'
import { until } from '../../test/support/until.ts'
import { acquireStateLock } from '../store/state/state-lock.ts'
import { restore } from '../store/table/table-records.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import { StateKeeper } from './state-keeper.ts'

const CLOCK = clockAt(1000, 1_700_000_000_000)

describe('counters that are kept', () => {
  test('are saved at once, again and again, and in the end', async (t) => {
    const kept = await keeping(t)
    await until(() => kept.saves('saved') > 0)
    expect((await readGood(kept.path, CLOCK)).header.wallMs).toBe(CLOCK.wallMs())
    restore(kept.table, bucketRecord(2, 50, 1000), 1000, CLOCK.wallMs())
    const before = kept.saves('saved')
    await until(() => kept.saves('saved') >= before + 2)
    expect(await kept.counters()).toBe(2)
    restore(kept.table, bucketRecord(3, 50, 1000), 1000, CLOCK.wallMs())
    await kept.keeper.close()
    expect(await kept.counters()).toBe(3)
    expect(kept.log).toEqual([])
    expect(await readdir(kept.directory)).toEqual(['counters'])
  })

  test('are saved again only once a while if nothing has changed, and at the next interval if something has', async (t) => {
    const kept = await keeping(t, undefined, 1)
    await until(() => kept.saves('saved') >= 3)
    expect(kept.looksBefore.slice(0, 3)).toEqual([1, 59, 59])
    const [before, since] = [kept.saves('saved'), kept.keeper.savedUpToMs]
    expect(since).toBe(CLOCK.nowMs())
    restore(kept.table, bucketRecord(2, 50, 1000), 1000, CLOCK.wallMs())
    await until(() => kept.saves('saved') > before)
    await until(async () => (await kept.counters()) === 2)
  })

  test('are saved again when the wall clock was set: the file says when it was written', async (t) => {
    const kept = await keeping(t, undefined, 1)
    await until(() => {
      kept.clock.setMs -= 2000
      return kept.looksBefore.slice(1).some((looks) => looks < 59)
    })
    await until(async () => (await readGood(kept.path, CLOCK)).header.wallMs === kept.clock.wallMs())
  })

  test('are not up to date when a record has changed or is gone, or what is saved beside them has', async (t) => {
    const { file, table } = await keeping(t, undefined, 3_600_000)
    let beside = 'a'
    file.saveWith(() => [[77, Buffer.from(beside)]])
    await file.save()
    expect(file.isUpToDate()).toBe(true)
    beside = 'b'
    expect(file.isUpToDate()).toBe(false)
    await file.save()
    expect(file.isUpToDate()).toBe(true)
    restore(table, bucketRecord(2, 50, 1000), 1000, CLOCK.wallMs())
    expect(file.isUpToDate()).toBe(false)
    await file.save()
    expect(file.isUpToDate()).toBe(true)
    table.forget(Array.from({ length: table.slotCount }, (_, slot) => slot).find((slot) => table.isOccupied(slot))!)
    expect(file.isUpToDate()).toBe(false)
  })

  test('and cannot be saved are told of once, and so is that they are saved again', async (t) => {
    const kept = await keeping(t)
    await until(() => kept.saves('saved') > 0)
    await rename(kept.directory, `${kept.directory}-away`)
    const failed = kept.saves('failed')
    await until(() => kept.saves('failed') >= failed + 3)
    const reason = `cannot write ${kept.path}: no such file or directory`
    expect(kept.log).toMatchObject([{ level: 50, event: 'state_not_saved', path: kept.path, reason }])

    const saved = kept.saves('saved')
    await rename(`${kept.directory}-away`, kept.directory)
    await until(() => kept.saves('saved') >= saved + 3)
    expect(kept.log.slice(1)).toMatchObject([{ level: 30, event: 'state_saved_again', path: kept.path, counters: 1 }])
    expect(await kept.counters()).toBe(1)
  })

  test('and cannot be saved are told of once more in the end, however long that has been known', async (t) => {
    const kept = await keeping(t)
    await until(() => kept.saves('saved') > 0)
    await rename(kept.directory, `${kept.directory}-away`)
    await until(() => kept.saves('failed') >= 3)
    await kept.keeper.close()
    expect(kept.log.map(({ event }) => event)).toEqual(['state_not_saved', 'state_not_saved'])
  })

  test('are saved by one save at a time, however long each takes', async (t) => {
    const kept = await keeping(t, () => sleep(30))
    await until(() => kept.saves('saved') >= 3)
    expect(kept.mostSavesAtOnce()).toBe(1)
  })

  test('are saved at once when somebody waits for it, and told whether they are', async (t) => {
    const kept = await keeping(t, undefined, 3_600_000)
    await until(() => kept.saves('saved') === 1)
    restore(kept.table, bucketRecord(2, 50, 1000), 1000, CLOCK.wallMs())
    expect(await Promise.all([kept.keeper.saveNow(), kept.keeper.saveNow()])).toEqual([true, true])
    expect(await kept.counters()).toBe(2)
    await rename(kept.directory, `${kept.directory}-away`)
    expect(await kept.keeper.saveNow()).toBe(false)
    expect(kept.log).toMatchObject([{ event: 'state_not_saved' }])
  })

  test('are not waited for on a disk that hangs', async (t) => {
    let letGo = (): void => {}
    const hanging = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const kept = await keeping(t, () => hanging, 3_600_000, 500)
    t.onTestFinished(letGo)
    expect(await kept.keeper.saveNow()).toBe(false)
    expect([kept.keeper.savedUpToMs, kept.log]).toEqual([Number.NEGATIVE_INFINITY, []])
  })

  test('are locked again by the next save when somebody has taken the lock away', async (t) => {
    const kept = await keeping(t)
    const [lost] = await kept.locks()
    await rm(join(kept.directory, lost!))
    await until(async () => (await kept.locks()).some((name) => name !== lost && !name.endsWith('~')))
    // Its name is there a moment before it holds.
    const saved = kept.saves('saved')
    await until(() => kept.saves('saved') > saved)
    await expect(acquireStateLock(kept.path)).rejects.toThrow(`${kept.path} is in use by process ${process.pid} on `)
    expect(kept.log).toEqual([])
  })
})

/** A table with one counter, saved every few milliseconds for as long as the test runs; each save begins with a delay. */
async function keeping(t: TestContext, delay = async (): Promise<unknown> => undefined, intervalMs = 10, patienceMs = 600_000) {
  const directory = join(await scratchDirectory(t), 'state')
  const path = join(directory, 'counters')
  await mkdir(directory)
  const log: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) })
  const metrics = new MetricMemory(newMetricBuffer(1), 0)
  const table = tableOf(100, [bucketRecord(1, 50, 1000)], 1000)
  const lock = await acquireStateLock(path)
  const clock = { setMs: 0, nowMs: CLOCK.nowMs, wallMs: () => CLOCK.wallMs() + clock.setMs }
  const file = stateFile(lock.statePath, table, clock)
  let looks = 0
  const looksBefore: number[] = []
  const isUpToDate = file.isUpToDate.bind(file)
  file.isUpToDate = () => {
    looks++
    return isUpToDate()
  }
  const save = file.save.bind(file)
  let [saving, mostSaving] = [0, 0]
  file.save = async () => {
    mostSaving = Math.max(mostSaving, ++saving)
    looksBefore.push(looks)
    looks = 0
    await delay()
    return save().finally(() => saving--)
  }
  const keeper = new StateKeeper({ file, lock, metrics, logger, clock, intervalMs, patienceMs })
  t.onTestFinished(() => keeper.close())
  keeper.start()
  const family = new CounterFamily(metrics, 'edge_state_saves_total')
  return {
    keeper,
    clock,
    /** How often the file was compared with the counters before each save. */
    looksBefore,
    file,
    table,
    directory,
    path,
    log,
    mostSavesAtOnce: () => mostSaving,
    saves: (result: 'saved' | 'failed') => family.series(result).count,
    counters: async () => (await readGood(path, CLOCK)).counters,
    locks: async () => (await readdir(directory)).filter((name) => name.includes('.lock-')),
  }
}
