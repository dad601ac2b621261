import { expect, onTestFinished, test, vi } from 'vitest'
import { FinalHead } from './final-head.ts'

const NO_FIELDS = { text: '', hasDate: false, hasLength: false }

test('the date is that of the second in which the head is written', () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 2, 3, 4, 5, 900), toFake: ['Date', 'setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const head = new FinalHead(5000)
  const date = (): string => /Date: (.*)\r/.exec(head.text(200, undefined, NO_FIELDS, true, false))![1]!
  expect(date()).toBe('Fri, 02 Jan 2026 03:04:05 GMT')
  vi.advanceTimersByTime(99)
  expect(date()).toBe('Fri, 02 Jan 2026 03:04:05 GMT')
  vi.advanceTimersByTime(1)
  expect(date()).toBe('Fri, 02 Jan 2026 03:04:06 GMT')
  vi.advanceTimersByTime(60_000)
  expect(date()).toBe('Fri, 02 Jan 2026 03:05:06 GMT')
})

test('a head says what becomes of its connection, and how its body ends', () => {
  const head = new FinalHead(5999)
  expect(head.text(200, undefined, { text: 'Date: now\r\n', hasDate: true, hasLength: false }, true, false)).toBe(
    'HTTP/1.1 200 OK\r\nDate: now\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
  expect(head.isChunked).toBe(true)
  expect(head.text(204, 'Nothing', { text: 'Date: now\r\n', hasDate: true, hasLength: false }, false, true)).toBe(
    'HTTP/1.1 204 Nothing\r\nDate: now\r\nConnection: close\r\n\r\n',
  )
  expect(head.isChunked).toBe(false)
})
