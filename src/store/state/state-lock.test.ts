import { once } from 'node:events'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { expectOneWinnerEachRound } from '../../../test/support/state/lock-rivals.ts'
import { newFolder } from '../../../test/support/state/state.ts'
import { StateFault } from './state-format.ts'
import { acquireStateLock, StateInUse, type StateLock } from './state-lock.ts'

describe('a lock', () => {
  test('is one process’s until it lets go, and then leaves nothing behind', async () => {
    const folder = await newFolder()
    const path = join(folder, 'state')
    const lock = await acquireStateLock(path)
    const refused = acquireStateLock(path)
    await expect(refused).rejects.toBeInstanceOf(StateInUse)
    await expect(refused).rejects.toMatchObject({ pid: process.pid })
    expect(await readdir(folder)).toHaveLength(1)
    await lock.release()
    expect(await readdir(folder)).toEqual([])
    await (await acquireStateLock(path)).release()
  })

  test('of one file is no lock of another, whose name begins with it', async () => {
    const folder = await newFolder()
    await hold(join(folder, 'state'))
    await hold(join(folder, 'state2'))
    await hold(join(folder, 'state.lock-'))
  })

  test.each(['a link to the file', 'a link to its folder', 'a link to a file that is not there yet'])('is the same by %s', async (name) => {
    const folder = await newFolder()
    await mkdir(join(folder, 'real'))
    if (name === 'a link to the file') await writeFile(join(folder, 'real/state'), '')
    await symlink('real', join(folder, 'folder'))
    await symlink('folder/state', join(folder, 'link'))
    const lock = await hold(join(folder, 'real/state'))
    const other = join(folder, name === 'a link to its folder' ? 'folder/state' : 'link')
    await expect(acquireStateLock(other)).rejects.toBeInstanceOf(StateInUse)
    await lock.release()
    expect((await hold(other)).statePath).toBe(lock.statePath)
  })

  test.each([
    ['a folder', `${'deep-'.repeat(20)}/${'deeper-'.repeat(20)}`, 'state'],
    ['a file', '', `${'näme-'.repeat(40)}`],
    ['both', 'deep-'.repeat(40), 'name-'.repeat(48)],
  ])('holds for %s with a long name', async (_, folder, name) => {
    const path = join(await newFolder(), folder, name)
    await mkdir(dirname(path), { recursive: true })
    const lock = await hold(path)
    await expect(acquireStateLock(path)).rejects.toMatchObject({ pid: process.pid })
    await lock.release()
    expect(await readdir(dirname(path))).toEqual([])
  })

  test('answers on, whatever those who connect to it do', async () => {
    const path = join(await newFolder(), 'state')
    await hold(path)
    const socketPath = join(dirname(path), (await readdir(dirname(path)))[0]!)
    const silent = Array.from({ length: 20 }, () => connect({ path: socketPath, allowHalfOpen: true }))
    const rude = connect(socketPath, () => rude.destroy())
    const loud = connect(socketPath, () => loud.write(Buffer.alloc(1_000_000)))
    for (const client of [...silent, rude, loud]) client.on('error', () => {})
    await Promise.all(silent.map((client) => once(client, 'connect')))
    await expect(acquireStateLock(path)).rejects.toMatchObject({ pid: process.pid })
    for (const client of silent) client.resume()
    await Promise.all(silent.map((client) => client.readableEnded || once(client, 'end')))
    for (const client of [...silent, loud]) client.destroy()
  })

  test('is refused while somebody is there who does not say who it is', async () => {
    const path = join(await newFolder(), 'state')
    const server = createServer(() => {}).listen(`${path}.lock-0123456789abcdef`)
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    await expect(acquireStateLock(path)).rejects.toThrow(`${path} is in use by another process`)
  })

  test.each([
    ['ENOENT', 'missing/state', 'no such file or directory'],
    ['ENOTDIR', 'file/state', 'not a directory'],
  ])('that cannot be made is told with its code: %s', async (code, path, reason) => {
    const folder = await newFolder()
    await writeFile(join(folder, 'file'), '')
    const refused = acquireStateLock(join(folder, path))
    await expect(refused).rejects.toBeInstanceOf(StateFault)
    await expect(refused).rejects.toMatchObject({ code, message: expect.stringContaining(reason) })
  })

  test('goes to exactly one of many in one process, time and again', async () => {
    await expectOneWinnerEachRound(join(await newFolder(), 'state'), 2)
  })

  test('is not looked for among files that happen to have such a name', async () => {
    const folder = await newFolder()
    await writeFile(join(folder, 'state.lock-0123456789abcdef'), 'mine')
    await hold(join(folder, 'state'))
    expect(await readdir(folder)).toContain('state.lock-0123456789abcdef')
  })
})

async function hold(path: string): Promise<StateLock> {
  const lock = await acquireStateLock(path)
  onTestFinished(() => lock.release())
  return lock
}
