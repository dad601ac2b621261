import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

// What each thread loads of it: loaded-code.slow.test.ts
test('what one mode alone needs is in no file that the other loads', async () => {
  const entry = await readFile(new URL('../../../program/worker-thread-main.js', import.meta.url), 'utf8')
  for (const code of ['class ReverseProxy', 'class DecisionWire', 'class FleetStore']) expect(entry).not.toContain(code)
})
