import { expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { ProgressBar, progressText } from './progress-bar.ts'

test('the share, the rate and the time that is left', () => {
  const text = progressText({ bytesRead: 50 * 1024 ** 2, requests: 250_000 }, 200 * 1024 ** 2, 1000)
  expect(text).toBe('[======                  ] 25 % of 200.0 MiB  250,000 requests, 250,000/s  3 s left')
})

test('of a pipe nobody knows how long it is', () => {
  expect(progressText({ bytesRead: 1024 ** 2, requests: 7 }, undefined, 500)).toBe('1.0 MiB  7 requests, 14/s')
  expect(progressText({ bytesRead: 0, requests: 0 }, 1024, 0)).toBe('[                        ] 0 % of 0.0 MiB  0 requests, 0/s')
})

test('it is drawn on a terminal, cut to its width, and cleared at the end', async () => {
  const written: string[] = []
  const terminal = { isTTY: true as const, columns: 20, write: (text: string | Uint8Array) => written.push(String(text)) > 0 }
  const bar = new ProgressBar(terminal, undefined, () => ({ bytesRead: 0, requests: 1 }))
  bar.start(1)
  await until(() => written.length > 1)
  bar.stop()
  const atEnd = written.length
  expect(written[0]).toBe('\r\x1b[K0.0 MiB  1 requests')
  expect(written.at(-1)).toBe('\r\x1b[K')
  bar.stop()
  expect(written).toHaveLength(atEnd)
})

test('elsewhere nothing is written', () => {
  const terminal = { isTTY: false, columns: 80, write: () => expect.unreachable() }
  const bar = new ProgressBar(terminal as never, undefined, () => ({ bytesRead: 0, requests: 1 }))
  bar.start(1)
  bar.stop()
})
