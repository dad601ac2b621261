import { readdir, rename, utimes } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { expectOneWinner, LockProcess } from '../../../test/support/state/lock-rivals.ts'
import { newFolder } from '../../../test/support/state/state.ts'
import { askListener } from './lock-socket.ts'
import { acquireStateLock, type StateLock } from './state-lock.ts'

describe('a lock among processes', () => {
  test('is refused to the second, which hears who has it, and free at once when the first is killed', async () => {
    const path = join(await newFolder(), 'state')
    const first = await LockProcess.start(path)
    expect(await first.lock()).toBe('holds')
    await expect(acquireStateLock(path)).rejects.toThrow(`${path} is in use by process ${first.pid} on `)
    await first.kill()
    const lock = await hold(path)
    expect(await readdir(dirname(path))).toHaveLength(1)
    await lock.release()
  })

  test('names its holder also to a process that stood still while the reply came', async () => {
    const path = join(await newFolder(), 'state')
    const holder = await LockProcess.start(path)
    expect(await holder.lock()).toBe('holds')
    const [name] = await readdir(dirname(path))
    const asked = askListener(join(dirname(path), name!))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)
    expect(await asked).toMatchObject({ intent: 'holds', pid: holder.pid })
  })

  test('does not keep a process alive', async () => {
    const path = join(await newFolder(), 'state')
    const holder = await LockProcess.start(path)
    expect(await holder.lock()).toBe('holds')
    expect(await holder.endInput()).toBe(0)
    await hold(path)
  })

  test('goes to exactly one of several that start at once over a dead one', async () => {
    await expectOneWinner(join(await newFolder(), 'state'), 6)
  })

  test('takes away what a process left that was killed before its socket had a name, when that is long ago', async () => {
    const path = join(await newFolder(), 'state')
    const holder = await LockProcess.start(path)
    expect(await holder.lock()).toBe('holds')
    await holder.kill()
    const [name] = await readdir(dirname(path))
    const left = join(dirname(path), `${name}~`)
    await rename(join(dirname(path), name!), left)
    await (await acquireStateLock(path)).release()
    expect(await readdir(dirname(path))).toEqual([basename(left)])
    await utimes(left, 0, 0)
    await (await acquireStateLock(path)).release()
    expect(await readdir(dirname(path))).toEqual([])
  })
})

async function hold(path: string): Promise<StateLock> {
  const lock = await acquireStateLock(path)
  onTestFinished(() => lock.release())
  return lock
}
