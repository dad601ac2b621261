import { EventEmitter } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { AdminClient } from '../../../src/cli/admin/admin-client.ts'
import { showRepeatedly, type Terminal, top } from '../../../src/cli/admin/top.ts'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { topResponse } from '../../support/admin/top.ts'
import { until } from '../../support/until.ts'

const { api } = useStubApi()

describe('edge top on a terminal', () => {
  test.each(['q', 'Q', '\x03'])('refreshes until %j, and leaves the terminal as it was', async (key) => {
    api().says(topOf('alice'))
    const terminal = new FakeTerminal()
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('alice'))
    expect(terminal.isRaw).toBe(true)
    api().says(topOf('\x1b[31mbob'))
    await until(() => terminal.written.includes('\\u{1b}[31mbob'))
    terminal.press(key)
    await shown
    expect(terminal.isRaw).toBe(false)
    expect(terminal.written.startsWith('\x1b[?1049h\x1b[?25l')).toBe(true)
    expect(terminal.written.endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
    expect(terminal.listenerCount('data')).toBe(0)
  })

  test('fits its rows and columns', async () => {
    api().says(topOf('x'.repeat(500), 100))
    const terminal = new FakeTerminal()
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('xxx'))
    terminal.press('q')
    await shown
    const [, frame] = terminal.written.split('\x1b[H')
    const lines = frame!.replaceAll('\x1b[K', '').split('\x1b[J')[0]!.split('\r\n')
    expect(lines).toHaveLength(terminal.stdout.rows)
    expect(Math.max(...lines.map((line) => line.length))).toBe(terminal.stdout.columns)
    expect(lines.at(-1)).toBe('q quits')
  })

  test('a terminal that does not know its size', async () => {
    api().says(topOf('alice'))
    const terminal = new FakeTerminal()
    Object.assign(terminal.stdout, { rows: 0, columns: 0 })
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('alice'))
    terminal.press('q')
    await shown
  })

  test('keeps trying while the service is away', async () => {
    api().says(topOf('alice'))
    const terminal = new FakeTerminal()
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('alice'))
    api().says({ error: { message: 'Redis is away', code: 'store_unavailable' } }, 503)
    await until(() => terminal.written.includes('Redis is away (store_unavailable); q quits'))
    api().says(topOf('bob'))
    await until(() => terminal.written.includes('bob'))
    terminal.press('q')
    await shown
  })

  test('ends at once while the service is slow', async () => {
    api().says(topOf('alice'))
    const terminal = new FakeTerminal()
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('alice'))
    const asked = api().requests.length
    api().respond = () => {}
    await until(() => api().requests.length > asked)
    terminal.press('q')
    await shown
  })

  test('ends with a signal, too', async () => {
    api().says(topOf('alice'))
    const terminal = new FakeTerminal()
    const before = process.listenerCount('SIGTERM')
    const shown = showRepeatedly(client(), top.read([]), terminal, 1)
    await until(() => terminal.written.includes('alice'))
    process.emit('SIGTERM')
    await shown
    expect(process.listenerCount('SIGTERM')).toBe(before)
    expect(terminal.isRaw).toBe(false)
  })

  test('what is wrong from the start ends it before the screen changes', async () => {
    api().says({ error: { message: 'there is no policy "x"', code: 'unknown_policy' } }, 404)
    const terminal = new FakeTerminal()
    await expect(showRepeatedly(client(), top.read(['x']), terminal, 1)).rejects.toThrow('there is no policy "x"')
    expect(terminal.written).toBe('')
  })

  test('--json is printed once', async () => {
    api().says(topOf('alice'))
    const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    await showRepeatedly(client(), top.read(['--json']), new FakeTerminal(), 1)
    expect(written.mock.calls.map(([text]) => text)).toEqual([`${JSON.stringify(topOf('alice'))}\n`])
    written.mockRestore()
  })
})

function client(): AdminClient {
  return new AdminClient({ base: new URL(`${api().url}/`), token: ADMIN_TOKEN, actor: undefined })
}

function topOf(caller: string, rows = 1): object {
  return topResponse(Array(rows).fill({ policy: 'api', rule: 'per-key', values: { 'header:x-k': caller } }))
}

/** Both ends of a terminal with 10 rows of 80 columns. */
class FakeTerminal extends EventEmitter implements Terminal {
  written = ''
  isRaw = false

  readonly stdin: Terminal['stdin'] = Object.assign(this, {
    isTTY: true,
    setRawMode: (isRaw: boolean) => {
      this.isRaw = isRaw
    },
    resume: () => {},
    pause: () => {},
  }) as unknown as Terminal['stdin']

  readonly stdout = {
    isTTY: true,
    rows: 10,
    columns: 80,
    write: (text: string) => {
      this.written += text
      return true
    },
  }

  press(key: string): void {
    this.emit('data', Buffer.from(key))
  }
}
