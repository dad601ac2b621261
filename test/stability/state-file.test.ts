import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, llmRule, policy, windowRule } from '../support/bundles/bundles.ts'
import type { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { KeptCounters, take } from '../support/state/kept-counters.ts'
import { sectionsOf } from '../support/state/sections.ts'

/** What this version saved on the day when the file was added. It is never written anew: a new layout gets a new file beside it. */
const SAVED = new URL('lists/state-2.base64', import.meta.url)

const BUNDLE = bundle(
  1,
  policy('p', {
    rules: [
      bucketRule('bucket', ['header:x-bucket'], 100, 1e-9),
      windowRule('window', ['header:x-window'], { limit: 100, period: '1d' }),
      llmRule('minute', ['header:x-minute'], { tokens_per_minute: 1, burst_tokens: 1000, max_completion_tokens: 10 }),
      llmRule('day', ['header:x-day'], { tokens_per_day: 1000, max_completion_tokens: 10 }),
    ],
  }),
)
const OVERRIDE = { policy: 'p', rule: 'bucket', values: { 'header:x-bucket': 'bob' }, multiply: 2, until: '30d', reason: 'a test' }

test('a state file of version 2 as it was when it was promised is loaded with all that is in it', async (t) => {
  const kept = await KeptCounters.of(t, BUNDLE)
  if (process.env['EDGE_TEST_STABLE'] === 'add' && !existsSync(SAVED)) await save(kept)
  const saved = Buffer.from(readFileSync(SAVED, 'utf8'), 'base64')
  await writeFile(kept.statePath, saved)
  const clock = new ManualClock()
  clock.advance(1000)
  const edge = await kept.run(ADMIN_ENV, clock)
  expect(await untilLogged(edge, 'state_loaded')).toMatchObject([{ counters: 5, saved_at: '2026-01-15T12:00:00.000Z' }])
  expect(await takenOnceMore(edge)).toEqual([96, 95, 960, 950])
  expect((await askAdmin(edge.adminPort, 'GET', 'overrides')).json.overrides).toMatchObject([
    { rule: 'bucket', multiply: 2, reason: 'a test' },
  ])
  expect(await take(edge, 1, 'bob', 'X-Bucket')).toBe(198)
  await edge.stop()
  const kinds = (file: Buffer) => [...new Set(sectionsOf(file).map(({ type }) => type))].sort()
  expect(kinds(await readFile(kept.statePath))).toEqual(kinds(saved))
})

function takenOnceMore(edge: Edge): Promise<number[]> {
  return Promise.all(['X-Bucket', 'X-Window', 'X-Minute', 'X-Day'].map((name) => take(edge, 1, 'alice', name)))
}

async function save(kept: KeptCounters): Promise<void> {
  const edge = await kept.run(ADMIN_ENV, new ManualClock())
  await askAdmin(edge.adminPort, 'POST', 'overrides', { body: OVERRIDE })
  for (const [name, times] of Object.entries({ 'X-Bucket': 3, 'X-Window': 4, 'X-Minute': 3, 'X-Day': 4 }))
    await take(edge, times, 'alice', name)
  await take(edge, 1, 'bob', 'X-Bucket')
  await edge.stop()
  writeFileSync(SAVED, (await readFile(kept.statePath)).toString('base64'))
}
