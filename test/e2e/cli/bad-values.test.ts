import { describe, expect, test } from 'vitest'
import { BAD_VALUES, badEnvironments } from '../../support/service/bad-values.ts'
import { finished } from '../../support/service/running.ts'

// The message for each bad value is tested in src/config/config.test.ts.
describe.concurrent('bad values', () => {
  test('are all named in one message, and nothing listens', async (t) => {
    const { status, stdout, stderr } = await finished(['serve'], badEnvironments()[0], t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    const [heading, ...lines] = stderr.trimEnd().split('\n')
    expect(heading).toBe('edge cannot start:')
    expect(lines.map((line) => line.trim().split(': expected ')[0])).toEqual(BAD_VALUES.map(([variable]) => variable))
  })
})
