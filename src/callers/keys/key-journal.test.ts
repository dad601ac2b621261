import { appendFile, copyFile, type FileHandle, open, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { keyTable, NOON_MS, sampleKey } from '../../../test/support/keys/sample-keys.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { smallDisk } from '../../../test/support/state/faulty-disk.ts'
import { newFolder } from '../../../test/support/state/state.ts'
import { encodeKey, type IssuedKey, isLaterKey } from './issued-key.ts'
import { lineOf } from './key-file-seal.ts'
import { KeyFileFault, KeyJournal } from './key-journal.ts'

const ONE = sampleKey({ labels: { user: 'ada, "é"' } }).key
const TWO = sampleKey({ expiresMs: NOON_MS + 1 }).key
const CHANGED: IssuedKey = { ...TWO, labels: { team: 'other' }, momentMs: NOON_MS + 2, edit: { actor: 'eve', reason: 'moved' } }
const REVOKED: IssuedKey = { ...ONE, isRevoked: true, momentMs: NOON_MS + 3, edit: { actor: 'eve', reason: 'leaked' } }
const NONE = { size: 0, keys: () => [], revoked: { ids: () => [] } }

describe('a journal', () => {
  test('has what was written to it, the last state of each key, and is for its owner alone', async () => {
    const path = join(await newFolder(), 'keys')
    const { journal } = await openAt(path)
    await journal.append([ONE, TWO], NONE)
    await journal.append([CHANGED, REVOKED], NONE)
    await journal.close()
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    const { keys } = await openAt(path)
    expect([...keys.values()].map(encodeKey).sort()).toEqual([CHANGED, REVOKED].map(encodeKey).sort())
  })

  test('that a killed process left torn at any byte of its last line has all that was there before', async () => {
    const path = join(await newFolder(), 'keys')
    const first = await openAt(path)
    await first.journal.append([ONE], NONE)
    const { length } = await readFile(path)
    await first.journal.append([CHANGED], NONE)
    await first.journal.close()
    const whole = await readFile(path)
    for (let end = length; end < whole.length; end += sized(40, 1)) {
      await writeFile(path, whole.subarray(0, end))
      const torn = await openAt(path)
      expect([...torn.keys.keys()]).toEqual([ONE.id])
      expect(torn.journal.lost).toEqual({ bytes: whole.length - length, lines: 1 })
      await torn.journal.append([TWO], NONE)
      await torn.journal.close()
      const after = await openAt(path)
      expect([...after.keys.keys()]).toEqual([ONE.id, TWO.id])
      await after.journal.close()
    }
  })

  test('that a killed process left with a line that nobody was told of has all that was there before, and misses nothing', async () => {
    const path = join(await newFolder(), 'keys')
    const first = await openAt(path)
    await first.journal.append([ONE], NONE)
    await first.journal.close()
    await appendFile(path, lineOf(encodeKey(TWO)).slice(0, -20))
    const { journal, keys } = await openAt(path)
    expect([[...keys.keys()], journal.lost]).toEqual([[ONE.id], undefined])
  })

  test('knows the keys that were ever revoked after it was replaced', async () => {
    const path = join(await newFolder(), 'keys')
    const ids = Array.from({ length: 2500 }, () => sampleKey().key.id)
    const { journal } = await openAt(path)
    await journal.rewrite({ ...NONE, revoked: { ids: () => ids } })
    await journal.close()
    expect((await openAt(path)).revoked.sort()).toEqual(ids.sort())
  })

  test('of which only a part of the first line was written is new', async () => {
    const path = join(await newFolder(), 'keys')
    await writeFile(path, 'f54d')
    const { journal, keys } = await openAt(path)
    expect(keys.size).toBe(0)
    await journal.append([ONE], NONE)
    await journal.close()
    expect((await openAt(path)).keys.size).toBe(1)
  })

  test.each<[string, (text: string) => string, string]>([
    ['a line is damaged', (text) => text.replace('search', 'staff!'), 'line 2: it is damaged. Restore the file from a backup'],
    ['the last line is damaged', (text) => text.replace('"eve"', '"bob"'), 'line 4: it is damaged'],
    ['a line is missing its end', (text) => text.replace('\n', ''), 'line 1: this is not a file of keys'],
    ['it is another file', () => 'name: edge\n', 'line 1: this is not a file of keys'],
    [
      'lines have changed places',
      (text) => text.replace(/\n(.*)\n(.*)\n(.*)\n$/, '\n$2\n$1\n$3\n'),
      'line 4: this line, or one before it, was replaced',
    ],
    ['it has an empty line', (text) => `${text}\n`, 'line 5: it is damaged'],
    ['it never ends', () => 'x'.repeat(3_000_000), 'line 1: it has no end'],
    ['a newer version began it', () => lineOf('{"edge_keys":3}'), 'line 1: a newer version of edge wrote it'],
  ])('where %s refuses the start with a sentence, and stays as it is', async (_, damaged, sentence) => {
    const path = join(await newFolder(), 'keys')
    const { journal } = await openAt(path)
    await journal.append([sampleKey().key, ONE, CHANGED], NONE)
    await journal.close()
    const text = damaged(await readFile(path, 'utf8'))
    await writeFile(path, text)
    await expect(openAt(path)).rejects.toThrow(KeyFileFault)
    await expect(openAt(path)).rejects.toThrow(sentence)
    expect(await readFile(path, 'utf8')).toBe(text)
  })

  test('is used by one process at a time', async () => {
    const path = join(await newFolder(), 'keys')
    const { journal } = await openAt(path)
    await expect(openAt(path)).rejects.toThrow(`${path} is in use by process ${process.pid}`)
    await journal.close()
    await openAt(path)
  })

  test('is not made where there is no folder, or where a folder is', async () => {
    const folder = await newFolder()
    await expect(openAt(join(folder, 'none', 'keys'))).rejects.toThrow(KeyFileFault)
    await expect(openAt(folder)).rejects.toThrow(`${folder} is not a file`)
  })

  test('is replaced when most of its lines no longer count', async () => {
    const path = join(await newFolder(), 'keys')
    const { table } = keyTable(10)
    const { journal } = await openAt(path)
    for (let i = 0; i < 40; i++) {
      const states = Array.from({ length: 100 }, (_, j) => ({ ...TWO, momentMs: NOON_MS + i * 100 + j }))
      await journal.append(states, table)
      table.put(states.at(-1)!)
    }
    await journal.close()
    expect((await readFile(path, 'utf8')).split('\n').length).toBeLessThan(1500)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await openAt(path)).keys.get(TWO.id)!.momentMs).toBe(NOON_MS + 3999)
  })

  test('does not say again that something is missing if that was acknowledged while it was replaced', async () => {
    const path = join(await newFolder(), 'keys')
    const first = await openAt(path)
    await first.journal.append([ONE, TWO], NONE)
    await first.journal.close()
    await truncate(path, (await stat(path)).size - 10)
    const { journal } = await openAt(path)
    expect(journal.lost).toMatchObject({ lines: 1 })
    let acknowledged = Promise.resolve()
    // The whole new file has been written, and is not in its place yet.
    await onNextSync(path, () => {
      acknowledged = journal.acknowledgeLoss()
    })
    await journal.rewrite(NONE)
    await acknowledged
    const copy = `${path}-copy`
    await copyFile(path, copy)
    await journal.close()
    for (const each of [path, copy]) expect((await openAt(each)).journal.lost).toBeUndefined()
  })

  test('on a full disk refuses what does not fit, keeps what it has, and goes on once there is room', async (t) => {
    const folder = await newFolder()
    const disk = smallDisk(folder, t)
    const path = join(folder, 'keys')
    const { journal } = await openAt(path)
    const { table } = keyTable(10)
    await journal.append([ONE], table)
    table.put(ONE)
    disk.fill()
    const many = Array.from({ length: 100 }, () => sampleKey().key)
    await expect(journal.append(many, table)).rejects.toThrow('no space left')
    await expect(journal.append(many, table)).rejects.toThrow('no space left')
    await writeFile(join(folder, 'filler-0'), '')
    await writeFile(join(folder, 'filler-1'), '')
    await journal.append([TWO], table)
    await journal.close()
    expect([...(await openAt(path)).keys.keys()].sort()).toEqual([ONE.id, TWO.id].sort())
  })
})

/** Calls `act` when this process next syncs a file. */
async function onNextSync(path: string, act: () => void): Promise<void> {
  const handle = await open(path)
  const methods = Object.getPrototypeOf(handle) as FileHandle
  await handle.close()
  const { sync } = methods
  onTestFinished(() => {
    methods.sync = sync
  })
  methods.sync = function (this: FileHandle) {
    methods.sync = sync
    act()
    return sync.call(this)
  }
}

async function openAt(path: string) {
  const keys = new Map<string, IssuedKey>()
  const revoked: string[] = []
  const note = (key: IssuedKey) => {
    if (isLaterKey(key, keys.get(key.id))) keys.set(key.id, key)
  }
  const journal = await KeyJournal.open(path, { expect() {}, note, noteRevoked: (id) => void revoked.push(id), noteSynced() {} })
  onTestFinished(() => journal.close().catch(() => {}))
  return { journal, keys, revoked }
}
