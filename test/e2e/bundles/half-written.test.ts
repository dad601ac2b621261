import { createHash } from 'node:crypto'
import { appendFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const PIECES = 60

// Writer and service share one event loop, so that between two looks 100 ms apart the writer, who is due every 10 ms,
// always gets his turn, however slow the machine.
describe('a bundle that is written slowly', () => {
  test('in YAML that is valid at every piece is taken once, whole', async () => {
    const clock = new ManualClock()
    const edge = await running({
      bundle: bundle(1, policy('old', { rules: [bucketRule('old', [], 100)] })),
      fileName: 'bundle.yaml',
      clock,
    })
    const rule = '{ name: r, limit_keys: [], algorithm: token_bucket, algorithm_config: { tokens_per_second: 1, burst: 50 } }'
    const pieces = Array.from({ length: PIECES }, (_, i) => `  - { id: p${i}, spec: { rules: [${rule}] } }\n`)
    const start = 'bundle_version: 2\npolicies:\n'

    const verdict = await verdictAfter(edge, async () => {
      writeFileSync(edge.bundlePath, start + pieces[0])
      for (const piece of pieces.slice(1)) {
        await sleep(10)
        appendFileSync(edge.bundlePath, piece)
      }
    })

    const hash = createHash('sha256')
      .update(start + pieces.join(''))
      .digest('hex')
    expect(verdict).toMatchObject({ event: 'bundle_applied', version: '2', hash, policies: PIECES })
    expect(bundleEvents(edge.log)).toEqual(['bundle_applied', 'bundle_applied'])
  })

  test('in JSON is neither taken nor refused before it is whole', async () => {
    const edge = await running({ bundle: bundle(1, policy('old', { rules: [bucketRule('old', [], 100)] })), clock: new ManualClock() })
    const text = JSON.stringify(bundle(2, ...Array.from({ length: 20 }, (_, i) => policy(`p${i}`, { rules: [bucketRule('r', [], 50)] }))))
    const step = Math.ceil(text.length / PIECES)

    const verdict = await verdictAfter(edge, async () => {
      writeFileSync(edge.bundlePath, '')
      for (let at = 0; at < text.length; at += step) {
        await sleep(10)
        appendFileSync(edge.bundlePath, text.slice(at, at + step))
      }
    })

    expect(verdict).toMatchObject({ event: 'bundle_applied', version: '2', policies: 20 })
    expect(bundleEvents(edge.log)).toEqual(['bundle_applied', 'bundle_applied'])
  })
})

function bundleEvents(log: readonly Record<string, unknown>[]): unknown[] {
  return log.map(({ event }) => event).filter((event) => String(event).startsWith('bundle_'))
}
