import { expect } from 'vitest'

/** What the page will show when it has asked again: long enough for a busy machine. */
export function expectSoon<Value>(read: () => Promise<Value>) {
  return expect.poll(read, { timeout: 15_000 })
}
