import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'vitest'

/**
 * Compares what there is with what was promised, a line for each name: `lists/NAME.txt`. A line that is gone breaks somebody, and only a person
 * removes it, with what docs/stability.md asks for. A new line is a promise from now on: `EDGE_TEST_STABLE=add npx vitest run test/stability` adds it.
 */
export function expectStable(name: string, lines: readonly string[]): void {
  const path = new URL(`lists/${name}.txt`, import.meta.url)
  const promised = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []
  const [gone, added] = changesOf(promised, lines)
  if (process.env['EDGE_TEST_STABLE'] === 'add' && added.length > 0) {
    writeFileSync(path, `${[...promised, ...added].sort().join('\n')}\n`)
  } else {
    expect(added, `not in test/stability/lists/${name}.txt: EDGE_TEST_STABLE=add npx vitest run test/stability`).toEqual([])
  }
  expect(gone, `promised in test/stability/lists/${name}.txt: docs/stability.md says how it may change`).toEqual([])
}

export function changesOf(promised: readonly string[], present: readonly string[]): [gone: string[], added: string[]] {
  return [promised.filter((line) => !present.includes(line)), [...new Set(present)].filter((line) => !promised.includes(line))]
}
