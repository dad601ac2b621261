import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { sampleKey } from '../../../test/support/keys/sample-keys.ts'
import { until } from '../../../test/support/until.ts'
import type { IssuedKey } from './issued-key.ts'
import { KeyCopy } from './key-copy.ts'

const LIVE = { size: 0, keys: () => [], revoked: { ids: () => [] } }
const KEYS: readonly IssuedKey[] = Array.from({ length: 500 }, () => sampleKey().key)

describe('a copy of the keys', () => {
  test('keeps no more than a bounded number of keys for a disk that hangs, and is written anew when that responds', async () => {
    const disk = new ScriptedDisk()
    const copy = copyOn(disk)
    const resume = disk.hang()
    const first = copy.save(KEYS)
    await until(() => disk.calls.length === 1)
    // Nobody waits for a disk that is known to hang.
    for (let i = 0; i < 30; i++) await copy.save(KEYS)
    await copy.saveSynced(1)
    resume()
    await first
    await until(() => disk.calls.length === 3)
    expect(disk.calls).toEqual(['append 500', 'rewrite', 'synced 1'])
    await copy.save(KEYS)
    expect(disk.calls.slice(3)).toEqual(['append 500'])
  })

  test('has what came while the disk hung, as long as that is not too much', async () => {
    const disk = new ScriptedDisk()
    const copy = copyOn(disk)
    const resume = disk.hang()
    const first = copy.save(KEYS)
    await until(() => disk.calls.length === 1)
    for (let i = 0; i < 4; i++) await copy.save(KEYS)
    resume()
    await first
    await until(() => disk.calls.length === 2)
    expect(disk.calls).toEqual(['append 500', 'append 2000'])
  })

  test('does not say that it is complete while it lacks something, and is completed later', async () => {
    const disk = new ScriptedDisk()
    const logged: string[] = []
    const copy = copyOn(disk, logged)
    disk.isFull = true
    await copy.save(KEYS)
    await copy.save(KEYS)
    await copy.saveSynced(1)
    expect(disk.calls).toEqual(['append 500', 'rewrite', 'rewrite'])
    expect(logged).toEqual(['keys_not_written no space left'])
    disk.isFull = false
    copy.retry()
    await until(() => disk.calls.length === 5)
    expect(disk.calls.slice(3)).toEqual(['rewrite', 'synced 1'])
    copy.retry()
    await copy.close()
    expect(disk.calls.slice(5)).toEqual(['close'])
  })

  test('does not write all keys again and again to a disk that is full', async () => {
    const disk = new ScriptedDisk()
    const copy = new KeyCopy({ journal: disk, live: LIVE, logger: pino({ level: 'silent' }) })
    disk.isFull = true
    for (let i = 0; i < 5; i++) {
      await copy.save(KEYS)
      copy.retry()
    }
    expect(disk.calls).toEqual(['append 500'])
  })
})

function copyOn(journal: ScriptedDisk, logged: string[] = []): KeyCopy {
  const write = (line: string): void => {
    const { event, reason } = JSON.parse(line) as Record<string, string>
    logged.push(`${event} ${reason}`)
  }
  return new KeyCopy({ journal, live: LIVE, logger: pino({}, { write }), retryMs: 0 })
}

/** A journal that notes what it is asked to do. */
class ScriptedDisk {
  readonly calls: string[] = []
  isFull = false
  #hanging: Promise<void> | undefined

  /** Returns what ends it. */
  hang(): () => void {
    let resume = (): void => {}
    this.#hanging = new Promise((resolve) => {
      resume = () => {
        this.#hanging = undefined
        resolve()
      }
    })
    return resume
  }

  isSlow(): boolean {
    return this.#hanging !== undefined && this.calls.length > 0
  }

  append(keys: readonly IssuedKey[]): Promise<void> {
    return this.#do(`append ${keys.length}`)
  }

  rewrite(): Promise<void> {
    return this.#do('rewrite')
  }

  appendSynced(wallMs: number): Promise<void> {
    return this.#do(`synced ${wallMs}`)
  }

  async close(): Promise<void> {
    this.calls.push('close')
  }

  async #do(call: string): Promise<void> {
    this.calls.push(call)
    await this.#hanging
    if (this.isFull) throw new Error('no space left')
  }
}
