import { afterAll } from 'vitest'
import type { Owner } from './running.ts'

/** Owns what all tests of a `describe` use: it is cleared away after the last of them. Call it in the body of that. */
export function thisSuite(): Owner {
  const endings: (() => unknown)[] = []
  afterAll(async () => {
    for (const end of endings.reverse()) await end()
  })
  return { onTestFinished: (end) => void endings.push(end) }
}
