import { describe, expect, test } from 'vitest'
import { finished } from '../../support/service/running.ts'

describe.concurrent('the program', () => {
  test('names what it does not know, and exits with 1', async (t) => {
    const { status, stdout, stderr } = await finished(['start'], {}, t)
    expect({ status, stdout, stderr }).toEqual({ status: 1, stdout: '', stderr: 'edge: unknown command "start"; see edge --help\n' })
  })

  test('edge serve --help helps although the environment is wrong, and starts nothing', async (t) => {
    const { status, stdout, stderr } = await finished(['serve', '--help'], { EDGE_PORT: 'nonsense' }, t)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toContain('EDGE_PORT')
  })
})
