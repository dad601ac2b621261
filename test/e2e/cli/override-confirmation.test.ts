import { PassThrough } from 'node:stream'
import { describe, expect, test, vi } from 'vitest'
import { AdminClient } from '../../../src/cli/admin/admin-client.ts'
import { type AskingTerminal, override, showConfirmed } from '../../../src/cli/admin/override.ts'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { until } from '../../support/until.ts'

const { api } = useStubApi()

const ALL = 'api per-key --all --block --until 2h --reason x --json'
const ONE = 'api per-key k=v --block --until 2h --reason x --json'

describe('an override for all callers, on a terminal', () => {
  test.each(['y', 'Y', 'yes', ' y '])('is made after the answer %j', async (answer) => {
    const { shown, terminal } = asking(ALL)
    await until(() => terminal.written.endsWith('Go on? [y/N] '))
    expect(terminal.written).toContain('This is for all callers:\n  covers  policy api, rule per-key, all callers;')
    expect(api().requests.map(({ url }) => url)).toEqual(['/admin/v1/overrides/preview'])
    terminal.stdin.write(`${answer}\n`)
    await shown
    expect(api().requests.map(({ url }) => url)).toEqual(['/admin/v1/overrides/preview', '/admin/v1/overrides'])
  })

  test.each(['', 'n', 'no', 'yy', 'block'])('is not made after the answer %j', async (answer) => {
    const { shown, terminal } = asking(ALL)
    await until(() => terminal.written.endsWith('Go on? [y/N] '))
    terminal.stdin.write(`${answer}\n`)
    await expect(shown).rejects.toThrow('nothing was changed')
    expect(api().requests.map(({ url }) => url)).toEqual(['/admin/v1/overrides/preview'])
  })

  test('is not made where the input ends', async () => {
    const { shown, terminal } = asking(ALL)
    terminal.stdin.end()
    await expect(shown).rejects.toThrow('nothing was changed')
    expect(api().requests).toHaveLength(1)
  })

  test('is made without a question with --yes', async () => {
    const { shown, terminal } = asking(`${ALL} --yes`)
    await shown
    expect(terminal.written).toContain('This is for all callers:')
    expect(terminal.written).not.toContain('Go on?')
    expect(api().requests).toHaveLength(2)
  })
})

test.each([
  ['the input', { stdin: false, stderr: true }],
  ['standard error', { stdin: true, stderr: false }],
])('nobody is asked where %s is no terminal, but what is covered is said', async (_what, isTty) => {
  const { shown, terminal } = asking(ALL, isTty)
  await shown
  expect(terminal.written).toContain('This is for all callers:')
  expect(terminal.written).not.toContain('Go on?')
  expect(api().requests).toHaveLength(2)
})

test('an override for one caller is made without a question', async () => {
  const { shown, terminal } = asking(ONE)
  await shown
  expect(terminal.written).toBe('')
  expect(api().requests.map(({ url }) => url)).toEqual(['/admin/v1/overrides'])
})

/** The command at a terminal, and what it wrote there. */
function asking(line: string, isTty = { stdin: true, stderr: true }) {
  const limits = { effect: 'limits', limits: [{ kind: 'bucket', limit: 60, text: '60 requests per minute' }] }
  const covers = { callers: 'all', policies: 1, decided_last_minute: 7 }
  api().says({ policy: 'api', rule: 'per-key', values: null, until: 'T', replaces: null, covers, before: limits, after: limits })
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  const terminal = new FakeTerminal(isTty)
  const client = new AdminClient({ base: new URL(`${api().url}/`), token: ADMIN_TOKEN, actor: undefined })
  const shown = showConfirmed(client, override.read(line.split(' ')), terminal).finally(() => write.mockRestore())
  return { shown, terminal }
}

class FakeTerminal implements AskingTerminal {
  readonly stdin: PassThrough & { isTTY?: boolean }
  readonly stderr: PassThrough & { isTTY?: boolean }
  written = ''

  constructor(isTty: { readonly stdin: boolean; readonly stderr: boolean }) {
    this.stdin = Object.assign(new PassThrough(), { isTTY: isTty.stdin })
    this.stderr = Object.assign(new PassThrough(), { isTTY: isTty.stderr })
    this.stderr.on('data', (chunk: Buffer) => {
      this.written += chunk.toString()
    })
  }
}
