import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FollowedKeySets, keySetText } from '../../../test/support/callers/followed-key-sets.ts'
import { scratchDirectory } from '../../../test/support/service/running.ts'

const ENTRY = { name: 'okta', jwks_file: 'okta.json' }

test('a file is read, and read again when it was replaced', async () => {
  const { followed, path } = await withFile(keySetText('a'))
  const worker = followed.worker(ENTRY)
  await followed.use(ENTRY)
  expect(worker.of('okta')!.has('a')).toBe(true)
  await replace(path, keySetText('b'))
  await followed.untilLogged('key_set_loaded', 2)
  expect([worker.of('okta')!.has('a'), worker.of('okta')!.has('b')]).toEqual([false, true])
  expect(followed.events('key_set_loaded')[1]).toMatchObject({ issuer: 'okta', path, keys: 1 })
})

test('a swap of the link that Kubernetes makes for all files of a volume is one', async () => {
  const { followed, directory } = await withFile(undefined)
  await mkdir(join(directory, '..1'))
  await mkdir(join(directory, '..2'))
  await writeFile(join(directory, '..1', 'okta.json'), keySetText('a'))
  await writeFile(join(directory, '..2', 'okta.json'), keySetText('b'))
  await symlink('..1', join(directory, '..data'))
  await symlink(join('..data', 'okta.json'), join(directory, 'okta.json'))
  const worker = followed.worker(ENTRY)
  await followed.use(ENTRY)
  expect(worker.of('okta')!.has('a')).toBe(true)
  await symlink('..2', join(directory, '..data_tmp'))
  await rename(join(directory, '..data_tmp'), join(directory, '..data'))
  await followed.untilLogged('key_set_loaded', 2)
  expect(worker.of('okta')!.has('b')).toBe(true)
})

test('a file that is gone or no key set leaves the last good one, and nothing of it is logged', async () => {
  const { followed, path } = await withFile(keySetText('a'))
  const worker = followed.worker(ENTRY)
  await followed.use(ENTRY)
  await replace(path, 'sk-secret-of-somebody')
  await followed.untilLogged('key_set_failed', 1)
  await rm(path)
  await followed.untilLogged('key_set_failed', 2)
  expect(worker.of('okta')!.has('a')).toBe(true)
  expect(followed.events('key_set_failed').map(({ problem }) => problem)).toEqual([
    'the key set is not JSON',
    expect.stringContaining('ENOENT'),
  ])
  expect(JSON.stringify(followed.logged)).not.toContain('secret')
  await replace(path, keySetText('a'))
  await followed.untilLogged('key_set_loaded', 2)
})

test('a file that does not exist yet is loaded when it comes', async () => {
  const { followed, path } = await withFile(undefined)
  const worker = followed.worker(ENTRY)
  await followed.use(ENTRY)
  expect(followed.events('key_set_failed')).toHaveLength(1)
  await replace(path, keySetText('a'))
  await followed.untilLogged('key_set_loaded', 1)
  expect(worker.of('okta')!.has('a')).toBe(true)
})

test.each([
  ['a directory', async (path: string) => void (await mkdir(path)), 'it is a directory'],
  ['too large', async (path: string) => writeFile(path, ' '.repeat(1024 * 1024 + 1)), 'it has 1048577 bytes, more than 1048576'],
])('a file that is %s is said', async (_what, make, problem) => {
  const { followed, path } = await withFile(undefined)
  await make(path)
  await followed.use(ENTRY)
  expect(followed.events('key_set_failed')[0]).toMatchObject({ issuer: 'okta', path, problem })
})

test('a token of a new key makes the file be looked at, so that it need not wait for the next look', async () => {
  const { followed, path } = await withFile(keySetText('a'))
  const worker = followed.worker(ENTRY)
  await followed.use(ENTRY)
  followed.advance(1)
  await replace(path, keySetText('a', 'b'))
  expect(await worker.wait('okta', 'b')).toBeUndefined()
  followed.advance(1000)
  expect(await worker.wait('okta', 'x')).toBe('unknown_key')
  followed.advance(999)
  expect(worker.wait('okta', 'x')).toBe('unknown_key')
  expect(worker.wait('okta', 'y')).toBe('keys_unavailable')
})

async function withFile(text: string | undefined): Promise<{ followed: FollowedKeySets; directory: string; path: string }> {
  const directory = await scratchDirectory({ onTestFinished })
  const path = join(directory, 'okta.json')
  if (text !== undefined) await writeFile(path, text)
  return { followed: new FollowedKeySets({ secretsDir: directory }), directory, path }
}

async function replace(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text)
  await rename(`${path}.new`, path)
}
