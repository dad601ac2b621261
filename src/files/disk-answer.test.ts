import { expect, test } from 'vitest'
import { diskAnswer } from './disk-answer.ts'

test('a disk that never answers is not waited for for ever', async () => {
  await expect(diskAnswer(new Promise(() => {}), 20)).rejects.toThrow('the disk did not respond within 0.02 s')
})

test('what it answers is passed on, and so is its error', async () => {
  expect(await diskAnswer(Promise.resolve(5))).toBe(5)
  await expect(diskAnswer(Promise.reject(new Error('EIO')))).rejects.toThrow('EIO')
})
