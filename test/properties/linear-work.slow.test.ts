import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const LENGTH = 1000
/** Exactly 2, but for what each text costs whatever its length, and for buffers that double now and then. */
const MOST_TIMES_THE_WORK = 2.4

test('what reads foreign bytes does twice the work for twice as many, and no more', () => {
  const script = path('count-steps.mjs')
  const { stdout, stderr } = spawnSync(process.execPath, [script, String(LENGTH), path('readers.mjs')], { encoding: 'utf8' })
  expect(stderr).toBe('')
  const steps = Object.entries(JSON.parse(stdout) as Record<string, [number, number]>)
  expect(steps.length).toBeGreaterThan(30)
  expect(steps.filter(([, [once, twice]]) => twice > MOST_TIMES_THE_WORK * once)).toEqual([])
})

function path(name: string): string {
  return fileURLToPath(new URL(`../support/linear/${name}`, import.meta.url))
}
