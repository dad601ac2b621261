import { expect, test } from 'vitest'
import { withDiskTimeout } from './whole-file.ts'

test('a disk that never answers is not waited for for ever', async () => {
  await expect(withDiskTimeout(new Promise(() => {}), 20)).rejects.toThrow('the disk did not respond within 0.02 s')
})

test('what it answers is passed on, and so is its error', async () => {
  expect(await withDiskTimeout(Promise.resolve(5))).toBe(5)
  await expect(withDiskTimeout(Promise.reject(new Error('EIO')))).rejects.toThrow('EIO')
})
