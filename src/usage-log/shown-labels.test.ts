import { expect, test } from 'vitest'
import { shownLabels } from './shown-labels.ts'

const DIGEST = (values: readonly string[]): string => `digest of ${values.join().length} characters`

test.each(['bearer', 'cookie:sid', 'header:authorization', 'header:x-api-key', 'header:api-key', 'header:x-goog-api-key', 'query:key'])(
  'the value of %s, which may be a key, is written as a digest',
  (key) => {
    expect(shownLabels({ [key]: 'sk-secret' }, DIGEST)).toEqual({ [key]: 'digest of 9 characters' })
  },
)

test('a value of a megabyte is cut, and no character in two', () => {
  const { 'header:x-a': long } = shownLabels({ 'header:x-a': 'x'.repeat(1024 * 1024) }, DIGEST)
  expect(long).toBe('x'.repeat(256))
  const { 'header:x-a': emoji } = shownLabels({ 'header:x-a': `x${'😀'.repeat(200)}` }, DIGEST)
  expect(emoji).toBe(`x${'😀'.repeat(127)}\ufffd`)
})
