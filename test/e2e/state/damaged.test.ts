import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { untilLogged } from '../../support/service/until-logged.ts'
import { BURST, KeptCounters, take } from '../../support/state/kept-counters.ts'

const DAMAGES: readonly (readonly [kind: string, damaged: (good: Buffer) => Buffer, reason: string])[] = [
  ['a changed byte', (good) => withByte(good, 60, good[60]! ^ 1), 'its checksum is wrong: it was truncated or changed'],
  ['cut off in a record', (good) => good.subarray(0, 50), 'it is truncated'],
  ['empty', () => Buffer.alloc(0), 'it is not a state file'],
  ['text', () => Buffer.from('{"counters":{}}\n'), 'it is not a state file'],
  ['another version', (good) => withByte(good, 8, 3), 'its format is version 3, and this program knows versions 1 to 2'],
]

test('a file that is not to be trusted is kept under another name, and all counters start full', async (t) => {
  const kept = await KeptCounters.of(t)
  const first = await kept.run()
  await take(first, 5)
  await take(first, 5, 'bob')
  await first.stop()

  const setAside: string[] = []
  for (const [kind, damaged, reason] of DAMAGES) {
    const bytes = damaged(await readFile(kept.statePath))
    await writeFile(kept.statePath, bytes)
    const cli = await kept.run()
    const told = await untilLogged(cli, 'state_set_aside')
    expect(told, kind).toMatchObject([{ level: 40, path: kept.statePath, reason }])
    const keptAs = told[0]!['kept_as'] as string
    setAside.push(keptAs)
    expect((await readFile(keptAs)).equals(bytes), kind).toBe(true)
    expect([await take(cli, 2), await take(cli, 2, 'bob')], kind).toEqual([BURST - 2, BURST - 2])
    // And what is saved now is good again, for the next kind to spoil.
    await cli.stop()
  }
  const last = await kept.run()
  expect(last.logged('state_set_aside')).toEqual([])
  expect(await take(last)).toBe(BURST - 3)
  // A save may be under way.
  const files = (await readdir(kept.stateDirectory)).filter((name) => !name.includes('.lock-') && !name.endsWith('.new'))
  expect(files.sort()).toEqual([kept.statePath, ...setAside].map((path) => basename(path)).sort())
  expect(new Set(setAside).size).toBe(DAMAGES.length)
})

function withByte(bytes: Buffer, at: number, value: number): Buffer {
  const changed = Buffer.from(bytes)
  changed[at] = value
  return changed
}
